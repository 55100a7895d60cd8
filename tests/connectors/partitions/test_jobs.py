"""Jobs that read topics: event time of each partition, lag, dead letters, going on after a stop."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from headrace.common import (
    Encoder,
    JobStatus,
    JsonRowDeserializationSchema,
    SimpleStringSchema,
    Types,
    WatermarkStrategy,
)
from headrace.common.configuration import Configuration
from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import InvalidProgramError
from headrace.common.messages import TopicPartition
from headrace.common.time import Duration
from headrace.connectors.partitions import OffsetResetStrategy, OffsetsInitializer
from headrace.datastream import OutputTag, StreamExecutionEnvironment
from headrace.datastream.connectors import FileSink
from headrace.testing import JobHarness
from tests.connectors.partitions.driver import TopicDriver
from tests.waiting import PATIENCE

TIMES = WatermarkStrategy.for_monotonous_timestamps()


def driven(topic: TopicDriver, watermarks: WatermarkStrategy = TIMES, source: Any = None, **more: Any) -> JobHarness:
    """A job that hands on what the topic has, run epoch by epoch, with a clock of the test."""
    read = (source or topic.reading()).set_value_only_deserializer(SimpleStringSchema()).build()

    def build(job: JobHarness) -> None:
        job.add_sink("out", job.env.from_source(read, watermarks, "in").uid("in"))

    return JobHarness(build, **more)


def environment(tmp_path: Path, **settings: str) -> StreamExecutionEnvironment:
    usual = {"headrace.runtime": "local", "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(usual | settings))


def test_a_silent_partition_holds_event_time_until_it_is_idle(topic: TopicDriver) -> None:
    topic.grow(2)
    topic.put(["a"], timestamp=5_000)
    with driven(topic, TIMES.with_idleness(Duration.of_seconds(10))) as job:
        job.run_epoch()
        assert job.watermark("out-sink") == MIN_WATERMARK
        job.advance_processing_time(10_000)
        topic.put(["b"], timestamp=6_000)
        job.run_epoch()
        assert job.watermark("out-sink") == 5_999
        topic.put(["late"], partition=1, timestamp=1_000)
        job.run_epoch()
        assert sorted(job.results("out")) == ["a", "b", "late"]


def test_partitions_are_aligned(topic: TopicDriver) -> None:
    """The partition that is ahead waits, until the other one is read or is idle."""
    topic.grow(2)
    topic.put(["old", "older"], timestamp=1_000)
    topic.put(["new"], partition=1, timestamp=1_000_000)
    strategy = TIMES.with_watermark_alignment("all", Duration.of_seconds(60)).with_idleness(Duration.of_seconds(5))
    with driven(topic, strategy) as job:
        job.run_epoch()
        topic.put(["newer"], partition=1, timestamp=2_000_000)
        job.run_epoch()
        assert sorted(job.take("out")) == ["new", "old", "older"]
        topic.put(["caught up"], timestamp=1_990_000)
        job.run_epoch()
        job.run_epoch()
        assert job.take("out") == ["caught up", "newer"]


def test_how_far_a_job_is_behind(topic: TopicDriver) -> None:
    """In records that are there and not read, those of a partition that waits included, and in time."""
    topic.grow(2)
    topic.put(range(10), timestamp=1_000)
    topic.put(["new"], partition=1, timestamp=30_000)
    aligned = TIMES.with_watermark_alignment("all", Duration.of_seconds(1))
    with driven(topic, aligned, processing_time=61_000) as job:
        job.run_epoch()
        gauges = job._manager.shown_metrics()
        assert gauges["in.pendingRecords"] == 0
        assert (gauges["in.currentFetchEventTimeLag"], gauges["in.watermarkLag"]) == (60_000, 60_001)
        topic.put(range(3), partition=1, timestamp=40_000)
        job.run_epoch()
        assert job._manager.shown_metrics()["in.pendingRecords"] == 3


def test_what_starts_at_the_end_stays_there_after_a_restart(topic: TopicDriver) -> None:
    """Also partitions of which nothing was read yet."""
    topic.grow(2)
    for partition in (0, 1):
        topic.put(["before"], partition=partition)
    latest = OffsetsInitializer.latest()
    with driven(topic, source=topic.reading(latest)) as job:
        job.run_epoch()
        topic.put(["after"])
        job.run_epoch()
        assert job.results("out") == ["after"]
        kept = job.checkpoint()
    topic.put(["while it was down"], partition=1)
    with driven(topic, source=topic.reading(latest), restore=kept) as job:
        job.run_epoch()
        assert job.results("out") == ["while it was down"]


def test_a_job_ends_though_what_it_should_read_was_deleted(topic: TopicDriver) -> None:
    topic.put(range(4))

    def source() -> Any:
        stop = OffsetsInitializer.offsets({TopicPartition(topic.name, 0): 10})
        return topic.reading(reset=OffsetResetStrategy.EARLIEST).set_bounded(stop)

    with driven(topic, source=source()) as job:
        job.run_epoch()
        assert job.results("out") == ["0", "1", "2", "3"]
        kept = job.checkpoint()
    topic.put(range(4, 12))
    topic.delete_before(11)
    with driven(topic, source=source(), restore=kept) as job:
        job.run_epoch()
        assert job.results("out") == []
        with pytest.raises(InvalidProgramError, match="the job has come to its end"):
            job.run_epoch()


def test_bad_messages_and_the_group_of_a_job(topic: TopicDriver, tmp_path: Path) -> None:
    topic.grow(2)
    topic.put(["x", "y", '{"n": 1}'])
    topic.put(["no", "yes"], partition=1)
    bad, group = OutputTag("bad"), f"group-{topic.name}"
    schema = JsonRowDeserializationSchema(Types.ROW_NAMED(["n"], [int]))
    made = topic.reading(group=group).set_value_only_deserializer(schema).set_dead_letter(bad)
    source = made.set_bounded(OffsetsInitializer.latest()).build()
    read = environment(tmp_path).from_source(source, WatermarkStrategy.no_watermarks(), "read")
    letters = read.get_side_output(bad).map(lambda letter: f"{letter[0]} {letter[1]}", Types.STRING())
    found = sorted(read.map(lambda row: str(row.n), Types.STRING()).union(letters).execute_and_collect())
    assert found == ["1", *(f"{topic.name}-{each}" for each in ("0@0 x", "0@1 y", "1@0 no", "1@1 yes"))]
    assert topic.committed(group) == {0: 3, 1: 2}


def test_a_job_that_was_stopped_goes_on_where_it_was(topic: TopicDriver, tmp_path: Path) -> None:
    def run(count: int) -> list[str]:
        source = topic.reading().set_value_only_deserializer(SimpleStringSchema()).build()
        lines = environment(tmp_path).from_source(source, WatermarkStrategy.no_watermarks(), "read").uid("read")
        sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
        lines.sink_to(sink).uid("write")
        job = lines.get_execution_environment().execute_async("copy")
        written: list[str] = []
        while len(written) < count:
            time.sleep(0.05)
            files = [file for file in (tmp_path / "out").rglob("*") if file.is_file() and file.name[0] not in "._"]
            written = [line for file in files for line in file.read_text().splitlines()]
            assert job.get_job_status().result() in (JobStatus.RUNNING, JobStatus.CREATED)
        job.stop()
        job.get_job_execution_result().result(PATIENCE)
        return written

    topic.put(range(50))
    assert sorted(map(int, run(50))) == list(range(50))
    topic.put(range(50, 80))
    assert sorted(map(int, run(80))) == list(range(80))


def test_one_job_after_the_other_by_the_offsets_of_a_group(topic: TopicDriver, tmp_path: Path) -> None:
    start, group = OffsetsInitializer.committed_offsets(OffsetResetStrategy.EARLIEST), f"group-{topic.name}"
    for first in range(0, 60, 20):
        topic.put(range(first, first + 20))
        made = topic.reading(start, group=group).set_value_only_deserializer(SimpleStringSchema())
        source = made.set_bounded(OffsetsInitializer.latest()).build()
        env = environment(
            tmp_path / str(first), **{"headrace.epoch.max-records": "7", "headrace.epoch.target-duration": "60s"}
        )
        with env.from_source(source, TIMES, "read").execute_and_collect() as found:
            assert list(map(int, found)) == list(range(first, first + 20))
