"""Metrics of user functions: what jobs show of them, whatever fails, on both runtimes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from headrace.common import Configuration, Time, Types, WatermarkStrategy
from headrace.common.errors import HeadraceError, UserFunctionError
from headrace.datastream import (
    KeyedCoProcessFunction,
    MapFunction,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from headrace.datastream.window import EventTimeTrigger, TriggerResult, TumblingEventTimeWindows
from headrace.metrics import Counter, Distribution, MetricGroup
from headrace.metrics.registry import MetricRegistry
from headrace.testing import JobHarness
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Measure(MapFunction):
    """One metric of each kind."""

    def open(self, runtime_context: RuntimeContext) -> None:
        metrics = runtime_context.get_metrics_group()
        self.seen = metrics.counter("seen")
        self.odd = metrics.add_group("numbers", "odd").counter("seen")
        self.rate = metrics.meter("rate", 10)
        self.sizes = metrics.add_group("numbers").distribution("sizes")
        self.last = 0
        metrics.gauge("last", lambda: self.last)

    def map(self, value: int) -> int:
        self.seen.inc()
        self.odd.inc(value % 2)
        self.rate.mark_event(2)
        self.sizes.update(value)
        self.last = value
        return value


def measuring(harness: JobHarness) -> None:
    numbers = harness.add_source("in", Types.LONG()).map(Measure(), output_type=Types.LONG()).name("measure")
    harness.add_sink("out", numbers)


def test_each_kind() -> None:
    with JobHarness(measuring, fresh_functions=False) as harness:
        harness.push_all("in", [4, 5, 9])
        harness.run_epoch()
        of_operator = {name: value for name, value in harness.metrics().items() if name.startswith("measure.")}
        assert {name: value for name, value in of_operator.items() if "Watermark" not in name} == {
            "measure.numRecordsIn": 3,
            "measure.numRecordsOut": 3,
            "measure.seen": 3,
            "measure.numbers.odd.seen": 2,
            "measure.rate.count": 6,
            "measure.rate": 0.6,
            "measure.0.last": 9,
            "measure.numbers.sizes.count": 3,
            "measure.numbers.sizes.sum": 18,
            "measure.numbers.sizes.mean": 6,
            "measure.numbers.sizes.min": 4,
            "measure.numbers.sizes.max": 9,
        }


def test_operators_of_one_name_are_told_apart() -> None:
    def build(harness: JobHarness) -> None:
        numbers = harness.add_source("in", Types.LONG())
        evens = numbers.filter(lambda number: number % 2 == 0)
        for stream, uid in ((numbers, "all"), (evens, "evens")):
            mapped = stream.map(Measure(), output_type=Types.LONG()).name("measure").uid(uid)
            harness.add_sink(f"out of {uid}", mapped)

    with JobHarness(build, fresh_functions=False) as harness:
        harness.push_all("in", [4, 5, 6])
        harness.run_epoch()
        shown = harness.metrics()
    for name, of_all, of_evens in (
        ("numRecordsIn", 3, 2),
        ("seen", 3, 2),
        ("0.last", 6, 6),
        ("numbers.sizes.sum", 15, 10),
    ):
        assert (shown[f"measure (all).{name}"], shown[f"measure (evens).{name}"]) == (of_all, of_evens)
    assert not [name for name in shown if name.startswith("measure.")]
    assert shown["Filter.numRecordsIn"] == 3


def test_they_go_on_from_epoch_to_epoch() -> None:
    with JobHarness(measuring, fresh_functions=False) as harness:
        harness.push_all("in", [4, 5])
        harness.run_epoch()
        harness.advance_processing_time(6_000)
        harness.push_all("in", [1])
        harness.run_epoch()
        metrics = harness.metrics()
        assert (metrics["measure.seen"], metrics["measure.rate.count"], metrics["measure.rate"]) == (3, 6, 0.6)
        assert (metrics["measure.numbers.sizes.min"], metrics["measure.numbers.sizes.max"]) == (1, 5)
        assert metrics["measure.0.last"] == 1
        harness.advance_processing_time(5_000)
        assert harness.metrics()["measure.rate"] == 0.2, "the first epoch is more than ten seconds ago"


def test_counters_are_part_of_the_checkpoint() -> None:
    with JobHarness(measuring) as harness:
        harness.push_all("in", [4, 5])
        harness.run_epoch()
        checkpoint = harness.checkpoint()
    with JobHarness(measuring, restore=checkpoint, parallelism=2) as harness:
        harness.push_all("in", [1])
        harness.run_epoch()
        metrics = harness.metrics()
    assert (metrics["measure.seen"], metrics["measure.rate.count"]) == (3, 6)
    assert metrics["measure.numbers.sizes.count"] == 1, "the others begin with the run"


class FailsOnce(MapFunction):
    """Fails in the middle of an epoch, the first time."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_metrics_group().counter("seen")

    def map(self, value: int) -> int:
        self.seen.inc()
        if value == 70 and not self.marker.exists():
            self.marker.touch()
            raise ValueError("once")
        return value


def fails_once(env: StreamExecutionEnvironment, marker: Path) -> dict[str, float]:
    env.get_config().set_global_job_parameters({})
    env.from_sequence(1, 100).map(FailsOnce(marker), output_type=Types.LONG()).name("flaky").print()
    client = env.execute_async("flaky")
    client.get_job_execution_result().result(timeout=PATIENCE)
    assert len(client.get_exception_history().result()) == 1
    return client.get_metrics().result()


RESTARTS = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}


