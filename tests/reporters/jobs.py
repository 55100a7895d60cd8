"""Jobs that reporters show, and what they show of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from headrace.client.job_client import JobClient
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from headrace.metrics.samples import MetricSample
from tests.jobmanager.steady import Steady
from tests.waiting import PATIENCE, wait_for

ENDLESS = 1 << 40


class Measure(MapFunction):
    """Has one metric of each kind, one of them in groups."""

    def open(self, runtime_context: RuntimeContext) -> None:
        metrics = runtime_context.get_metrics_group()
        self.seen = metrics.counter("seen")
        self.odd = metrics.add_group("numbers").add_group("parity", "odd").counter("seen")
        self.rate = metrics.meter("rate", 10)
        self.sizes = metrics.distribution("sizes")
        metrics.gauge("answer", lambda: 42)

    def map(self, value: int) -> int:
        self.seen.inc()
        self.odd.inc(value % 2)
        self.rate.mark_event()
        self.sizes.update(value)
        return value


def environment(settings: Mapping[str, str], *, runtime: str = "local") -> StreamExecutionEnvironment:
    """One for jobs of small epochs."""
    given = {
        "headrace.runtime": runtime,
        "headrace.epoch.max-records": "1000",
        "headrace.epoch.target-duration": "60s",
        "headrace.epoch.min-interval": "20 ms",
        "pipeline.name": "numbers and more",
        "parallelism.default": "2",
        **settings,
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))


def build(env: StreamExecutionEnvironment, *, records: int = ENDLESS) -> None:
    """Numbers, measured and shuffled."""
    times = WatermarkStrategy.for_monotonous_timestamps()
    numbers = env.from_source(Steady([(records, 1)], is_bounded=records < ENDLESS), times, "numbers").uid("numbers")
    measured = numbers.map(Measure(), output_type=Types.LONG()).name("measure").uid("measure")
    measured.key_by(lambda number: number % 7).map(lambda number: number, Types.LONG()).name("keyed").uid(
        "keyed"
    ).sink_to(CollectSink(lambda _: None)).name("nowhere").uid("nowhere")


@contextmanager
def running(settings: Mapping[str, str], *, runtime: str = "local") -> Iterator[JobClient]:
    """Inside, a job runs that has completed an epoch."""
    env = environment(settings, runtime=runtime)
    build(env)
    client = env.execute_async()
    try:
        wait_for(lambda: client.snapshot().completed > 0)
        yield client
    finally:
        client.cancel().result(PATIENCE)


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def by_name(samples: list[MetricSample]) -> dict[tuple[str, str, str], Any]:
    """Values by operator, subtask and name; the first two are empty for what is of the job."""
    return {
        (
            sample.scope.variables.get("operator_name", ""),
            sample.scope.variables.get("subtask_index", ""),
            sample.name,
        ): sample.value
        for sample in samples
    }
