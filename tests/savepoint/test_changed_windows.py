"""Jobs whose windows are of another size than in what they start from, on both runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.client.job_client import JobClient
from headrace.common import Configuration, Duration, Time, Types, WatermarkStrategy
from headrace.common.errors import StateMigrationError
from headrace.common.serialization import Encoder
from headrace.common.watermark_strategy import TimestampAssigner
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.aggregates import sum
from headrace.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from headrace.datastream.window import TumblingEventTimeWindows
from tests.savepoint.jobs import DEADLINE, Place, wait_for_records

FROM = "execution.state-recovery.path"
CHANGED = "execution.state-recovery.changed-windows"
SPARK = {"headrace.runtime": "spark", "headrace.spark.master": "local[2]"}
EVENT = Types.ROW_NAMED(["key", "amount", "time"], [Types.STRING(), Types.LONG(), Types.LONG()])


class EventTime(TimestampAssigner):
    """That of the record."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value.time)


def start(place: Place, name: str, seconds: int, parallelism: int, settings: dict[str, str]) -> JobClient:
    """Totals by window, with built-in aggregates and with a function."""
    known = {
        "headrace.runtime": "local",
        "parallelism.default": str(parallelism),
        "execution.checkpointing.dir": str(place.root / name),
        "execution.checkpointing.savepoint-dir": str(place.root / "savepoints"),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(known | settings))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(place.input))
    watched = source.monitor_continuously(Duration.of_millis(20)).build()
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(EventTime())
    lines = env.from_source(watched, WatermarkStrategy.no_watermarks(), "lines").uid("lines")
    events = lines.map(_parsed, EVENT).assign_timestamps_and_watermarks(times).uid("times")
    windows = events.key_by("key").window(TumblingEventTimeWindows.of(Time.seconds(seconds)))
    summed = windows.aggregate(sum("amount").alias("total")).uid("columnar")
    reduced = windows.reduce(lambda one, other: (one.key, one.amount + other.amount, one.time)).uid("general")
    shown = summed.map(lambda row: f"columnar {row.key} {row.window_end} {row.total}", Types.STRING())
    sink = FileSink.for_row_format(str(place.root / f"out-{name}"), Encoder.simple_string_encoder()).build()
    shown.union(reduced.map(lambda row: f"general {row.key} {row.amount}", Types.STRING())).sink_to(sink).uid("out")
    return env.execute_async("windows")


def _parsed(line: str) -> tuple[str, int, int]:
    key, amount, time = line.split(",")
    return key, int(amount), int(time)


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped job with windows of 10 s: k0 to k3 have 1 and 10 in the open one from 10 s on, and had 100 before."""
    place = Place(tmp_path_factory.mktemp("taken"))
    rows = [*((f"k{n}", 100, 2_000) for n in range(4)), *((f"k{n}", 1, 12_000) for n in range(4))]
    (place.input / "a").write_text("".join(f"{key},{amount},{time}\n" for key, amount, time in rows))
    client = start(place, "job", 10, 2, {})
    wait_for_records(client, 8)
    Path(client.stop_with_savepoint(False).result(DEADLINE)).rename(place.root / "savepoint")
    return place.root


def went_on(taken: Path, tmp_path: Path, kind: str, changed: str, runtime: dict[str, str]) -> list[str]:
    place = Place(tmp_path)
    (place.input / "b").write_text("k0,10,18000\nk1,10,25000\n")
    settings = {FROM: str(taken / kind), CHANGED: f"columnar={changed};general={changed}", **runtime}
    client = start(place, "new", 20, 3, settings)
    wait_for_records(client, 10)
    client.stop_with_savepoint(True).result(DEADLINE)
    return sorted(place.lines("out-new"))


MOVED = [
    "columnar k0 20000 11",
    "columnar k1 20000 1",
    "columnar k1 40000 10",
    "columnar k2 20000 1",
    "columnar k3 20000 1",
    "general k0 11",
    "general k1 1",
    "general k1 10",
    "general k2 1",
    "general k3 1",
]
BEGUN_EMPTY = ["columnar k0 20000 10", "columnar k1 40000 10", "general k0 10", "general k1 10"]
WANTED = {"reaggregate": MOVED, "drop": BEGUN_EMPTY}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["savepoint", "job"])
@pytest.mark.parametrize("changed", WANTED)
def test_what_windows_held_moves_or_is_dropped(taken: Path, tmp_path: Path, kind: str, changed: str) -> None:
    assert went_on(taken, tmp_path, kind, changed, {}) == WANTED[changed]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(("kind", "changed"), [("savepoint", "drop"), ("job", "reaggregate")])
def test_on_spark(taken: Path, tmp_path: Path, kind: str, changed: str) -> None:
    assert went_on(taken, tmp_path, kind, changed, SPARK) == WANTED[changed]


@pytest.mark.parametrize("kind", ["savepoint", "job"])
def test_else_it_is_refused_and_nothing_is_published(taken: Path, tmp_path: Path, kind: str) -> None:
    place = Place(tmp_path)
    (place.input / "b").write_text("k0,10,18000\n")
    error = start(place, "new", 20, 3, {FROM: str(taken / kind)}).get_job_execution_result().exception(DEADLINE)
    assert isinstance(error, StateMigrationError)
    assert "another size in milliseconds: stored 10000, declared 20000" in str(error)
    assert "headrace run --changed-windows" in str(error)
    assert place.lines("out-new") == []
