"""Of an operator that calls several methods, an error about a result that does not fit its type says whose it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.common.batch import Batch, concat
from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.errors import InvalidTypeError, UserFunctionError
from headrace.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import MapStateDescriptor, ValueStateDescriptor
from headrace.operators.base import OperatorContext
from headrace.operators.collector import OperatorRecordOrigin, RecordOrigins

SIDE = OutputTag("side", Types.INT())
RULES = MapStateDescriptor("rules", Types.INT(), Types.INT())
NUMBERS = range(20)


class Wrong:
    """One method gives a text for the last number, all others what they were given.

    Args:
        method: the name of that method.
    """

    def __init__(self, method: str) -> None:
        self.method = method

    def made(self, method: str, value: Any) -> Any:
        return "text" if (method, value) == (self.method, NUMBERS[-1]) else value


class WrongMap(Wrong, CoMapFunction):
    def map1(self, value: Any) -> Any:
        return self.made("map1", value)

    def map2(self, value: Any) -> Any:
        return self.made("map2", value)


class WrongFlatMap(Wrong, CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Iterator[Any]:
        yield self.made("flat_map1", value)

    def flat_map2(self, value: Any) -> Iterator[Any]:
        yield self.made("flat_map2", value)


class WrongProcess(Wrong, CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.made("process_element1", value)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.made("process_element2", value)


class WrongOfBroadcast(Wrong):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.made("process_element", value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.made("process_broadcast_element", value)


class WrongBroadcast(WrongOfBroadcast, BroadcastProcessFunction):
    pass


class WrongKeyedBroadcast(WrongOfBroadcast, KeyedBroadcastProcessFunction):
    pass


class WrongTimers(Wrong, KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(value)
        yield self.made("process_element", value)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield self.made("on_timer", timestamp)


class WrongInSide(Wrong, CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value
        yield SIDE, self.made("process_element1", value)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield SIDE, self.made("process_element2", value)


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def failure_of(stream: DataStream) -> str:
    stream.print()
    with pytest.raises(UserFunctionError) as failure:
        stream.get_execution_environment().execute()
    return str(failure.value)


def returned_by(method: Callable[..., Any]) -> str:
    return f"\n  returned by {__file__}:{method.__code__.co_firstlineno} in {method.__name__}\n  result: 'text'\n"


WAYS: dict[str, Callable[[Any, Any, Any], DataStream]] = {
    "map": lambda a, b, function: a.connect(b).map(function, int),
    "flat_map": lambda a, b, function: a.connect(b).flat_map(function, int),
    "process": lambda a, b, function: a.connect(b).process(function, int),
    "in order": lambda a, b, function: a.connect(b).in_event_time_order().process(function, int),
    "broadcast": lambda a, b, function: a.connect(b.broadcast(RULES)).process(function, int),
}


def timed(env: StreamExecutionEnvironment) -> DataStream[int]:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    return env.from_collection([*NUMBERS], int).assign_timestamps_and_watermarks(times)


def itself(value: Any) -> Any:
    return value


def twice(value: Any) -> Iterator[Any]:
    yield value
    yield value


CASES = [
    ("map", WrongMap, ("map1", "map2")),
    ("flat_map", WrongFlatMap, ("flat_map1", "flat_map2")),
    ("process", WrongProcess, ("process_element1", "process_element2")),
    ("in order", WrongProcess, ("process_element1", "process_element2")),
    ("broadcast", WrongBroadcast, ("process_element", "process_broadcast_element")),
]


@pytest.mark.parametrize(
    ("way", "kind", "method"), [(way, kind, method) for way, kind, methods in CASES for method in methods]
)
@pytest.mark.parametrize("is_keyed", [False, True])
def test_of_two_streams(env: StreamExecutionEnvironment, way: str, kind: Any, method: str, is_keyed: bool) -> None:
    first, second = timed(env), timed(env)
    if is_keyed:
        first = first.key_by(itself, key_type=int)
        second = second if way == "broadcast" else second.key_by(itself, key_type=int)
        kind = WrongKeyedBroadcast if kind is WrongBroadcast else kind
    message = failure_of(WAYS[way](first, second, kind(method)))
    assert returned_by(getattr(kind, method)) in message


@pytest.mark.parametrize("method", ["process_element1", "process_element2"])
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_behind_an_operator_whoever_reads_it(env: StreamExecutionEnvironment, method: str, is_shuffled: bool) -> None:
    """A function, or a shuffle, which brings several batches together."""
    made = timed(env).flat_map(twice, int).connect(timed(env).flat_map(twice, int)).process(WrongProcess(method), int)
    message = failure_of((made.rebalance() if is_shuffled else made).map(itself, int))
    assert returned_by(getattr(WrongProcess, method)) in message


@pytest.mark.parametrize("method", ["process_element", "on_timer"])
def test_of_records_and_timers(env: StreamExecutionEnvironment, method: str) -> None:
    message = failure_of(timed(env).key_by(itself, key_type=int).process(WrongTimers(method), int))
    assert returned_by(getattr(WrongTimers, method)) in message


@pytest.mark.parametrize("method", ["process_element1", "process_element2"])
@pytest.mark.parametrize("is_keyed", [False, True])
def test_of_side_outputs(env: StreamExecutionEnvironment, method: str, is_keyed: bool) -> None:
    streams = [env.from_collection([*NUMBERS], int) for _ in range(2)]
    first, second = (stream.key_by(itself, key_type=int) if is_keyed else stream for stream in streams)
    made = first.connect(second).process(WrongInSide(method), int)
    message = failure_of(made.get_side_output(SIDE).map(itself, int))
    assert returned_by(getattr(WrongInSide, method)) in message
    assert "\n  side output: 'side'\n" in message


class WrongState(KeyedProcessFunction):
    """What does not fit is no result of it."""

    def open(self, runtime_context: Any) -> None:
        self.pair = runtime_context.get_state(ValueStateDescriptor("pair", Types.TUPLE([Types.INT(), Types.INT()])))

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        self.pair.update((1, "text"))
        yield 1


def test_a_value_of_a_state_is_no_result(env: StreamExecutionEnvironment) -> None:
    message = failure_of(env.from_collection([1], int).key_by(itself, key_type=int).process(WrongState(), int))
    assert "expected an int" in message
    assert "result:" not in message
    assert "returned by" not in message


def batches_of(*functions: Callable[..., Any]) -> list[Batch]:
    """A batch of three rows for each function, which has made them."""
    context = OperatorContext("op", "uid", 0, 1, 1, UNKNOWN_CALL_SITE)
    made = []
    for number, function in enumerate(functions):
        rows = [f"{number}{row}" for row in "abc"]
        batch = Batch.of_rows(Types.STRING(), rows, range(3), range(3))
        batch.blame = OperatorRecordOrigin(
            context, makers=(RecordOrigins(rows, lambda _, function=function: function),)
        )
        made.append(batch)
    return made


def test_batches_together_know_of_each_row_who_has_made_it() -> None:
    first, second = batches_of(itself, twice)
    both = concat([first.slice(0, 1), second.slice(1, 3), first.slice(2, 3)])
    assert isinstance(both.blame, OperatorRecordOrigin)
    assert len(both.blame.makers) == 2, "slices of one batch have the same"
    for row, function in zip(both.rows, (itself, twice, twice, itself), strict=True):
        error = InvalidTypeError("wrong")
        error.record, error.without_row = row, "wrong"
        assert f"in {function.__name__}\n" in str(both.blame(error))


def test_batches_of_two_operators_together_blame_none() -> None:
    (first,), (second,) = batches_of(itself), batches_of(itself)
    assert concat([first, second]).blame is None
    assert concat([first, Batch.of_rows(Types.STRING(), ["x"], [0], [0])]).blame is None
