"""Sources and sinks that are made from names and options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.common import Row, Types, WatermarkStrategy
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, InvalidTypeError, UnsupportedOperationError
from headrace.common.time import Duration
from headrace.connectors.connector import CONNECTORS
from headrace.connectors.source import Boundedness
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors import create_sink, create_source
from headrace.formats.file_format import FORMATS, Format

ORDER = Types.ROW_NAMED(["id", "name"], [int, str])
ROWS = [Row(id=1, name="a b"), Row(id=2, name="ü;x"), Row(id=3, name="")]


def run(records: list[Row], sink: dict[str, Any], source: dict[str, Any], kind: Any) -> list[Any]:
    """What comes back of records that a job has written and another one reads."""
    settings = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.from_collection(records, ORDER).sink_to(create_sink("filesystem", sink))
    env.execute()
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    read = env.from_source(create_source("filesystem", source, kind), WatermarkStrategy.no_watermarks(), "read")
    with read.execute_and_collect() as found:
        return list(found)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"format": "csv", "csv.header": True, "csv.field-delimiter": ";"}, ORDER),
        ({"format": "json"}, ORDER),
        ({"format": "parquet"}, None),
    ],
    ids=["csv", "json", "parquet"],
)
def test_files_there_and_back(options: dict[str, Any], kind: Any, tmp_path: Path) -> None:
    where = {"path": str(tmp_path), **options}
    assert run(ROWS, where, where, kind) == ROWS
    assert [path.parent for path in tmp_path.rglob("part-*")] == [tmp_path], "no folders for hours"


def test_options_of_csv_reach_the_files(tmp_path: Path) -> None:
    options = {"path": str(tmp_path), "format": "csv", "csv.header": True, "csv.field-delimiter": ";"}
    run(ROWS, options, options, ORDER)
    (written,) = tmp_path.glob("part-*")
    assert written.read_text() == 'id;name\n1;a b\n2;"ü;x"\n3;\n'


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    settings = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.from_collection(["x"], Types.STRING()).sink_to(
        create_sink("print", {"print-identifier": "p", "standard-error": True})
    )
    env.execute()
    assert capsys.readouterr().err.endswith("p> x\n")


def test_a_folder_that_is_watched(tmp_path: Path) -> None:
    options = {"path": str(tmp_path), "format": "text"}
    watched = {**options, "source.monitor-interval": Duration.of_seconds(1)}
    assert create_source("filesystem", options).boundedness is Boundedness.BOUNDED
    assert create_source("filesystem", watched).boundedness is Boundedness.CONTINUOUS_UNBOUNDED


FILES = {"path": "/tmp/x", "format": "text"}


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("kafka", {}, "there is no connector 'kafka': there are 'filesystem', 'jdbc', 'postgres-cdc', 'print'"),
        ("filesystem", {"path": "/tmp/x"}, "connector 'filesystem' needs 'format'"),
        ("filesystem", {**FILES, "pfad": "x"}, "connector 'filesystem' has no option 'pfad'"),
        ("filesystem", {**FILES, "format": "excel"}, "there is no format 'excel': there are 'avro', 'csv'"),
        ("filesystem", {**FILES, "text.charsett": "x"}, "format 'text' has no option 'charsett': .*'charset'"),
        ("filesystem", {**FILES, "csv.header": "true"}, "connector 'filesystem' has no option 'csv.header'"),
        ("filesystem", {**FILES, "source.monitor-interval": "soon"}, "source.monitor-interval = 'soon': expected"),
    ],
)
def test_what_is_wrong_is_named(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        create_source(name, options)
    with pytest.raises(ConfigurationError, match=said):
        create_sink(name, options)


def test_no_option_is_without_effect() -> None:
    with pytest.raises(ConfigurationError, match=r"'sink.rolling-policy.file-size' means nothing for a source"):
        create_source("filesystem", {**FILES, "sink.rolling-policy.file-size": "1 mb"})
    with pytest.raises(ConfigurationError, match=r"'source.monitor-interval' means nothing for a sink"):
        create_sink("filesystem", {**FILES, "source.monitor-interval": "1 s"})
    with pytest.raises(ConfigurationError, match=r"format that rolls at every checkpoint"):
        create_sink("filesystem", {**FILES, "format": "parquet", "sink.rolling-policy.file-size": "1 mb"})


def test_types_that_do_not_fit() -> None:
    with pytest.raises(InvalidTypeError, match="format 'csv' needs the type of the records"):
        create_source("filesystem", {**FILES, "format": "csv"})
    with pytest.raises(InvalidTypeError, match="the records of format 'text' are"):
        create_source("filesystem", FILES, Types.LONG())


def test_halves_that_are_not_there() -> None:
    with pytest.raises(UnsupportedOperationError, match="connector 'print' has a sink, but no source"):
        create_source("print", {})
    with pytest.raises(UnsupportedOperationError, match="format 'half' can only be written"):
        Format("half").create_decoding_format(None, Configuration())
    with pytest.raises(UnsupportedOperationError, match="format 'half' can only be read"):
        Format("half").create_encoding_format(Configuration())


@pytest.mark.parametrize("group", [CONNECTORS, FORMATS], ids=lambda group: group.name)
def test_all_that_come_along_can_be_loaded(group: Any) -> None:
    for name in group.built_in:
        assert str(group.load(name)) == f"{group.kind.noun} {name!r}"
