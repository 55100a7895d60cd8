"""Operators of streams without keys: the nodes they add, the types they find, what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Types, WatermarkStrategy
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.connectors.driver_sink import PrintSink
from headrace.datastream import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from headrace.graph import specs
from headrace.graph.process_specs import ProcessSpec
from headrace.graph.stream_graph import Edge

if TYPE_CHECKING:
    from headrace.connectors.sink import Sink
    from headrace.graph.stream_graph import StreamGraph

PICKLED = Types.PICKLED_BYTE_ARRAY()


@dataclass
class Click:
    user: str
    time: int


class ToClick(MapFunction):
    def map(self, value: str) -> Click:
        return Click(value, 0)


class Words(FlatMapFunction):
    def flat_map(self, value: str) -> Iterator[str]:
        yield from value.split()


class NotEmpty(FilterFunction):
    def filter(self, value: str) -> bool:
        return bool(value)


class Split(ProcessFunction):
    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterator[int | tuple[OutputTag, str]]:
        yield len(value)


class Timers(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        yield 1


def letters(value: str) -> Iterator[str]:
    yield from value


def length(value: str) -> int:
    return len(value)


@pytest.mark.parametrize(
    ("function", "declared", "expected"),
    [
        (length, None, Types.LONG()),
        (length, Types.INT(), Types.INT()),
        (length, int, Types.LONG()),
        (length, [Types.INT(), Types.STRING()], Types.ROW([Types.INT(), Types.STRING()])),
        (lambda value: value, None, PICKLED),
        (lambda value: value, Types.STRING(), Types.STRING()),
        (str, None, Types.STRING()),
        (ToClick(), None, Types.of(Click)),
    ],
)
def test_map(env: StreamExecutionEnvironment, graph: StreamGraph, function: Any, declared: Any, expected: Any) -> None:
    stream = env.from_collection(["a"]).map(function, declared)
    source, node = graph
    assert node.spec == specs.MapSpec(function, expected)
    assert node.name == stream.get_name() == "Map"
    assert node.inputs == (Edge(source.id),)
    assert node.type_of(None) == stream.get_type() == expected
    assert node.call_site.function == "test_map"


@pytest.mark.parametrize(
    ("function", "declared", "expected"),
    [
        (Words(), None, Types.STRING()),
        (lambda value: value.split(), None, PICKLED),
        (lambda value: value.split(), Types.STRING(), Types.STRING()),
    ],
)
def test_flat_map(
    env: StreamExecutionEnvironment, graph: StreamGraph, function: Any, declared: Any, expected: Any
) -> None:
    assert env.from_collection(["a"]).flat_map(function, declared).get_type() == expected
    assert graph[1].spec == specs.FlatMapSpec(function, expected)
    assert graph[1].name == "FlatMap"


@pytest.mark.parametrize("function", [NotEmpty(), bool])
def test_filter_keeps_the_type(env: StreamExecutionEnvironment, graph: StreamGraph, function: Any) -> None:
    assert env.from_collection(["a"]).filter(function).get_type() == Types.STRING()
    assert graph[1].spec == specs.FilterSpec(function)
    assert graph[1].name == "Filter"


@pytest.mark.parametrize(("declared", "expected"), [(None, Types.LONG()), (Types.INT(), Types.INT())])
def test_process(env: StreamExecutionEnvironment, graph: StreamGraph, declared: Any, expected: Any) -> None:
    function = Split()
    assert env.from_collection(["a"]).process(function, declared).get_type() == expected
    assert graph[1].spec == ProcessSpec(function, expected)
    assert graph[1].name == "Process"


def test_process_with_timers_needs_keys(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match=r"Timers wants keys: call key_by"):
        env.from_collection(["a"]).process(Timers())


def test_map_batches(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    stream = env.from_collection([("a", 1)]).map_batches(length, Types.TUPLE([Types.LONG()]))
    assert stream.get_type() == Types.TUPLE([Types.LONG()])
    assert graph[1].spec == specs.MapBatchesSpec(length, stream.get_type())


def test_map_batches_needs_columns_on_both_sides(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidTypeError, match="the records are pickled"):
        env.from_collection([object]).map_batches(length, Types.LONG())
    with pytest.raises(InvalidTypeError, match="the results are pickled"):
        env.from_collection([1]).map_batches(length, PICKLED)


def test_timestamps_and_watermarks(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("time")
    stream = env.from_collection([Click("a", 1)]).assign_timestamps_and_watermarks(strategy)
    assert stream.get_type() == Types.of(Click)
    assert graph[1].spec == specs.TimestampsSpec(strategy)
    assert graph[1].name == "Timestamps/Watermarks"


def test_event_time_needs_a_field_that_is_there(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ts")
    with pytest.raises(InvalidTypeError, match="no field 'ts': its fields are 'user', 'time'"):
        env.from_collection([Click("a", 1)]).assign_timestamps_and_watermarks(strategy)


@pytest.mark.parametrize(
    ("method", "argument", "message"),
    [
        ("map", 3, "expected a MapFunction or a function, got 3"),
        ("map", ToClick, r"got the class itself: write ToClick\(\)"),
        ("flat_map", None, "expected a FlatMapFunction or a function"),
        ("filter", "x", "expected a FilterFunction or a function"),
        ("filter", letters, "a function that yields is true of every record: return the answer"),
        ("process", length, "expected a ProcessFunction, got the function length"),
        ("process", Split, r"write Split\(\)"),
        ("sink_to", print, "sink_to takes a Sink"),
        ("union", 3, "union takes a DataStream"),
        ("get_side_output", "late", "get_side_output takes an OutputTag"),
        ("key_by", 1.5, "expected a KeySelector or a function"),
        ("assign_timestamps_and_watermarks", 1, "expected a WatermarkStrategy"),
    ],
)
def test_wrong_arguments_are_refused_with_the_line_of_the_program(
    env: StreamExecutionEnvironment, method: str, argument: Any, message: str
) -> None:
    stream = env.from_collection(["a"])
    with pytest.raises(InvalidTypeError, match=message) as caught:
        getattr(stream, method)(argument)
    assert f"at {__file__}:" in str(caught.value)


def test_declared_type_has_to_be_a_type(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidTypeError, match=r"write Types\.STRING\(\)") as caught:
        env.from_collection(["a"]).map(length, Types.STRING)
    assert f"at {__file__}:" in str(caught.value)


def test_print(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    sink = env.from_collection(["a"]).print("id")
    assert isinstance(graph[1].spec, specs.SinkSpec)
    assert repr(graph[1].spec.sink) == "PrintSink('id')"
    assert graph[1].name == sink.get_name() == "Print to Std. Out"
    assert graph[1].outputs.output_type is None


def test_sink(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    sink = PrintSink()
    stream = env.from_collection(["a"])
    handle = stream.sink_to(sink).name("out").uid("u").set_parallelism(2).set_description("d").set_max_parallelism(4)
    node = graph[1]
    assert node.spec == specs.SinkSpec(sink)
    assert (node.name, node.uid, node.parallelism, node.description, node.max_parallelism) == ("out", "u", 2, "d", 4)
    assert handle.get_name() == "out"
    stream.sink_to(sink)
    assert graph[2].name == "Sink: PrintSink"


def test_sink_refuses_a_type_at_once(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    class Choosy(PrintSink):
        def validate(self, input_type: Any) -> None:
            raise InvalidTypeError(f"no {input_type} here")

    sink: Sink = Choosy()
    with pytest.raises(InvalidTypeError, match="no String here"):
        env.from_collection(["a"]).sink_to(sink)
    assert len(graph) == 1


def test_streams_can_be_used_more_than_once(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    stream = env.from_collection(["a"])
    stream.map(str)
    stream.map(length)
    assert [edge.source for node in graph for edge in node.inputs] == [0, 0]


def test_union(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    one, two = env.from_sequence(1, 2), env.from_sequence(3, 4)
    keyed = two.key_by(lambda x: x)
    together = one.union(keyed, one)
    assert together.get_type() == Types.LONG()
    together.print()
    assert graph[2].inputs == (Edge(0), Edge(1), Edge(0))


def test_union_wants_one_type_and_one_environment(env: StreamExecutionEnvironment) -> None:
    stream = env.from_sequence(1, 2)
    with pytest.raises(InvalidTypeError, match="a union of Long and String"):
        stream.union(env.from_collection(["a"], Types.STRING()))
    with pytest.raises(InvalidProgramError, match="same environment"):
        stream.union(StreamExecutionEnvironment.get_execution_environment().from_sequence(1, 2))


@pytest.mark.parametrize("declared", [None, Types.LONG()])
def test_a_union_of_what_is_not_declared_holds_anything(env: StreamExecutionEnvironment, declared: Any) -> None:
    stream = env.from_collection([1], declared)
    together = stream.union(stream.map(lambda x: (x, "a")), env.from_collection(["a"]))
    assert together.get_type() == Types.PICKLED_BYTE_ARRAY()


def test_naming(env: StreamExecutionEnvironment, graph: StreamGraph) -> None:
    stream = env.from_collection(["a"]).map(length)
    same = stream.name("n").uid("u").set_parallelism(2).set_max_parallelism(8).set_description("d")
    assert same is stream
    node = graph[1]
    assert (node.name, node.uid, node.parallelism, node.max_parallelism, node.description) == ("n", "u", 2, 8, "d")


@pytest.mark.parametrize(
    ("method", "argument", "message"),
    [
        ("name", "", "the name of an operator is a string that is not empty"),
        ("uid", 3, "the uid of an operator"),
        ("uid", "half \ud83d", r"the uid of an operator is text that UTF-8 can write, not 'half \\ud83d'"),
        ("set_description", None, "the description of an operator"),
        ("set_parallelism", 0, "parallelism is a number from 1 to 32768, not 0"),
        ("set_parallelism", True, "not True"),
        ("set_max_parallelism", 32769, "max_parallelism is a number from 1 to 32768"),
    ],
)
def test_naming_refuses_nonsense(env: StreamExecutionEnvironment, method: str, argument: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        getattr(env.from_collection(["a"]).map(length), method)(argument)


@pytest.mark.parametrize("what", ["a union", "a keyed stream", "a side output"])
def test_only_operators_have_names(env: StreamExecutionEnvironment, what: str) -> None:
    stream = env.from_collection(["a"])
    others = {
        "a union": stream.union(stream),
        "a keyed stream": stream.key_by(length),
        "a side output": stream.process(Split()).get_side_output(OutputTag("x")),
    }
    for use in ("name", "uid"):
        with pytest.raises(InvalidProgramError, match=f"^{what} is no operator"):
            getattr(others[what], use)("n")
    with pytest.raises(InvalidProgramError, match=f"^{what} is no operator"):
        others[what].get_name()
    with pytest.raises(InvalidProgramError, match=f"^{what} is no operator"):
        others[what].get_side_output(OutputTag("y"))
