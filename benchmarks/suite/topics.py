"""Payments from one topic to another, of Kafka and of the embedded log: as they are, and as windows of each card."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import payments
from benchmarks.brokers import Broker, EmbeddedLog, Kafka
from benchmarks.data import RandomKeys, dataset
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab
from benchmarks.suite.backlog import Backlog, Runs, race, rate
from benchmarks.suite.window import STORES, truth
from benchmarks.truth import copied_totals
from headrace.broker import KafkaCluster

if TYPE_CHECKING:
    from benchmarks.findings import Measured
    from benchmarks.suite.base import Scale

_CARDS = 10_000
_WORKS: Mapping[str, Callable[[Path, Mapping[str, float]], Mapping[str, float]]] = {
    "pass-through": lambda source, _: copied_totals(source),
    "windows": truth,
}
_OF_THE_LOOP = 0.5
_TIMES_SPARK = 1.0
_OF_THE_LOG = {"log_append": 1_500_000, "log_poll": 3_000_000}
"""Programs that use the log without a job, and what is asked of them in records a second."""
_OF_JOBS = {"pass-through": 500_000, "windows": 500_000}
_SPARKS_BATCHES = 10
_HEADRACE = "headrace"

LOOPS = tuple(
    Contestant(f"loop: {codec}, {count} at once", "confluent_loop", {"codec": codec, "processes": count})
    for codec in ("json", "bytes")
    for count in (1, 2)
)
"""Those that read and write JSON are the limit; the others only show what that takes."""


@contextmanager
def kafka_in(folder: Path) -> Iterator[Kafka]:
    """A broker on this machine, which keeps nothing."""
    shutil.rmtree(folder, ignore_errors=True)
    with KafkaCluster(folder) as cluster:
        yield Kafka(cluster.bootstrap_servers)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def log_in(folder: Path) -> Iterator[EmbeddedLog]:
    """A log that is gone afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    yield EmbeddedLog(str(folder))
    shutil.rmtree(folder, ignore_errors=True)


def _payments(scale: Scale) -> RandomKeys:
    return RandomKeys(scale.files, scale.per_epoch, _CARDS, strings=True)


def _filled(broker: Broker, data: RandomKeys, lab: Lab) -> dict[str, Any]:
    """A topic with the payments, and what programs are told of it."""
    topic = payments.fill(broker, dataset(data, lab.folder / "data"))
    return {**broker.options, "topic": topic, "records": data.records, "default_sizes": True}


def _headrace(work: str) -> Contestant:
    return Contestant(_HEADRACE, "headrace_topics", {"work": work})


def _at_least_once(work: str) -> Contestant:
    options = {"work": work, "guarantee": "AT_LEAST_ONCE"}
    return Contestant("headrace, at least once", "headrace_topics", options)


def _spark(store: str, work: str) -> Contestant:
    return Contestant(STORES[store], "spark_kafka", {"work": work, "store": store})


def _race(
    lab: Lab, scale: Scale, data: RandomKeys, work: str, here: Sequence[Contestant], shared: Mapping[str, Any]
) -> dict[str, Measured]:
    todo = Backlog(data, data.records // _SPARKS_BATCHES, _WORKS[work])
    runs = [Runs(todo, Contestant(each.name, each.program, {**shared, **each.options})) for each in here]
    return race(lab, runs, scale.rounds)


class KafkaBenchmark:
    """How many records a second, beside Spark's own source and sink and beside a bare loop."""

    name = "kafka"
    title = "Kafka to Kafka: payments of 90 bytes of JSON"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        data = _payments(scale)
        with kafka_in(lab.folder / "kafka") as broker:
            shared = _filled(broker, data, lab)
            for work in _WORKS:
                sparks = [_spark(store, work) for store in (STORES if work == "windows" else ("hdfs",))]
                loops = LOOPS if work == "pass-through" else ()
                found = _race(lab, scale, data, work, [_headrace(work), _at_least_once(work), *sparks, *loops], shared)
                yield self._beside(found, work, sparks, _TIMES_SPARK, "times the records/s of Spark's own")
                limits = [each for each in loops if each.options["codec"] == "json"]
                if limits:
                    yield self._beside(found, work, limits, _OF_THE_LOOP, "of the records/s of a bare loop")

    def _beside(
        self, found: Mapping[str, Measured], work: str, others: Sequence[Contestant], limit: float, note: str
    ) -> Finding:
        fastest = max(rate(found[each.name]) for each in others)
        shown = {name: each for name, each in found.items() if name in (_HEADRACE, *(other.name for other in others))}
        return Finding(
            self.name, work, rate(found[_HEADRACE]) / fastest, "x", Target(limit, at_least=True), shown, note
        )


class LogBenchmark:
    """How many records a second the embedded log takes and gives, and a job from topic to topic does."""

    name = "log"
    title = "The embedded log, alone and as both ends of a job: payments of 90 bytes of JSON"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        data = _payments(scale)
        with log_in(lab.folder / "log") as log:
            shared = _filled(log, data, lab)
            for program, least in _OF_THE_LOG.items():
                yield self._rate(lab, scale, data, Contestant(program, program), shared, least)
            for work, least in _OF_JOBS.items():
                yield self._rate(lab, scale, data, _headrace(work), shared, least)

    def _rate(
        self, lab: Lab, scale: Scale, data: RandomKeys, who: Contestant, shared: Mapping[str, Any], least: float
    ) -> Finding:
        case = who.options.get("work", who.name)
        found = _race(lab, scale, data, who.options.get("work", "pass-through"), [who], shared)
        target = Target(least, at_least=True)
        return Finding(self.name, case, rate(found[who.name]), "records/s", target, found)
