"""What PyFlink's own tests of two streams ask for; ``yardstick.py`` has the list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.common import Row, Types
from headrace.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from tests.pyflink.jobs import BY_SECOND, INT, PAIR, STRING, collected, texts
from tests.pyflink.test_streams import nodes

SIDE = OutputTag("side", INT)
NUMBERS = MapStateDescriptor("numbers", STRING, INT)


class _Spread(CoMapFunction):  # type: ignore[type-arg]
    def map1(self, value: Any) -> Any:
        return f"{value[0]}, {value[1] + 1}"

    def map2(self, value: Any) -> Any:
        return f"{value[0]}, {value[1] * 2}"


class _Doubled(CoFlatMapFunction):  # type: ignore[type-arg]
    def flat_map1(self, value: Any) -> Iterator[str]:
        yield from ("a", str(value))

    def flat_map2(self, value: Any) -> Iterator[str]:
        if value > 6:
            yield from ("b", str(value))


def test_functions_of_two_streams(env: StreamExecutionEnvironment) -> None:
    first, second = env.from_collection([("a", 0), ("b", 1)], PAIR), env.from_collection([("c", 2)], PAIR)
    expected = ["a, 1", "b, 2", "c, 4"]
    assert sorted(collected(first.connect(second).map(_Spread()))) == expected
    assert sorted(collected(first.connect(second).map(_Spread(), output_type=STRING))) == expected
    numbers = env.from_collection([1, 2], INT).connect(env.from_collection([6, 7], INT))
    assert sorted(collected(numbers.flat_map(_Doubled(), STRING))) == sorted(["a", "1", "a", "2", "b", "7"])


class _CountByKey(KeyedCoProcessFunction):  # type: ignore[type-arg]
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", INT))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)
        yield Row(value[0], self.count.value())

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield from self.process_element1(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield Row(f"timer of {ctx.get_current_key()}", timestamp)


def test_state_and_timers_of_two_keyed_streams(env: StreamExecutionEnvironment) -> None:
    times = {name: env.from_collection(rows, Types.ROW([STRING, STRING])) for name, rows in _TIMED.items()}
    first, second = (times[name].assign_timestamps_and_watermarks(BY_SECOND) for name in ("first", "second"))
    streams = first.connect(second).key_by(lambda row: row[0], lambda row: row[0], STRING)
    found = texts(streams.process(_CountByKey(), Types.ROW([STRING, INT])))
    rows = [("a", 1), ("a", 2), ("b", 1), ("timer of a", 1001), ("timer of a", 2001), ("timer of b", 3001)]
    assert sorted(found) == [f"Row(f0={name!r}, f1={number})" for name, number in rows]


_TIMED = {"first": [("a", "1000")], "second": [("a", "2000"), ("b", "3000")]}


class _LatestMap(CoMapFunction):  # type: ignore[type-arg]
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_reducing_state(ReducingStateDescriptor("total", lambda a, b: a + b, INT))

    def map1(self, value: Any) -> str:
        self.total.add(value[1])
        return f"{value[0]}: {self.total.get()}"

    def map2(self, value: Any) -> None:
        self.total.add(value[1])


class _LatestFlatMap(CoFlatMapFunction):  # type: ignore[type-arg]
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_reducing_state(ReducingStateDescriptor("total", lambda a, b: a + b, INT))

    def flat_map1(self, value: Any) -> Iterator[str]:
        self.total.add(value[1])
        yield f"{value[0]}: {self.total.get()}"

    def flat_map2(self, value: Any) -> list[str]:
        self.total.add(value[1])
        return []


def test_state_of_two_keyed_streams(streaming: StreamExecutionEnvironment) -> None:
    streaming.set_parallelism(1)
    first = streaming.from_collection([("a", 1), ("a", 2), ("b", 3)], PAIR)
    keyed = first.connect(streaming.from_collection([], PAIR)).key_by(lambda row: row[0], lambda row: row[0], STRING)
    for results in (keyed.map(_LatestMap(), STRING), keyed.flat_map(_LatestFlatMap(), STRING)):
        assert sorted(collected(results)) == ["a: 1", "a: 3", "b: 3"]


class _Sides(CoProcessFunction):  # type: ignore[type-arg]
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value
        yield SIDE, value * 10

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield SIDE, value * 100


class _KeyedSides(_Sides, KeyedCoProcessFunction):  # type: ignore[type-arg]
    pass


def test_side_outputs_of_two_streams(env: StreamExecutionEnvironment) -> None:
    streams = env.from_collection([1, 2], INT).connect(env.from_collection([3], INT))
    keyed = streams.key_by(lambda number: number, lambda number: number, INT)
    for results in (streams.process(_Sides(), INT), keyed.process(_KeyedSides(), INT)):
        assert sorted(collected(results.get_side_output(SIDE))) == [10, 20, 300]


class _WithNumbers(BroadcastProcessFunction):  # type: ignore[type-arg]
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield f"{value}: {ctx.get_broadcast_state(NUMBERS).get(value)}"
        yield SIDE, len(value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> list[Any]:
        ctx.get_broadcast_state(NUMBERS).put(*value)
        return []


class _KeyedWithNumbers(KeyedBroadcastProcessFunction):  # type: ignore[type-arg]
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", INT))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.seen.update((self.seen.value() or 0) + 1)
        yield f"{value}: {ctx.get_broadcast_state(NUMBERS).get(value)}"
        yield SIDE, self.seen.value()

    def process_broadcast_element(self, value: Any, ctx: Any) -> list[Any]:
        ctx.get_broadcast_state(NUMBERS).put(*value)
        return []


def test_broadcast_state(streaming: StreamExecutionEnvironment) -> None:
    """Records without event time come input by input, in one epoch: the words first."""
    words = streaming.from_collection(["a", "b", "a"], STRING)
    numbers = streaming.from_collection([("a", 1), ("b", 2)], PAIR).broadcast(NUMBERS)
    plain = words.connect(numbers).process(_WithNumbers(), STRING)
    keyed = words.key_by(lambda word: word, STRING).connect(numbers).process(_KeyedWithNumbers(), STRING)
    for results in (plain, keyed):
        assert {word.partition(":")[0] for word in collected(results)} == {"a", "b"}
    assert sorted(collected(plain.get_side_output(SIDE))) == [1, 1, 1]
    assert sorted(collected(keyed.get_side_output(SIDE))) == [1, 1, 2]


def test_a_stream_that_is_broadcast_in_the_plan(streaming: StreamExecutionEnvironment) -> None:
    stream = streaming.from_collection([("a", 0)], PAIR).broadcast()
    stream.map(lambda row: row).set_parallelism(3).print()
    mapped = next(node for node in nodes(streaming) if node["type"] == "Map")
    assert [edge["ship_strategy"] for edge in mapped["predecessors"]] == ["BROADCAST"]
