"""Windows that are filled for a job, which goes on with them as if it had read the records itself."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

from headrace.common import Configuration, Duration, Time, Types, WatermarkStrategy
from headrace.common.errors import HeadraceError, StateMigrationError
from headrace.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from headrace.datastream.aggregates import avg, collect_list, count, first, last, sum
from headrace.datastream.window import (
    AccumulationMode,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FROM = "execution.state-recovery.path"


class Order(NamedTuple):
    user: str
    amount: int
    time: int


EARLIER = [Order(f"user {number % 3}", number, 1_000 * number) for number in range(20)]
LATER = [Order(f"user {number % 4}", 100 + number, 1_000 * number) for number in range(18, 80, 5)]


class All(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield f"{key} {[element.amount for element in elements]}"


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value.amount, accumulator[1] + 1

    def merge(self, acc1: Any, acc2: Any) -> Any:
        return acc1[0] + acc2[0], acc1[1] + acc2[1]

    def get_result(self, accumulator: Any) -> str:
        return str(accumulator)


PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
MINUTE = TumblingEventTimeWindows.of(Time.seconds(30))
SESSIONS = EventTimeSessionWindows.with_gap(Time.seconds(3))


def more(one: Any, other: Any) -> Any:
    return Order(one.user, one.amount + other.amount, one.time)


Windows = Callable[[Any], Any]
"""Of a keyed stream, or of keyed records of which state is made, what is in windows."""

KINDS: dict[str, Windows] = {
    "aggregates": lambda keyed: keyed.window(MINUTE).aggregate(count(), sum("amount").alias("total"), avg("amount")),
    "in the order of arrival": lambda keyed: (
        keyed.window(MINUTE).aggregate(
            first("amount").alias("first"), last("amount").alias("last"), collect_list("amount").alias("all")
        )
    ),
    "panes": lambda keyed: (
        keyed.window(SlidingEventTimeWindows.of(Time.seconds(30), Time.seconds(10))).aggregate(sum("amount"))
    ),
    "growing windows": lambda keyed: (
        keyed.window(CumulatingEventTimeWindows.of(Time.seconds(30), Time.seconds(10))).aggregate(sum("amount"))
    ),
    "sessions": lambda keyed: keyed.window(SESSIONS).aggregate(sum("amount")),
    "sessions that stay": lambda keyed: keyed.window(SESSIONS).allowed_lateness(1_000).aggregate(sum("amount")),
    "counts": lambda keyed: keyed.count_window(10).aggregate(sum("amount")),
    "sliding counts": lambda keyed: keyed.count_window(10, 5).aggregate(sum("amount")),
    "shown at intervals": lambda keyed: (
        keyed.window(MINUTE).trigger(ContinuousEventTimeTrigger.of(Time.seconds(10))).aggregate(sum("amount"))
    ),
    "until the end": lambda keyed: (
        keyed.window(GlobalWindows.create_with_end_of_stream_trigger()).aggregate(sum("amount"))
    ),
    "a trigger": lambda keyed: keyed.window(MINUTE).trigger(CountTrigger.of(50)).aggregate(sum("amount")),
    "taken back": lambda keyed: (
        keyed.window(MINUTE).allowed_lateness(1_000)
        .accumulation_mode(AccumulationMode.ACCUMULATING_AND_RETRACTING).aggregate(sum("amount"))
    ),
    "all elements": lambda keyed: keyed.window(MINUTE).process(All(), Types.STRING()),
    "elements of sessions": lambda keyed: keyed.window(SESSIONS).process(All(), Types.STRING()),
    "an evictor": lambda keyed: keyed.window(MINUTE).evictor(CountEvictor.of(3)).process(All(), Types.STRING()),
    "a window function": lambda keyed: (
        keyed.window(MINUTE).apply(lambda key, window, orders: [f"{key} {window}"], Types.STRING())
    ),
    "a reduce": lambda keyed: keyed.window(MINUTE).reduce(more),
    "a reduce of sessions": lambda keyed: keyed.window(SESSIONS).reduce(more),
    "an aggregate": lambda keyed: (
        keyed.window(MINUTE).aggregate(Mean(), accumulator_type=PAIR, output_type=Types.STRING())
    ),
}  # fmt: skip


def results_of(windows: Windows, orders: list[Order], settings: dict[str, str]) -> list[str]:
    """What a job shows."""
    given = {"headrace.runtime": "local", "parallelism.default": "2", **settings}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(60)).with_timestamp_assigner("time")
    keyed = (
        env.from_collection(orders).uid("orders").assign_timestamps_and_watermarks(times).uid("times").key_by("user")
    )
    shown = windows(keyed).uid("windows").map(str, Types.STRING()).uid("text")
    with shown.execute_and_collect() as found:
        return sorted(found)


def filled(windows: Windows, path: Path, data: Any = EARLIER, settings: dict[str, str] | None = None) -> str:
    """A savepoint with windows of the earlier orders."""
    configuration = Configuration.from_dict(
        {"headrace.runtime": "local", "parallelism.default": "3", **(settings or {})}
    )
    keyed = OperatorTransformation.bootstrap_with(data).assign_timestamps("time").key_by("user")
    writer = SavepointWriter.new_savepoint().with_configuration(configuration)
    return writer.with_operator("windows", windows(keyed)).write(path)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_goes_on_with_windows_that_were_filled_for_it(kind: str, tmp_path: Path) -> None:
    path = filled(KINDS[kind], tmp_path / "savepoint")
    assert results_of(KINDS[kind], LATER, {FROM: path}) == results_of(KINDS[kind], EARLIER + LATER, {})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["aggregates", "sessions", "all elements"])
def test_records_that_take_many_epochs_are_in_the_order_in_which_they_came(kind: str, tmp_path: Path) -> None:
    settings = {"headrace.epoch.max-records": "1", "headrace.epoch.target-duration": "60s"}
    path = filled(KINDS["in the order of arrival"], tmp_path / "order", settings=settings)
    assert SavepointReader.read(path).manifest.epoch > 3
    expected = results_of(KINDS["in the order of arrival"], EARLIER + LATER, {})
    assert results_of(KINDS["in the order of arrival"], LATER, {FROM: path}) == expected
    path = filled(KINDS[kind], tmp_path / "savepoint", settings=settings)
    assert results_of(KINDS[kind], LATER, {FROM: path}) == results_of(KINDS[kind], EARLIER + LATER, {})


def test_tables_are_records_too(tmp_path: Path) -> None:
    table = pa.table({name: [getattr(order, name) for order in EARLIER] for name in Order._fields})
    path = filled(KINDS["aggregates"], tmp_path / "savepoint", table)
    assert results_of(KINDS["aggregates"], LATER, {FROM: path}) == results_of(KINDS["aggregates"], EARLIER + LATER, {})


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("kind", ["aggregates", "all elements"])
def test_on_spark(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """Of a DataFrame, for a job on Spark."""
    data = spark.createDataFrame([tuple(order) for order in EARLIER], ["user", "amount", "time"]).coalesce(1)
    settings = {"headrace.runtime": "spark", "headrace.spark.master": "local[2]"}
    path = filled(KINDS[kind], tmp_path / "savepoint", data, settings)
    there = results_of(KINDS[kind], LATER, {FROM: path, **settings})
    assert there == results_of(KINDS[kind], EARLIER + LATER, {})


def test_other_windows_are_refused(tmp_path: Path) -> None:
    path = filled(KINDS["aggregates"], tmp_path / "savepoint")
    with pytest.raises(StateMigrationError, match="another slide"):
        results_of(KINDS["panes"], LATER, {FROM: path})


def test_windows_that_fire_while_they_are_filled_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        path = filled(lambda keyed: keyed.count_window(4).aggregate(sum("amount")), tmp_path / "savepoint")
    assert "operator 'windows': its trigger had windows fire while they were filled: 3 results" in caplog.text
    left = SavepointReader.read(path).read_table("windows", "count-windows").sort_by("key")
    assert left.column("records_of_key").to_pylist() == [7, 7, 6]


MISTAKES: dict[str, tuple[Windows, str]] = {
    "no assigner": (lambda keyed: keyed.window("minute"), "window takes a WindowAssigner, not 'minute'"),
    "windows of the clock": (
        lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(Time.seconds(1))),
        "are windows of the clock, which hold what comes while they are open: a savepoint has none",
    ),
    "no trigger": (lambda keyed: keyed.window(MINUTE).trigger(4), "trigger takes a Trigger, not 4"),
    "a trigger of the clock": (
        lambda keyed: keyed.window(MINUTE).trigger(ContinuousProcessingTimeTrigger.of(Time.seconds(1))),
        "fires by the clock while windows are filled",
    ),
    "no function": (lambda keyed: keyed.window(MINUTE).process(3), "expected a ProcessWindowFunction, got 3"),
    "no count": (lambda keyed: keyed.count_window(0).reduce(more), "0"),
    "no field": (lambda keyed: keyed.window(MINUTE).aggregate(sum("price")), "price"),
}


@pytest.mark.parametrize(("windows", "told"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_told(windows: Windows, told: str, tmp_path: Path) -> None:
    with pytest.raises(HeadraceError) as error:
        filled(windows, tmp_path / "savepoint")
    assert told in str(error.value)
    assert "test_windows.py" in str(error.value)


def test_records_without_timestamps_are_told(tmp_path: Path) -> None:
    keyed = OperatorTransformation.bootstrap_with(EARLIER).key_by("user")
    writer = SavepointWriter.new_savepoint().with_operator("windows", KINDS["aggregates"](keyed))
    with pytest.raises(HeadraceError, match="timestamp"):
        writer.write(tmp_path / "savepoint")
