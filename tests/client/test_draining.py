"""A job whose sources are ended by hand: event time comes to its end, and the job with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.client.job_client import JobClient
from headrace.common import Configuration, Duration, JobStatus, Types, WatermarkStrategy
from headrace.connectors.driver_sink import CollectSink
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource, StreamFormat
from tests.waiting import PATIENCE, wait_for

FAR = 1 << 50
"""An event time that no record has."""


class AtTheEnd(KeyedProcessFunction):
    """Emits nothing before its timer."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(FAR)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[int]:
        yield timestamp


def environment(settings: dict[str, str] | None = None) -> StreamExecutionEnvironment:
    known = {"headrace.runtime": "local", "parallelism.default": "2"} | (settings or {})
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(known))


def endless(env: StreamExecutionEnvironment) -> DataStream:
    source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(50), Types.LONG())
    return env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "endless").uid("endless")


def collected(stream: DataStream) -> list[Any]:
    found: list[Any] = []
    timers = stream.key_by(lambda _: 0, Types.LONG()).process(AtTheEnd(), Types.LONG()).uid("timers")
    timers.sink_to(CollectSink(found.extend)).uid("out")
    return found


def run_a_while(env: StreamExecutionEnvironment) -> JobClient:
    client = env.execute_async("drained")
    wait_for(lambda: client.get_accumulators().result().get("numRecordsRead", 0))
    return client


def test_timers_fire_and_the_job_has_finished(tmp_path: Path) -> None:
    env = environment({"execution.checkpointing.dir": str(tmp_path)})
    found = collected(endless(env))
    client = run_a_while(env)
    client.stop(drain=True).result(timeout=PATIENCE)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert found == [FAR]
    again = environment({"execution.checkpointing.dir": str(tmp_path)})
    found = collected(endless(again))
    again.execute()
    assert found == [], "nothing is left to do"


def test_a_plain_stop_fires_none(tmp_path: Path) -> None:
    env = environment({"execution.checkpointing.dir": str(tmp_path)})
    found = collected(endless(env))
    run_a_while(env).stop().result(timeout=PATIENCE)
    assert found == []


def test_sources_without_splits_and_idle_ones_end_as_well(tmp_path: Path) -> None:
    env = environment()
    (tmp_path / "watched").mkdir()
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "watched"))
    watched = files.monitor_continuously(Duration.of_seconds(1)).build()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(1))
    lines = env.from_source(watched, strategy, "watched").map(len, Types.LONG())
    found = collected(lines.union(endless(env)))
    client = run_a_while(env)
    client.stop(drain=True).result(timeout=PATIENCE)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert found == [FAR]


def test_a_job_that_rests_between_epochs_drains_at_once() -> None:
    env = environment({"headrace.epoch.min-interval": "1 h"})
    found = collected(endless(env))
    client = run_a_while(env)
    client.stop(drain=True).result(timeout=PATIENCE)
    assert found == [FAR]
