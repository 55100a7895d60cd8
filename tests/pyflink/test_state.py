"""What PyFlink's own tests of process functions ask for: state and side outputs; ``yardstick.py`` has the list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.common import Row, Time, Types
from headrace.datastream import (
    AggregateFunction,
    DataStream,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tests.pyflink.jobs import BY_SECOND, INT, PAIR, STRING, SecondField, collected, environment, texts

SIDE = OutputTag("side", INT)
A_SECOND = StateTtlConfig.new_builder(Time.seconds(1)).set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite).build()


# --- process functions and state -------------------------------------------------------------------------------------


class _Timestamps(ProcessFunction):  # type: ignore[type-arg]
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[str]:
        yield f"timestamp {ctx.timestamp()}, value {value}"


def test_a_process_function_sees_timestamps(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    rows = env.from_collection([(1, "1603708211000"), (2, "1603708224000")], Types.ROW([INT, STRING]))
    assert texts(rows.assign_timestamps_and_watermarks(BY_SECOND).process(_Timestamps(), output_type=STRING)) == [
        "timestamp 1603708211000, value Row(f0=1, f1='1603708211000')",
        "timestamp 1603708224000, value Row(f0=2, f1='1603708224000')",
    ]


class _ThreeStates(KeyedProcessFunction):  # type: ignore[type-arg]
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", INT))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", INT))
        descriptor = MapStateDescriptor("names", INT, STRING)
        descriptor.enable_time_to_live(A_SECOND)
        self.names = runtime_context.get_map_state(descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        yield f"{ctx.get_current_key()} {self.last.value()} {list(self.all.get())} {dict(self.names.items())} {value}"
        self.last.update(value[0])
        self.all.add(value[0])
        self.names.put(value[0], value[1])


def test_three_kinds_of_state(env: StreamExecutionEnvironment) -> None:
    greetings = [(1, "hi"), (2, "hello"), (3, "hi"), (4, "hello"), (5, "hi")]
    rows = env.from_collection(greetings, Types.ROW([INT, STRING]))
    assert texts(rows.key_by(lambda x: x[1], key_type=STRING).process(_ThreeStates(), output_type=STRING)) == [
        "hello 2 [2] {2: 'hello'} Row(f0=4, f1='hello')",
        "hello None [] {} Row(f0=2, f1='hello')",
        "hi 1 [1] {1: 'hi'} Row(f0=3, f1='hi')",
        "hi 3 [1, 3] {1: 'hi', 3: 'hi'} Row(f0=5, f1='hi')",
        "hi None [] {} Row(f0=1, f1='hi')",
    ]


class _Add(AggregateFunction):  # type: ignore[type-arg]
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return value + accumulator

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class _RunningSum(KeyedProcessFunction):  # type: ignore[type-arg]
    def __init__(self, *, aggregates: bool) -> None:
        self.aggregates = aggregates

    def open(self, runtime_context: RuntimeContext) -> None:
        if self.aggregates:
            aggregating = AggregatingStateDescriptor("sum", _Add(), INT)
            aggregating.enable_time_to_live(A_SECOND)
            self.sum: Any = runtime_context.get_aggregating_state(aggregating)
        else:
            self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, INT))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.sum.add(value[0])
        yield self.sum.get(), value[1]


@pytest.mark.parametrize("aggregates", [False, True])
def test_reducing_and_aggregating_state(env: StreamExecutionEnvironment, aggregates: bool) -> None:
    greetings = [(1, "hi"), (2, "hello"), (3, "hi"), (4, "hello"), (5, "hi"), (6, "hello")]
    ds = env.from_collection(greetings, Types.TUPLE([INT, STRING])).key_by(lambda x: x[1], key_type=STRING)
    assert sorted(collected(ds.process(_RunningSum(aggregates=aggregates), Types.TUPLE([INT, STRING])))) == [
        *((1, "hi"), (2, "hello"), (4, "hi"), (6, "hello"), (9, "hi"), (12, "hello"))
    ]


class _Counted(MapFunction, FlatMapFunction, FilterFunction):  # type: ignore[type-arg]
    """Keeps how often a key was seen, whatever it is used as."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", INT))

    def count(self) -> int:
        self.seen.update((self.seen.value() or 0) + 1)
        return self.seen.value()  # type: ignore[no-any-return]

    def map(self, value: Any) -> Any:
        return value[0], self.count()

    def flat_map(self, value: Any) -> Iterator[Any]:
        yield value[0], self.count()

    def filter(self, value: Any) -> bool:
        return self.count() == 1


