"""Programs from beginning to end, on the local runtime."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration, Time, Types, WatermarkStrategy
from headrace.common.errors import InvalidProgramError, UserFunctionError
from headrace.datastream import (
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from headrace.datastream.aggregates import count, sum
from headrace.datastream.state import ValueStateDescriptor
from headrace.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from headrace.expressions import col

if TYPE_CHECKING:
    from headrace.datastream.data_stream import WindowedStream

PAYMENTS = [("a", 1, 1000), ("b", 2, 2000), ("a", 3, 3000)]
ASCENDING = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda payment, _: payment[2])
LARGE = OutputTag("large", Types.LONG())


class Numbered(MapFunction):
    """Numbers the records of each key, in keyed state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int))

    def map(self, value: Any) -> tuple[str, int]:
        self.count.update((self.count.value() or 0) + 1)
        return value[0], self.count.value()


class Timers(KeyedProcessFunction):
    """Sets a timer for each record, and sends large amounts aside."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(value[2] + 1)
        if value[1] > 1:
            yield LARGE, value[1]

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp


@pytest.fixture
def local() -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("headrace.runtime", "local")
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)


def test_execute(local: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    local.from_collection(PAYMENTS).key_by(0).sum(1).print("sum").set_parallelism(1)
    assert local.execute("sums").get_all_accumulator_results()["numRecordsRead"] == 3
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "sum> ('a', 1, 1000)",
        "sum> ('a', 4, 1000)",
        "sum> ('b', 2, 2000)",
    ]


def test_state_in_a_map_on_a_keyed_stream(local: StreamExecutionEnvironment) -> None:
    with local.from_collection(PAYMENTS).key_by(0).map(Numbered()).execute_and_collect() as records:
        assert sorted(records) == [("a", 1), ("a", 2), ("b", 1)]


def test_timers_and_side_outputs(local: StreamExecutionEnvironment) -> None:
    payments = local.from_collection(PAYMENTS).assign_timestamps_and_watermarks(ASCENDING)
    processed = payments.key_by(lambda payment: payment[0]).process(Timers())
    assert sorted(processed.execute_and_collect()) == [("a", 1001), ("a", 3001), ("b", 2001)]
    assert sorted(processed.get_side_output(LARGE).execute_and_collect()) == [2, 3]


@pytest.fixture
def windows(local: StreamExecutionEnvironment) -> WindowedStream:
    payments = local.from_collection(PAYMENTS).assign_timestamps_and_watermarks(ASCENDING)
    return payments.key_by(0).window(TumblingEventTimeWindows.of(Time.seconds(2)))


def test_windows_with_built_in_aggregates(windows: WindowedStream) -> None:
    rows = windows.aggregate(count(), sum(1).alias("total")).execute_and_collect()
    assert sorted(map(tuple, rows)) == [("a", 0, 2000, 1, 1), ("a", 2000, 4000, 1, 3), ("b", 2000, 4000, 1, 2)]


def test_windows_with_functions(windows: WindowedStream) -> None:
    assert sorted(windows.reduce(max).execute_and_collect()) == sorted(PAYMENTS)
    sizes = windows.apply(lambda key, window, payments: [(key, window.end, len(list(payments)))])
    assert sorted(sizes.execute_and_collect()) == [("a", 2000, 1), ("a", 4000, 1), ("b", 4000, 1)]


def test_limit(local: StreamExecutionEnvironment) -> None:
    assert len(local.from_sequence(1, 1000).execute_and_collect(limit=5)) == 5


def test_failing_function(local: StreamExecutionEnvironment) -> None:
    local.from_sequence(1, 3).map(lambda x: x // 0).print()
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        local.execute()


@pytest.mark.parametrize("key", [0, col(0), col(0).upper()], ids=["field", "column", "expression"])
def test_a_null_as_key_is_told_with_its_record(local: StreamExecutionEnvironment, key: Any) -> None:
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    stream = local.from_collection([("a", 1), ("b", 2), (None, 3)], pair)
    stream.key_by(key).sum(1).print()
    with pytest.raises(UserFunctionError) as failure:
        local.execute()
    message = str(failure.value)
    assert re.search(r"the key \S+ of key_by \(\S*test_running\.py:\d+ in test_\w+\) is null", message), message
    assert "record: (None, 3)" in message


WINDOWED = {
    "before the shuffle": lambda windows: windows.aggregate(count()),
    "behind the shuffle": lambda windows: windows.allowed_lateness(5).aggregate(count()),
    "sliding": lambda windows: windows.aggregate(sum(1)),
    "rows": lambda windows: windows.reduce(lambda a, b: a),
}


@pytest.mark.parametrize("aggregate", WINDOWED.values(), ids=WINDOWED.keys())
@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows.of(5), SlidingEventTimeWindows.of(10, 5)])
def test_windows_refuse_records_without_timestamp(
    local: StreamExecutionEnvironment, aggregate: Any, assigner: Any
) -> None:
    """Where the graph does not tell, since other records of the stream may have one."""
    payment = Types.TUPLE([Types.STRING(), Types.INT(), Types.INT()])
    timed = local.from_collection([], payment).assign_timestamps_and_watermarks(ASCENDING)
    stream = local.from_collection(PAYMENTS, payment).union(timed)
    aggregate(stream.key_by(0).window(assigner)).name("spending").uid("spent").print()
    with pytest.raises(InvalidProgramError) as failure:
        local.execute()
    message = str(failure.value)
    assert re.match(r"operator '.*spending' \(uid spent.*, subtask \d\): a record without timestamp", message), message
    assert "assign_timestamps_and_watermarks" in message
    assert "record: ('a', 1, 1000)" in message or "record: ('b', 2, 2000)" in message
    assert "operator defined at" in message
    assert "test_running.py" in message


class Locked(MapFunction):
    """Cannot be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def map(self, value: Any) -> Any:
        return value


def test_what_cannot_be_pickled_is_told_with_its_operator(local: StreamExecutionEnvironment) -> None:
    local.from_collection(PAYMENTS).map(Locked()).name("locked").uid("lock").print()
    with pytest.raises(InvalidProgramError) as failure:
        local.execute()
    message = str(failure.value)
    assert message.startswith("operator 'locked' (uid lock) cannot travel to the tasks\n  TypeError: cannot pickle")
    assert "in open()\n  operator defined at " in message
    assert message.endswith("in test_what_cannot_be_pickled_is_told_with_its_operator")


def test_a_key_function_that_cannot_be_pickled(local: StreamExecutionEnvironment) -> None:
    lock = threading.Lock()

    def key(payment: Any) -> str:
        with lock:
            return str(payment[0])

    local.from_collection(PAYMENTS).key_by(key).sum(1).name("total").print()
    with pytest.raises(InvalidProgramError, match=r"operator 'total' .* cannot travel to the tasks"):
        local.execute()


class Single(KeyedProcessFunction):
    """Returns a result instead of an iterable of results."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        return value[1]


@pytest.mark.parametrize(
    "build",
    [lambda stream: stream.flat_map(lambda payment: payment[1]), lambda stream: stream.key_by(0).process(Single())],
    ids=["flat_map", "process"],
)
def test_a_result_that_is_no_iterable(local: StreamExecutionEnvironment, build: Any) -> None:
    build(local.from_collection(PAYMENTS)).print()
    with pytest.raises(
        UserFunctionError, match=r"'int' object is not iterable\n  the function has to yield its results"
    ):
        local.execute()
