"""A job that goes on at other parallelisms while it runs."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.job_client import JobClient
from headrace.common import Configuration, Time, Types, WatermarkStrategy
from headrace.common.errors import ConfigurationError, InvalidProgramError, JobExecutionError
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import (
    CheckpointedFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
)
from headrace.datastream.connectors.number_seq import NumberSequenceSource
from headrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.jobmanager.autoscaler import SlotWatcher
from headrace.runtime.local import LocalRuntime
from headrace.time.clock import ManualClock
from headrace.time.watermark_strategy import TimestampAssigner
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 7
LAST = 1_200
RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())


class Totals(KeyedProcessFunction):
    """Each number with the total of its key so far; and once more the total at the end of event time, by a timer."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int]]:
        self.total.update((self.total.value() or 0) + value)
        ctx.timer_service().register_event_time_timer(1 << 50)
        yield value, self.total.value()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[tuple[int, int]]:
        yield -1 - ctx.get_current_key(), self.total.value()


class Held(FlatMapFunction, CheckpointedFunction):
    """Holds back the numbers of a subtask until ten are there; the last number lets go of those of its subtask."""

    def initialize_state(self, context: Any) -> None:
        self.held = context.get_operator_state_store().get_list_state(ListStateDescriptor("held", Types.LONG()))

    def snapshot_state(self, context: Any) -> None:
        pass

    def flat_map(self, value: int) -> Iterator[int]:
        self.held.add(value)
        numbers = self.held.get()
        if len(numbers) >= 10:
            self.held.clear()
            yield from numbers


class Ruled(KeyedBroadcastProcessFunction):
    """How many rules each number meets: all of them are there before the job is rescaled first."""

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        yield len(list(ctx.get_broadcast_state(RULES).keys()))

    def process_broadcast_element(self, value: int, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value, value)


