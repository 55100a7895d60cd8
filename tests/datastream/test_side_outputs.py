"""Side outputs of operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration, Types
from headrace.common.errors import InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.datastream import KeyedProcessFunction, OutputTag, ProcessFunction, StreamExecutionEnvironment

if TYPE_CHECKING:
    from headrace.datastream.data_stream import DataStream
    from headrace.graph.stream_graph import StreamGraph

ODD = OutputTag("odd", Types.LONG())


class Even(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value if value % 2 == 0 else (ODD, value)


class KeyedEven(KeyedProcessFunction):
    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value if value % 2 == 0 else (ODD, value)


@pytest.fixture(params=["plain", "keyed"])
def even(env: StreamExecutionEnvironment, request: pytest.FixtureRequest) -> DataStream:
    numbers = env.from_sequence(1, 5)
    return numbers.process(Even()) if request.param == "plain" else numbers.key_by(lambda x: x).process(KeyedEven())


def test_side_output(even: DataStream, graph: StreamGraph) -> None:
    odd = even.name("even").get_side_output(ODD)
    assert odd.get_type() == Types.LONG()
    assert graph[1].outputs.side_types == {"odd": Types.LONG()}
    odd.print()
    (edge,) = graph[2].inputs
    assert (edge.source, edge.side_output) == (1, "odd")


def test_asking_again_changes_nothing(even: DataStream, graph: StreamGraph) -> None:
    even.get_side_output(ODD)
    even.get_side_output(OutputTag("odd", Types.LONG()))
    assert graph[1].outputs.side_types == {"odd": Types.LONG()}


def test_a_record_of_another_type_is_told_with_its_side_output() -> None:
    class Wrong(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield ODD, "one"

    settings = Configuration.from_dict({"headrace.runtime": "local", "restart-strategy.type": "none"})
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    odd = env.from_collection([1], int).process(Wrong(), output_type=int).get_side_output(ODD)
    with pytest.raises(UserFunctionError, match=r"got 'one' \(str\)(.|\n)*side output: 'odd'"):
        odd.execute_and_collect(limit=1)


def test_several_side_outputs(even: DataStream, graph: StreamGraph) -> None:
    even.get_side_output(ODD)
    assert even.get_side_output(OutputTag("other")).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert graph[1].outputs.side_types == {"odd": Types.LONG(), "other": Types.PICKLED_BYTE_ARRAY()}


def test_a_tag_is_its_id() -> None:
    assert OutputTag("odd") == ODD
    assert len({OutputTag("odd"), ODD, OutputTag("even")}) == 2
    with pytest.raises(InvalidProgramError, match="a tag_id that is not empty"):
        OutputTag("")


def test_one_id_has_one_type(even: DataStream) -> None:
    even.get_side_output(ODD)
    with pytest.raises(InvalidTypeError, match=r"'odd' of '.*Process' is of type Long, but the tag says String"):
        even.get_side_output(OutputTag("odd", Types.STRING()))


def test_one_id_may_have_another_type_elsewhere(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_sequence(1, 5)
    numbers.process(Even()).get_side_output(ODD)
    numbers.process(Even()).get_side_output(OutputTag("odd", Types.STRING()))


def test_side_output_belongs_to_the_operator_directly_before(even: DataStream) -> None:
    with pytest.raises(InvalidProgramError, match="'Map' never writes to the side output 'odd'"):
        even.map(str).get_side_output(ODD)


def test_side_output_goes_on_as_any_stream(even: DataStream, graph: StreamGraph) -> None:
    odd = even.get_side_output(ODD)
    odd.key_by(lambda x: x).sum()
    odd.union(even.get_side_output(ODD)).map(str)
    assert [edge.side_output for edge in graph[2].inputs] == ["odd"]
    assert [edge.side_output for edge in graph[3].inputs] == ["odd", "odd"]
