"""Operators of keyed streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Types
from headrace.common.errors import InvalidTypeError
from headrace.datastream import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    TimeDomain,
)
from headrace.datastream.data_stream import DataStream, KeyedStream
from headrace.graph import specs
from headrace.graph.process_specs import KeyedProcessSpec

if TYPE_CHECKING:
    from headrace.graph.stream_graph import StreamGraph

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class Count(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        yield 1

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[int]:
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        yield 2


class Plain(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[str]:
        yield "a"


class Calls:
    """Says what was called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.calls.append(f"open {runtime_context}")

    def close(self) -> None:
        self.calls.append("close")


class Doubled(Calls, MapFunction):
    def map(self, value: int) -> int:
        return value * 2


class Twice(Calls, FlatMapFunction):
    def flat_map(self, value: int) -> Iterable[int]:
        return [value, value]


class Odd(Calls, FilterFunction):
    def filter(self, value: int) -> bool:
        return value % 2 == 1


class Summed(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1 + value2


@pytest.fixture
def keyed(env: StreamExecutionEnvironment) -> KeyedStream:
    return env.from_collection([("a", 1)]).key_by(0)


def test_process(keyed: KeyedStream, graph: StreamGraph) -> None:
    function = Count()
    stream = keyed.process(function)
    assert type(stream) is DataStream
    assert stream.get_type() == Types.LONG()
    assert graph[1].spec == KeyedProcessSpec(function, Types.LONG())
    assert graph[1].name == "KeyedProcess"
    assert graph[1].inputs[0].key is not None


def test_process_takes_a_process_function_as_well(keyed: KeyedStream) -> None:
    assert keyed.process(Plain()).get_type() == Types.STRING()


@pytest.mark.parametrize("function", [Summed(), lambda a, b: a])
def test_reduce(env: StreamExecutionEnvironment, graph: StreamGraph, function: Any) -> None:
    keyed = env.from_collection([("a", 1)], PAIR).key_by(lambda pair: pair[0])
    assert keyed.reduce(function).get_type() == PAIR
    assert graph[1].spec == specs.RollingReduceSpec(function)
    assert graph[1].name == "Reduce"


@pytest.mark.parametrize(
    ("method", "name"), [("sum", "Sum"), ("min", "Min"), ("max", "Max"), ("min_by", "MinBy"), ("max_by", "MaxBy")]
)
@pytest.mark.parametrize("field", [1, "f1"])
def test_rolling_aggregates(keyed: KeyedStream, graph: StreamGraph, method: str, name: str, field: Any) -> None:
    assert getattr(keyed, method)(field).get_type() == PAIR
    assert graph[1].spec == specs.RollingAggregateSpec(method, field)
    assert graph[1].name == name


def test_rolling_aggregates_of_plain_values(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    assert env.from_sequence(1, 3).key_by(lambda x: x % 2).sum().get_type() == Types.LONG()
    assert graph[1].spec == specs.RollingAggregateSpec("sum", None)


def test_rolling_aggregates_of_unknown_records(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    env.from_collection([object]).key_by(id).max_by("score")
    assert graph[1].spec == specs.RollingAggregateSpec("max_by", "score")


@pytest.mark.parametrize("method", ["min", "max", "min_by", "max_by"])
def test_text_has_an_order(keyed: KeyedStream, method: str) -> None:
    assert getattr(keyed, method)(0).get_type() == PAIR


def test_what_a_collection_holds_says_nothing_of_what_reduce_makes(keyed: KeyedStream, graph: StreamGraph) -> None:
    assert keyed.reduce(lambda one, other: [one, other]).get_type() == Types.PICKLED_BYTE_ARRAY()
    key = graph[2].inputs[0].key
    assert key is not None
    assert (key.fields, key.codec.type) == (None, keyed.get_key_type())
    assert key.selector(("a", 1)) == "a"


@pytest.mark.parametrize(
    ("method", "field", "message"),
    [
        ("sum", 0, r"sum\(0\) takes numbers, but the values are of type String"),
        ("max", 2, r"max\(2\): .* has no field 2: its fields are 'f0', 'f1'"),
        ("min_by", "f2", "no field 'f2'"),
        ("max_by", 1.5, "takes the name or the position of a field, not 1.5"),
        ("sum", True, "not True"),
    ],
)
def test_fields_that_do_not_fit(keyed: KeyedStream, method: str, field: Any, message: str) -> None:
    with pytest.raises(InvalidTypeError, match=message):
        getattr(keyed, method)(field)


def test_lists_have_no_order(env: StreamExecutionEnvironment) -> None:
    keyed = env.from_collection([("a", [1])]).key_by(0)
    with pytest.raises(InvalidTypeError, match="takes numbers, text"):
        keyed.max_by(1)


def test_plain_values_have_no_fields(env: StreamExecutionEnvironment) -> None:
    keyed = env.from_sequence(1, 3).key_by(lambda x: x)
    with pytest.raises(InvalidTypeError, match=r"type Long have no fields: sum\(\) takes the record itself"):
        keyed.sum("amount")
    with pytest.raises(InvalidTypeError, match=r"sum\(\) takes numbers"):
        env.from_collection(["a"]).key_by(lambda x: x).sum()


@pytest.mark.parametrize(
    ("method", "spec"), [("map", specs.MapSpec), ("flat_map", specs.FlatMapSpec), ("filter", specs.FilterSpec)]
)
def test_plain_functions_stay_plain(keyed: KeyedStream, graph: StreamGraph, method: str, spec: Any) -> None:
    def function(value: Any) -> Any:
        return value

    stream = getattr(keyed, method)(function)
    assert type(stream) is DataStream
    assert type(graph[1].spec) is spec
    assert graph[1].spec.function is function
    assert graph[1].inputs[0].key is not None


@pytest.mark.parametrize(
    ("method", "function", "results"), [("map", Doubled(), [6]), ("flat_map", Twice(), [3, 3]), ("filter", Odd(), [3])]
)
def test_opened_functions_may_have_state(
    keyed: KeyedStream, graph: StreamGraph, method: str, function: Any, results: list[int]
) -> None:
    getattr(keyed, method)(function)
    spec = graph[1].spec
    assert isinstance(spec, KeyedProcessSpec)
    assert graph[1].type_of(None) == (PAIR if method == "filter" else Types.LONG())
    spec.function.open("context")
    assert list(spec.function.process_element(3, None)) == results
    spec.function.close()
    assert function.calls == ["open context", "close"]


def test_opened_filter_drops(keyed: KeyedStream, graph: StreamGraph) -> None:
    keyed.filter(Odd())
    spec = graph[1].spec
    assert isinstance(spec, KeyedProcessSpec)
    assert spec.function.process_element(2, None) is None


def test_opened_functions_without_keys_stay_as_they_are(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    env.from_sequence(1, 2).map(Doubled())
    assert isinstance(graph[1].spec, specs.MapSpec)


def test_window_wants_an_assigner(keyed: KeyedStream) -> None:
    with pytest.raises(InvalidTypeError, match=r"window takes TumblingEventTimeWindows\.of"):
        keyed.window(5)  # type: ignore[arg-type]
