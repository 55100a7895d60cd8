"""From when a record is sent to a topic to when a reader of committed records has its result, in another topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.data import NoFiles
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work
from benchmarks.suite.latency import RATE, totals
from benchmarks.suite.topics import kafka_in, log_in

if TYPE_CHECKING:
    from benchmarks.brokers import Broker
    from benchmarks.suite.base import Scale

_LIMITS = {"p50": 250, "p99": 600}
"""Milliseconds, by percentile."""


@dataclass(frozen=True, slots=True)
class TopicsLatencyBenchmark:
    """Percentiles over all records of the steady state, with headrace's default settings.

    Attributes:
        name: what ``--only`` calls it.
        title: for people.
        broker: gives where the topics are, in a folder, for as long as they are needed.
    """

    name: str
    title: str
    broker: Callable[[Path], AbstractContextManager[Broker]]

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        seconds, warm_up = scale.choose(180, 6), scale.choose(60, 1)
        expected = totals(RATE * seconds)

        def truth(_: Path, __: Mapping[str, float]) -> Mapping[str, float]:
            return expected

        work = Work(NoFiles(), records_per_epoch=None, truth=truth, after=RATE * warm_up)
        with self.broker(lab.folder / "topics") as broker:
            options: dict[str, Any] = {**broker.options, "rate": RATE, "seconds": seconds, "warm_up": warm_up}
            found = lab.race(work, [Contestant("headrace", "headrace_topics_latency", options)], rounds=1)
        latency = found["headrace"].details["latency ms"]
        for percentile, limit in _LIMITS.items():
            shown = found if percentile == "p50" else {}  # the same epochs need not be shown twice
            target = Target(limit, at_least=False)
            yield Finding(self.name, f"{RATE:,} records/s, {percentile}", latency[percentile], "ms", target, shown)


def _title(what: str) -> str:
    return f"Latency: {RATE:,} records a second from topic to topic of {what}, through one shuffle and keyed state"


KAFKA_LATENCY = TopicsLatencyBenchmark("kafka-latency", _title("Kafka"), kafka_in)
LOG_LATENCY = TopicsLatencyBenchmark("log-latency", _title("the embedded log"), log_in)