class At(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


class Results:
    """A job with state of all kinds, and what it shows."""

    def __init__(self, settings: dict[str, str]) -> None:
        known = {
            "parallelism.default": "2",
            "headrace.epoch.max-records": "40",
            "headrace.epoch.target-duration": "60s",
            "headrace.runtime": "local",
        }
        configuration = Configuration.from_dict(known | settings)
        self.env = StreamExecutionEnvironment.get_execution_environment(configuration)
        self.totals: list[Any] = []
        self.windows: list[Any] = []
        self.held: list[int] = []
        self.ruled: list[int] = []
        times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
        numbers = self.env.from_source(NumberSequenceSource(1, LAST), times, "numbers").uid("numbers")
        rules = self.env.from_collection([1, 2, 3], Types.LONG()).uid("rules")
        keyed = numbers.key_by(lambda number: number % KEYS, Types.LONG())
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        keyed.process(Totals(), pair).uid("totals").sink_to(CollectSink(self.totals.extend)).uid("a")
        windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(100))).reduce(max)
        windows.uid("windows").sink_to(CollectSink(self.windows.extend)).uid("b")
        held = numbers.rebalance().flat_map(Held(), Types.LONG()).uid("held")
        held.sink_to(CollectSink(self.held.extend)).uid("c")
        ruled = keyed.connect(rules.broadcast(RULES)).process(Ruled(), Types.LONG()).uid("ruled")
        ruled.set_parallelism(1).sink_to(CollectSink(self.ruled.extend)).uid("d")

    def check(self) -> None:
        """Against what follows from the numbers alone."""
        sums: Counter[int] = Counter()
        wanted = []
        for number in range(1, LAST + 1):
            sums[number % KEYS] += number
            wanted.append((number, sums[number % KEYS]))
        wanted += [(-1 - key, total) for key, total in sums.items()]
        assert sorted(self.totals) == sorted(wanted)
        windows = {(number // 100, number % KEYS): number for number in range(1, LAST + 1)}
        assert sorted(self.windows) == sorted(windows.values())
        assert len(set(self.held)) == len(self.held) <= LAST, "nothing twice"
        assert len(self.held) > LAST - 10 * 4, "at most nine numbers a subtask are left"
        assert len(self.ruled) == LAST
        assert set(self.ruled[LAST // 2 :]) == {3}, "rules are there before and after"


def read(client: JobClient) -> int:
    return int(client.get_accumulators().result().get("numRecordsRead", 0))


def wait_for(client: JobClient, records: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while read(client) < records and not client.get_job_execution_result().done():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def rescaled_all_along(results: Results) -> list[int]:
    """Runs the job to its end, at another parallelism again and again; where it was each time."""
    client, places = results.env.execute_async("rescaled"), []
    for count, parallelism in enumerate((1, 4, 3, 1, 2, 4)):
        wait_for(client, LAST // 8 * (count + 1))
        client.rescale(parallelism).result(PATIENCE)
        places.append(read(client))
    client.get_job_execution_result().result(PATIENCE)
    return places


@pytest.mark.sampled(1)
@pytest.mark.parametrize("keeps", [False, True], ids=["in memory", "in a directory"])
def test_nothing_is_lost_and_nothing_comes_twice(keeps: bool, tmp_path: Path) -> None:
    results = Results({"execution.checkpointing.dir": str(tmp_path)} if keeps else {})
    places = rescaled_all_along(results)
    assert places[-1] < LAST, "it was rescaled before its end each time"
    results.check()


@pytest.mark.slow
@pytest.mark.spark
def test_on_spark_as_well(spark: SparkSession, tmp_path: Path) -> None:
    """Workers live on, with what they have of the job at the parallelism before."""
    results = Results({"execution.checkpointing.dir": str(tmp_path), "headrace.runtime": "spark"})
    assert rescaled_all_along(results)[-1] < LAST
    results.check()


def slow_numbers(settings: dict[str, str], results: list[int]) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict(
        {"headrace.runtime": "local", "headrace.epoch.max-records": "2", "headrace.epoch.target-duration": "60s"}
        | settings
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    numbers = env.from_source(NumberSequenceSource(1, 400), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.key_by(lambda number: number).map(lambda number: number, Types.LONG()).uid("map").sink_to(
        CollectSink(results.extend)
    ).uid("sink")
    return env


@pytest.mark.slow
def test_what_cannot_be_planned_leaves_the_job_as_it_is() -> None:
    results: list[int] = []
    client = slow_numbers({"pipeline.max-parallelism": "4"}, results).execute_async()
    with pytest.raises(InvalidProgramError, match="5"):
        client.rescale(5).result(PATIENCE)
    client.get_job_execution_result().result(PATIENCE)
    assert sorted(results) == [*range(1, 401)]


@pytest.mark.slow
def test_a_job_that_has_ended_is_not_rescaled() -> None:
    client = slow_numbers({}, []).execute_async()
    client.get_job_execution_result().result(PATIENCE)
    with pytest.raises(JobExecutionError, match="has ended"):
        client.rescale(2).result(PATIENCE)


# --- reactive mode ---------------------------------------------------------------------------------------------------


class Cluster(LocalRuntime):
    """Executors come and go."""

    sizes = itertools.chain([2, 3], itertools.repeat(1))

    def slots(self) -> int:
        return next(self.sizes)


@pytest.mark.slow
def test_a_reactive_job_follows_its_cluster(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("headrace.client.submission.LocalRuntime", Cluster)
    monkeypatch.setattr("headrace.jobmanager.autoscaler.LOOK_MILLIS", 0)
    waits = "jobmanager.adaptive-scheduler.executing."
    settings = {
        "scheduler-mode": "reactive",
        f"{waits}resource-stabilization-timeout": "0 ms",
        f"{waits}cooldown-after-rescaling": "0 ms",
    }
    results: list[int] = []
    with caplog.at_level("INFO"):
        slow_numbers(settings, results).execute_async().get_job_execution_result().result(PATIENCE)
    assert sorted(results) == [*range(1, 401)]
    assert sum("at parallelism" in record.message for record in caplog.records) == 2


@pytest.mark.slow
def test_a_reactive_job_has_no_parallelism_of_its_own() -> None:
    settings = {"scheduler-mode": "reactive", "parallelism.default": "2"}
    with pytest.raises(ConfigurationError, match=r"parallelism\.default"):
        slow_numbers(settings, []).execute_async()


def watcher(clock: ManualClock, slots: list[int], stable: int, cooldown: int) -> SlotWatcher:
    return SlotWatcher(lambda: slots[0], clock, stable, cooldown)


def test_the_number_of_slots_has_to_be_stable() -> None:
    clock, slots = ManualClock(), [2]
    watched = watcher(clock, slots, stable=10_000, cooldown=0)
    assert watched.wanted(2, 128) is None
    for slots[0] in (4, 6):  # executors come one by one
        clock.advance(5_000)
        assert watched.wanted(2, 128) is None
    clock.advance(9_999)
    assert watched.wanted(2, 128) is None
    clock.advance(1_000)
    assert watched.wanted(2, 128) == 6
    clock.advance(1_000)
    assert watched.wanted(6, 128) is None


def test_a_job_is_left_alone_for_a_while() -> None:
    clock, slots = ManualClock(), [4]
    watched = watcher(clock, slots, stable=0, cooldown=30_000)
    assert watched.wanted(2, 128) == 4
    slots[0] = 2
    clock.advance(29_000)
    assert watched.wanted(4, 128) is None
    clock.advance(1_000)
    assert watched.wanted(4, 128) == 2


def test_the_cluster_is_looked_at_once_a_second() -> None:
    clock, looks = ManualClock(), []
    watched = SlotWatcher(lambda: looks.append(clock.now()) or 2, clock, 0, 0)  # type: ignore[func-returns-value]
    for _ in range(100):
        clock.advance(100)
        watched.wanted(2, 128)
    assert len(looks) == 10


@pytest.mark.parametrize(("offered", "most", "wanted"), [(0, 128, 1), (500, 128, 128)], ids=["none", "many"])
def test_there_are_limits(offered: int, most: int, wanted: int) -> None:
    assert watcher(ManualClock(), [offered], stable=0, cooldown=0).wanted(2, most) == wanted