def test_what_an_epoch_counted_that_failed_is_not_counted(tmp_path: Path) -> None:
    settings = {
        **RESTARTS,
        "headrace.runtime": "local",
        "headrace.epoch.max-records": "30",
        "headrace.epoch.target-duration": "60s",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    assert fails_once(env.set_parallelism(1), tmp_path / "failed")["flaky.seen"] == 100


@pytest.mark.spark
def test_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    settings = {**RESTARTS, "headrace.epoch.max-records": "30", "headrace.epoch.target-duration": "60s"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    assert fails_once(env.set_parallelism(2), tmp_path / "failed")["flaky.seen"] == 100


class OfBoth(KeyedCoProcessFunction):
    """Counts by input."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.metrics = runtime_context.get_metrics_group()

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> list[int]:
        self.metrics.counter("first").inc()
        return []

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> list[int]:
        self.metrics.counter("second").inc(2)
        return []


def test_functions_of_two_streams_and_all_subtasks_together() -> None:
    def job(harness: JobHarness) -> None:
        one, two = (harness.add_source(name, Types.LONG()).key_by(lambda number: number) for name in ("one", "two"))
        harness.add_sink("out", one.connect(two).process(OfBoth(), Types.LONG()).name("both"))

    with JobHarness(job, parallelism=2) as harness:
        harness.push_all("one", range(20))
        harness.push_all("two", range(7))
        harness.run_epoch()
        assert (harness.metrics()["both.first"], harness.metrics()["both.second"]) == (20, 14)


class CountingTrigger(EventTimeTrigger):
    """Fires at the end, and counts elements."""

    fires_only_at_end = False

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        ctx.get_metric_group().counter("elements").inc()
        return super().on_element(element, timestamp, window, ctx)


class CountsWindows(ProcessWindowFunction):
    """Counts windows."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.windows = runtime_context.get_metrics_group().counter("windows")

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[int]:
        self.windows.inc()
        yield len(list(elements))


def test_windows_and_their_triggers() -> None:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number)

    def job(harness: JobHarness) -> None:
        numbers = harness.add_source("in", Types.LONG(), watermarks=times).key_by(lambda number: number % 2)
        windows = numbers.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).trigger(CountingTrigger())
        harness.add_sink("out", windows.process(CountsWindows(), Types.LONG()).name("windows"))

    with JobHarness(job) as harness:
        harness.push_all("in", range(20))
        harness.finish()
        assert (harness.metrics()["windows.elements"], harness.metrics()["windows.windows"]) == (20, 4)


def test_gauges_are_those_of_each_subtask() -> None:
    class Which(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_metrics_group().gauge("which", runtime_context.get_index_of_this_subtask)

        def map(self, value: int) -> int:
            return value

    def job(harness: JobHarness) -> None:
        harness.add_sink("out", harness.add_source("in", Types.LONG()).rebalance().map(Which()).name("map"))

    with JobHarness(job, parallelism=3) as harness:
        harness.run_epoch()
        metrics = harness.metrics()
        assert [metrics[f"map.{subtask}.which"] for subtask in range(3)] == [0, 1, 2]


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("group.counter('numRecordsIn')", "'numRecordsIn' cannot be the name of a metric, since headrace itself"),
        ("group.counter('')", "it has no letter"),
        ("group.counter(7)", "counter takes a str, not 7"),
        ("group.counter('n').inc(1.5)", r"inc takes an integer, not 1\.5"),
        ("group.counter('n').inc(True)", "inc takes an integer, not True"),
        ("group.counter('n').increment()", r"Counter has no 'increment': use inc\(n\)"),
        ("group.meter('n', 0)", "a time span of 0 seconds has no rate"),
        ("group.meter('n', 1.5)", "meter"),
        ("group.meter('n').getRate()", "it is among the job's metrics"),
        ("group.gauge('n', 7)", "gauge takes a function that gives a number, not 7"),
        ("group.distribution('n').update('x')", r"Distribution.update: expected a number, got 'x'"),
        ("group.histogram('n')", r"use distribution\(name\)"),
        ("(group.counter('n'), group.meter('n'))", "there is a Counter 'n' already: give the Meter another name"),
        ("group.add_group(3)", "add_group takes a str"),
        ("group.get_counter", "MetricGroup has no 'get_counter'"),
    ],
)
def test_mistakes_are_told(mistake: str, said: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        eval(mistake, {"group": MetricGroup(MetricRegistry())})
    assert re.search(said, str(caught.value))


@pytest.mark.parametrize(
    ("value", "said"), [(lambda: 1 / 0, "ZeroDivisionError"), (lambda: "x", "has to give a number")]
)
def test_a_gauge_that_fails_ends_the_job(value: Any, said: str) -> None:
    class Bad(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_metrics_group().gauge("bad", value)

        def map(self, value: int) -> int:
            return value

    def job(harness: JobHarness) -> None:
        harness.add_sink("out", harness.add_source("in", Types.LONG()).map(Bad()).name("told"))

    with JobHarness(job) as harness, pytest.raises(UserFunctionError, match=rf"operator 'told'(.|\n)*{said}"):
        harness.run_epoch()


def test_numbers_of_numpy_are_numbers() -> None:
    counter, sizes = Counter(), Distribution()
    counter.inc(np.int64(3))
    counter.dec(np.int8(1))
    sizes.update(np.float32(0.5))
    summary = sizes.take()
    assert (type(counter.get_count()), counter.get_count()) == (int, 2)
    assert summary is not None
    assert (type(summary.total), summary.total) == (float, 0.5)


def test_a_gauge_may_be_replaced_and_asking_again_gives_the_same_counter() -> None:
    registry = MetricRegistry()
    group = MetricGroup(registry)
    assert group.counter("n") is group.counter("n")
    group.gauge("g", lambda: 1)
    group.gauge("g", lambda: 2)
    measured = registry.take()
    assert measured is not None
    assert measured.gauges == {"g": 2}
