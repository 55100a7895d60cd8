"""What goes wrong in a source is told of it: its name, and the line of the program that made it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from headrace.common import SimpleStringSchema, WatermarkStrategy
from headrace.common.configuration import Configuration
from headrace.common.errors import BadRecordError, ConfigurationError, HeadraceError, UserFunctionError
from headrace.connectors.hybrid import HybridSource
from headrace.connectors.ranges import NumberSequenceSource
from headrace.connectors.source import Boundedness, Source
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource
from headrace.datastream.connectors.log import LogSource, OffsetsInitializer
from headrace.datastream.formats.json import JsonLinesFormat
from headrace.log import Log


def failure(source: Source[Any], kind: type[HeadraceError]) -> tuple[str, str]:
    """What a job that reads a source fails with, and the line where the source was given to it."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    frame = inspect.currentframe()
    assert frame is not None
    line = frame.f_lineno + 1
    env.from_source(source, WatermarkStrategy.no_watermarks(), "orders").print()
    with pytest.raises(kind) as caught:
        env.execute()
    assert type(caught.value) is kind
    return str(caught.value), f"  source 'orders' defined at {__file__}:{line} in failure"


def test_what_the_driver_finds(tmp_path: Path) -> None:
    Log.open(f"{tmp_path}/log", create=True).create_topic("orders")
    asked: LogSource[str] = (
        LogSource.builder()
        .set_log(f"{tmp_path}/log")
        .set_topics("ordres")
        .set_bounded(OffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    told, place = failure(asked, ConfigurationError)
    assert told == f"there is no topic 'ordres', or it may not be seen: did you mean orders?\n{place}"


def test_a_record_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "orders.json").write_text('{"id": "one"}\n')
    told, place = failure(
        FileSource.for_record_stream_format(JsonLinesFormat({"id": int}), str(tmp_path)).build(), BadRecordError
    )
    assert told.startswith(f"{tmp_path}/orders.json:1: ")
    assert told.endswith(place)
    assert told.count("defined at") == 1


def broken(context: Any) -> NumberSequenceSource:
    return NumberSequenceSource(context.nowhere, 9)


def test_code_of_the_program_that_a_source_calls() -> None:
    source: HybridSource[int] = (
        HybridSource.builder(NumberSequenceSource(1, 2)).add_source(broken, Boundedness.BOUNDED).build()
    )
    told, place = failure(source, UserFunctionError)
    first, what, *rest = told.splitlines()
    assert first == "source 'orders' failed"
    assert what.startswith("  AttributeError: ")
    assert rest[0].startswith(f"  at {__file__}:")
    assert rest[0].endswith(" in broken")
    assert rest[-1] == place.replace(" 'orders'", "")
