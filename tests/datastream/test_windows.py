"""Windows of keyed streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration, Duration, Row, Time, Types, WatermarkStrategy
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.datastream import (
    AggregateFunction,
    OutputTag,
    ProcessWindowFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from headrace.datastream.aggregates import avg, count, sum
from headrace.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)
from headrace.expressions import coalesce, col
from headrace.graph.window_specs import AggregatedWindowSpec, RowWindowSpec
from headrace.windowing.definition import WindowDefinition, WindowFunctions
from headrace.windowing.triggers import EventTimeTrigger

if TYPE_CHECKING:
    from headrace.datastream.data_stream import KeyedStream, WindowedStream
    from headrace.graph.stream_graph import StreamGraph

ROW = Types.ROW_NAMED(["card", "amount"], [Types.STRING(), Types.LONG()])
SECOND = TumblingEventTimeWindows.of(Time.seconds(1))
SECONDS = WindowDefinition(SECOND, EventTimeTrigger())
LATE = OutputTag("late")


class Average(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> tuple[int, int]:
        return accumulator[0] + value.amount, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> float:
        return float(accumulator[0] / accumulator[1])

    def merge(self, acc_a: Any, acc_b: Any) -> tuple[int, int]:
        raise NotImplementedError


class Larger(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2)


class Describe(ProcessWindowFunction[Any, str, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> Iterable[str]:
        return [key]


class Size(WindowFunction[Any, int, str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[Any]) -> Iterable[int]:
        return [len(list(inputs))]


@pytest.fixture
def keyed(env: StreamExecutionEnvironment) -> KeyedStream:
    return env.from_collection([], ROW).key_by("card")


@pytest.fixture
def windows(keyed: KeyedStream) -> WindowedStream:
    return keyed.window(SECOND)


def test_what_is_shown_of_windows(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([1], Types.LONG())
    assert repr(numbers.key_by(lambda v: v).window(SECOND)) == f"WindowedStream(Long, {SECOND})"
    assert repr(numbers.window_all(SECOND)) == f"AllWindowedStream(Long, {SECOND})"


def test_built_in_aggregates(windows: WindowedStream, graph: StreamGraph) -> None:
    aggregates = count(), sum("amount").alias("total"), avg("amount")
    stream = windows.aggregate(*aggregates)
    assert graph[1].spec == AggregatedWindowSpec(SECONDS, aggregates)
    assert graph[1].name == "Window"
    assert stream.get_type() == graph[1].type_of(None)
    assert stream.get_type() == Types.ROW_NAMED(
        ["card", "window_start", "window_end", "count", "total", "avg_amount"],
        [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG(), Types.DOUBLE()],
    )


@pytest.mark.parametrize(
    ("selector", "names", "types"),
    [
        (lambda r: (r.card, r.amount), ["card", "amount"], [Types.STRING(), Types.LONG()]),
        (lambda r: r.card.upper(), ["key"], [Types.PICKLED_BYTE_ARRAY()]),
        (1, ["amount"], [Types.LONG()]),
        (col("card").upper().alias("card"), ["card"], [Types.STRING()]),
    ],
)
def test_key_of_built_in_aggregates(
    env: StreamExecutionEnvironment, selector: Any, names: list[str], types: list[Any]
) -> None:
    found = env.from_collection([], ROW).key_by(selector).window(SECOND).aggregate(count()).get_type()
    assert found.get_field_names() == [*names, "window_start", "window_end", "count"]
    assert found.get_field_types()[: len(types)] == types


UPPER = col("card").upper().alias("upper")


@pytest.mark.parametrize(
    ("columns", "names", "types"),
    [
        (("card", "amount"), ["card", "amount"], [Types.STRING(), Types.LONG()]),
        ((0, "amount"), ["card", "amount"], [Types.STRING(), Types.LONG()]),
        ((UPPER, col("amount")), ["upper", "amount"], [Types.STRING(), Types.LONG()]),
        (("amount", UPPER), ["amount", "upper"], [Types.LONG(), Types.STRING()]),
        ((UPPER, (col("amount") % 2).alias("odd")), ["upper", "odd"], [Types.STRING(), Types.LONG()]),
        ((UPPER, col("amount") % 2), ["key"], [Types.TUPLE([Types.STRING(), Types.LONG()])]),
    ],
)
def test_every_column_of_a_key_has_its_name(
    env: StreamExecutionEnvironment, columns: tuple[Any, ...], names: list[str], types: list[Any]
) -> None:
    found = env.from_collection([], ROW).key_by(*columns).window(SECOND).aggregate(count()).get_type()
    assert found.get_field_names() == [*names, "window_start", "window_end", "count"]
    assert found.get_field_types()[: len(types)] == types


@pytest.mark.parametrize("parallelism", [1, 2])
def test_columns_of_a_computed_key_come_out(parallelism: int) -> None:
    settings = {
        "headrace.runtime": "local",
        "parallelism.default": str(parallelism),
        "headrace.epoch.max-records": "2",
        "headrace.epoch.target-duration": "60s",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    rows = [Row(card=card, amount=amount) for card, amount in [("a", 1), ("A", 3), ("b", 2), ("a", 4), ("A", None)]]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(coalesce(col("amount"), 5))
    timed = env.from_collection(rows, ROW).assign_timestamps_and_watermarks(strategy)
    counts = timed.key_by(UPPER, (col("amount") % 2).alias("odd")).window(SECOND).aggregate(count())
    with counts.execute_and_collect() as found:
        assert sorted((r.upper, r.odd, r["count"]) for r in found if r.odd is not None) == [
            ("A", 0, 1),
            ("A", 1, 2),
            ("B", 0, 1),
        ]


def test_two_columns_of_a_key_with_one_name(env: StreamExecutionEnvironment) -> None:
    windows = env.from_collection([], ROW).key_by(col("card").upper().alias("card"), "card").window(SECOND)
    with pytest.raises(InvalidProgramError, match="two columns 'card': name one of them with"):
        windows.aggregate(count())


def test_a_strategy_without_assigner_is_told_at_the_window() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    timed = env.from_collection([Row(card="a", amount=1)], ROW).assign_timestamps_and_watermarks(strategy)
    timed.key_by("card").window(SECOND).aggregate(count()).print()
    with pytest.raises(InvalidProgramError, match=r"Give .* a strategy with a timestamp assigner: \.with"):
        env.execute()


def test_aggregates_of_expressions_compare() -> None:
    twice = sum(col("amount") * 2).alias("x")
    assert twice == sum(col("amount") * 2).alias("x")
    assert hash(twice) == hash(sum(col("amount") * 2).alias("x"))
    others = [sum(col("amount") * 3), avg(col("amount") * 2), sum('col("amount") * 2'), sum(col("amount"))]
    assert all(twice != other.alias("x") for other in others)
    assert twice != 3
    assert sum(1) != sum("1")


def test_late_records(windows: WindowedStream, graph: StreamGraph) -> None:
    assert windows.allowed_lateness(2000) is windows
    windows.side_output_late_data(LATE)
    stream = windows.aggregate(count())
    assert graph[1].spec == AggregatedWindowSpec(replace(SECONDS, allowed_lateness=2000, late_tag=LATE), (count(),))
    assert stream.get_side_output(OutputTag("late")).get_type() == ROW
    assert graph[1].outputs.side_types == {"late": ROW}
    with pytest.raises(InvalidProgramError, match="never writes to the side output 'other'"):
        stream.get_side_output(OutputTag("other"))


@pytest.mark.parametrize("lateness", [Time.seconds(2), Duration.of_seconds(2), timedelta(seconds=2)])
def test_lateness_may_be_a_duration(windows: WindowedStream, graph: StreamGraph, lateness: Any) -> None:
    windows.allowed_lateness(lateness).process(Describe())
    assert graph[1].spec.definition.allowed_lateness == 2000  # type: ignore[attr-defined]


def test_late_records_are_of_the_type_of_the_records(windows: WindowedStream) -> None:
    stream = windows.side_output_late_data(OutputTag("late", Types.STRING())).process(Describe())
    assert stream.get_side_output(OutputTag("late")).get_type() == ROW


def test_late_records_become_what_their_tag_says(windows: WindowedStream) -> None:
    late = OutputTag("late", Types.ROW([Types.STRING(), Types.DOUBLE()]))
    stream = windows.side_output_late_data(late).process(Describe())
    assert stream.get_side_output(late).get_type() == late.type_info


@pytest.mark.parametrize(
    "wrong",
    [
        Types.STRING(),
        Types.ROW([Types.STRING()]),
        Types.ROW([Types.LONG(), Types.DOUBLE()]),
        Types.TUPLE([Types.STRING(), Types.STRING()]),
    ],
    ids=str,
)
def test_a_tag_whose_type_never_fits_late_records_is_refused(windows: WindowedStream, wrong: Any) -> None:
    late = OutputTag("late", wrong)
    stream = windows.side_output_late_data(late).process(Describe())
    with pytest.raises(
        InvalidTypeError, match=r"side output 'late' are of type .*: leave the type of the tag out\n  at"
    ):
        stream.get_side_output(late)


@pytest.mark.parametrize("fits", [Types.TUPLE([Types.STRING(), Types.LONG()]), Types.PICKLED_BYTE_ARRAY()], ids=str)
def test_a_tag_whose_type_may_fit_late_records_is_taken(windows: WindowedStream, fits: Any) -> None:
    late = OutputTag("late", fits)
    stream = windows.side_output_late_data(late).process(Describe())
    stream.get_side_output(late)


def test_process(windows: WindowedStream, graph: StreamGraph) -> None:
    function = Describe()
    stream = windows.allowed_lateness(5).side_output_late_data(LATE).process(function)
    assert stream.get_type() == Types.STRING()
    assert graph[1].spec == RowWindowSpec(
        replace(SECONDS, allowed_lateness=5, late_tag=LATE), Types.STRING(), WindowFunctions(window_function=function)
    )
    assert windows.process(function, Types.CHAR()).get_type() == Types.CHAR()


def test_window_functions_have_side_outputs(windows: WindowedStream) -> None:
    stream = windows.process(Describe())
    assert stream.get_side_output(OutputTag("x", Types.INT())).get_type() == Types.INT()


@pytest.mark.parametrize("function", [Size(), lambda key, window, inputs: inputs])
def test_apply(windows: WindowedStream, graph: StreamGraph, function: Any) -> None:
    found = windows.apply(function).get_type()
    assert found == (Types.LONG() if isinstance(function, Size) else Types.PICKLED_BYTE_ARRAY())
    assert graph[1].spec == RowWindowSpec(SECONDS, found, WindowFunctions(window_function=function))
    assert windows.apply(function, Types.INT()).get_type() == Types.INT()


@pytest.mark.parametrize("function", [Larger(), max])
def test_reduce(windows: WindowedStream, graph: StreamGraph, function: Any) -> None:
    assert windows.reduce(function).get_type() == ROW
    assert graph[1].spec == RowWindowSpec(SECONDS, ROW, WindowFunctions(function))


def test_reduce_with_a_window_function(windows: WindowedStream, graph: StreamGraph) -> None:
    describe = Describe()
    assert windows.reduce(max, describe).get_type() == Types.STRING()
    assert graph[1].spec == RowWindowSpec(
        SECONDS, Types.STRING(), WindowFunctions(reduce_function=max, window_function=describe)
    )
    assert windows.reduce(max, describe, Types.CHAR()).get_type() == Types.CHAR()
    assert windows.reduce(max, output_type=Types.INT()).get_type() == Types.INT()


def test_aggregate_function(windows: WindowedStream, graph: StreamGraph) -> None:
    average = Average()
    assert windows.aggregate(average).get_type() == Types.DOUBLE()
    assert graph[1].spec == RowWindowSpec(SECONDS, Types.DOUBLE(), WindowFunctions(aggregate_function=average))


def test_aggregate_function_with_everything(windows: WindowedStream, graph: StreamGraph) -> None:
    average, describe = Average(), Describe()
    accumulators = Types.TUPLE([Types.LONG(), Types.LONG()])
    by_position = windows.aggregate(average, describe, accumulators, Types.CHAR())
    by_name = windows.aggregate(
        average, window_function=describe, accumulator_type=accumulators, output_type=Types.CHAR()
    )
    assert graph[1].spec == graph[2].spec
    assert graph[1].spec == RowWindowSpec(
        SECONDS,
        Types.CHAR(),
        WindowFunctions(aggregate_function=average, window_function=describe, accumulator_type=accumulators),
    )
    assert by_position.get_type() == by_name.get_type() == Types.CHAR()
    assert windows.aggregate(average, describe).get_type() == Types.STRING()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda w: w.aggregate(sum("card")), r"sum\('card'\) takes numbers"),
        (lambda w: w.aggregate(sum("x")), "no field 'x': its fields are 'card', 'amount'"),
        (lambda w: w.aggregate(count(), count()), "two columns 'count'"),
        (lambda w: w.aggregate(count(), 3), r"built-in aggregates go with .*, not 3; map\(\) the rows that they give"),
        (lambda w: w.aggregate(count(), sum), r': use aggregate\(sum\("field"\)\)'),
        (lambda w: w.aggregate(count), r": use aggregate\(count\(\)\)"),
        (lambda w: w.aggregate(count(), window_function=Describe()), "take no window_function"),
        (lambda w: w.aggregate(abs), "expected an AggregateFunction"),
        (lambda w: w.aggregate(col("amount")), r"such as sum\(col\(\"amount\"\)\)\.alias\('total'\), not col\("),
        (lambda w: w.aggregate("sum"), r"not 'sum': use aggregate\(sum\(\"field\"\)\)"),
        (lambda w: w.aggregate(max), r"function max>: use aggregate\(max\(\"field\"\)\)"),
        (lambda w: w.aggregate({"n": "sum", "b": ["mean", "std"]}), r'sum\("n"\), avg\("b"\), stddev_samp\("b"\)\)'),
        (lambda w: w.aggregate(["count", 7]), r"7\]: use aggregate\(count\(\), sum"),
        (lambda w: w.aggregate(Average), r"write Average\(\)"),
        (lambda w: w.aggregate(Average(), Describe(), window_function=Describe()), "got window_function twice"),
        (lambda w: w.aggregate(Average(), None, None, None, 5), "but got 4 arguments"),
        (lambda w: w.aggregate(Average(), len), "window_function is a WindowFunction or a ProcessWindowFunction"),
        (
            lambda w: w.process(len),
            r"expected a ProcessWindowFunction, .*: apply\(\.\.\.\) takes a WindowFunction, or a func",
        ),
        (lambda w: w.process(Size()), "expected a ProcessWindowFunction"),
        (lambda w: w.apply(3), "expected a WindowFunction or a function"),
        (lambda w: w.apply(Describe()), r"or a function \(process takes a ProcessWindowFunction\)"),
        (lambda w: w.reduce(3), "expected a ReduceFunction or a function"),
        (lambda w: w.allowed_lateness(-1), "cannot be negative"),
        (lambda w: w.allowed_lateness(2**63), "at most 9223372036854775807 ms, for ever, not 9223372036854775808 ms"),
        (lambda w: w.side_output_late_data("late"), "side_output_late_data takes an OutputTag"),
    ],
)
def test_wrong_arguments_are_refused(windows: WindowedStream, graph: StreamGraph, use: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        use(windows)
    assert len(graph) == 1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda s: s.map(lambda number: (number, number)),
            r"sum\(1\): the records are pickled objects .* output_type=",
        ),
        (lambda s: s, r"sum\(1\): records of type Long have no fields: sum\(0\) takes the record itself"),
    ],
)
def test_records_without_fields_are_told_how_to_get_some(
    env: StreamExecutionEnvironment, build: Any, message: str
) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        build(env.from_sequence(1, 3)).window_all(SECOND).aggregate(sum(1))


def test_what_a_windowed_stream_knows(windows: WindowedStream, env: StreamExecutionEnvironment) -> None:
    assert windows.get_input_type() == ROW
    assert windows.get_execution_environment() is env


def test_built_in_aggregates_take_any_windows(keyed: KeyedStream, graph: StreamGraph) -> None:
    windows = keyed.window(SECOND).trigger(CountTrigger.of(1)).evictor(CountEvictor.of(1))
    windows.aggregate(count())
    assert graph[1].spec == AggregatedWindowSpec(
        WindowDefinition(SECOND, CountTrigger.of(1), CountEvictor.of(1)), (count(),)
    )


@pytest.mark.parametrize(
    ("windows", "names"),
    [
        (lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(5)), ["card", "window_start", "window_end"]),
        (lambda keyed: keyed.count_window(5), ["card", "window_id"]),
        (lambda keyed: keyed.window(GlobalWindows.create_with_end_of_stream_trigger()), ["card"]),
        (lambda keyed: keyed._origin.window_all(SECOND), ["window_start", "window_end"]),
        (lambda keyed: keyed._origin.count_window_all(5), ["window_id"]),
    ],
)
def test_columns_that_say_which_window_it_is(keyed: KeyedStream, windows: Any, names: list[str]) -> None:
    assert windows(keyed).aggregate(count()).get_type().field_names == (*names, "count")