@pytest.mark.parametrize(
    ("method", "found"),
    [
        ("map", [("a", 1), ("b", 2), ("c", 1), ("d", 2), ("e", 1)]),
        ("flat_map", [("a", 1), ("b", 2), ("c", 1), ("d", 2), ("e", 1)]),
        ("filter", [Row(f0="a", f1=0), Row(f0="c", f1=1), Row(f0="e", f1=2)]),
    ],
)
def test_state_in_functions_of_keyed_streams(env: StreamExecutionEnvironment, method: str, found: list[Any]) -> None:
    rows = env.from_collection([("a", 0), ("b", 0), ("c", 1), ("d", 1), ("e", 2)], PAIR)
    keyed = rows.key_by(SecondField(), key_type=INT)
    assert sorted(collected(getattr(keyed, method)(_Counted())), key=str) == found


class _Concatenate(ReduceFunction):  # type: ignore[type-arg]
    def open(self, runtime_context: RuntimeContext) -> None:
        self.calls = runtime_context.get_state(ValueStateDescriptor("calls", INT))

    def reduce(self, value1: Any, value2: Any) -> Any:
        self.calls.update((self.calls.value() or 0) + 1)
        return Row(value1[0] + value2[0], self.calls.value())


@pytest.mark.parametrize(
    ("mode", "found"),
    [
        (RuntimeExecutionMode.STREAMING, [("a", 0), ("ab", 1), ("c", 1), ("cd", 1), ("cde", 2)]),
        (RuntimeExecutionMode.BATCH, [("ab", 1), ("cde", 2)]),
    ],
)
def test_state_in_a_reduce_function(mode: RuntimeExecutionMode, found: list[Any]) -> None:
    rows = environment(mode).from_collection([("a", 0), ("c", 1), ("d", 1), ("b", 0), ("e", 1)], PAIR)
    keyed = rows.key_by(lambda row: row[0] < "c", key_type=Types.BOOLEAN())
    assert sorted(map(tuple, collected(keyed.reduce(_Concatenate())))) == found


# --- side outputs ----------------------------------------------------------------------------------------------------


class _Twice(ProcessFunction):  # type: ignore[type-arg]
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value
        yield SIDE, value * 2


WORDS = OutputTag("words", STRING)


class _Apart(ProcessFunction):  # type: ignore[type-arg]
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value[0]
        yield SIDE, value[1]
        yield WORDS, value[0] + str(value[1])


@pytest.mark.parametrize("chained", [False, True])
def test_side_outputs(env: StreamExecutionEnvironment, chained: bool) -> None:
    def split() -> DataStream:
        ds = env.from_collection([("a", 0), ("b", 1), ("c", 2)], PAIR)
        return (ds.map(lambda e: (e[0], e[1])) if chained else ds).process(_Apart(), output_type=STRING)

    assert texts(split()) == ["a", "b", "c"]
    assert sorted(collected(split().get_side_output(SIDE))) == [0, 1, 2]
    assert texts(split().get_side_output(WORDS)) == ["a0", "b1", "c2"]


class _SumsAside(KeyedProcessFunction):  # type: ignore[type-arg]
    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, INT))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.sum.add(value[1])
        yield value[1]
        yield SIDE, self.sum.get()


def test_a_keyed_side_output(env: StreamExecutionEnvironment) -> None:
    ds = env.from_collection([("a", 1), ("b", 2), ("a", 3), ("b", 4)], PAIR).key_by(lambda e: e[0])
    assert sorted(collected(ds.process(_SumsAside(), output_type=INT).get_side_output(SIDE))) == [1, 2, 4, 6]


def test_one_tag_for_two_operators(env: StreamExecutionEnvironment) -> None:
    first = env.from_collection([1, 2, 3], INT).process(_Twice())
    assert sorted(collected(first.get_side_output(SIDE))) == [2, 4, 6]
    again = env.from_collection([1, 2, 3], INT).process(_Twice()).map(lambda i: i * 2).process(_Twice())
    assert sorted(collected(again.get_side_output(SIDE))) == [4, 8, 12]
