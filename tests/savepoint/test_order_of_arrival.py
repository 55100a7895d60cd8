"""Windows that are open while a job starts from a savepoint know which of their records came first, and which last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.client.job_client import JobClient
from headrace.common import Configuration, Duration, Time, Types, WatermarkStrategy
from headrace.common.serialization import Encoder
from headrace.common.watermark_strategy import TimestampAssigner
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.aggregates import collect_list, first, last
from headrace.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from headrace.datastream.window import CountEvictor, TumblingEventTimeWindows
from tests.savepoint.jobs import DEADLINE, Place, wait_for_records

EVENT = Types.ROW_NAMED(["key", "value", "time"], [Types.STRING(), Types.LONG(), Types.LONG()])


class EventTime(TimestampAssigner):
    """That of the record."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value.time)


def start(place: Place, name: str, settings: dict[str, str]) -> JobClient:
    known = {
        "headrace.runtime": "local",
        "parallelism.default": "1",
        "execution.checkpointing.dir": str(place.root / name),
        "execution.checkpointing.savepoint-dir": str(place.root / "savepoints"),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(known | settings))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(place.input))
    watched = source.monitor_continuously(Duration.of_millis(20)).build()
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(EventTime())
    lines = env.from_source(watched, WatermarkStrategy.no_watermarks(), "lines").uid("lines")
    events = lines.map(_parsed, EVENT).assign_timestamps_and_watermarks(times).uid("times")
    windows = events.key_by("key").window(TumblingEventTimeWindows.of(Time.seconds(10)))
    asked = [first("value").alias("first"), last("value").alias("last"), collect_list("value").alias("all")]
    columnar = windows.aggregate(*asked).uid("columnar")
    windows = events.key_by("key").window(TumblingEventTimeWindows.of(Time.seconds(10)))
    general = windows.evictor(CountEvictor.of(100)).aggregate(*asked).uid("general")
    sink = FileSink.for_row_format(str(place.root / f"out-{name}"), Encoder.simple_string_encoder()).build()
    shown = columnar.union(general).map(lambda row: f"{row.first} {row.last} {row.all}", Types.STRING())
    shown.sink_to(sink).uid("out")
    return env.execute_async("arrivals")


def _parsed(line: str) -> tuple[str, int, int]:
    key, value, time = line.split(",")
    return key, int(value), int(time)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("start_from", ["savepoint", "checkpoints"])
def test_epochs_are_counted_on(tmp_path: Path, start_from: str) -> None:
    place = Place(tmp_path)
    client = start(place, "job", {})
    for number in range(4):  # each in an epoch of its own
        (place.input / f"a{number}").write_text(f"k,{number},1000\n")
        wait_for_records(client, number + 1)
    savepoint = client.stop_with_savepoint(False).result(DEADLINE)
    path = savepoint if start_from == "savepoint" else str(tmp_path / "job")
    client = start(place, "new", {"execution.state-recovery.path": path})
    (place.input / "b").write_text("k,9,2000\n")
    wait_for_records(client, 5)
    client.stop_with_savepoint(True).result(DEADLINE)
    assert place.lines("out-new") == ["0 9 [0, 1, 2, 3, 9]"] * 2
