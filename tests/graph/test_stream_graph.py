"""The graph itself: types that follow from specs, the one way through all nodes, what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.output_tag import OutputTag
from headrace.common.time import Time
from headrace.common.typeinfo import TypeInformation, Types
from headrace.connectors.driver_sink import PrintSink
from headrace.datastream.aggregates import sum as sum_of
from headrace.graph import specs
from headrace.graph.partitioning import HASH, KeySelection
from headrace.graph.process_specs import KeyedProcessSpec, ProcessSpec
from headrace.graph.specs import InputKind, InputSchema, OperatorParameters, OutputSchema, PassingSpec
from headrace.graph.stream_graph import Edge, Node, StreamGraph
from headrace.graph.window_specs import AggregatedWindowSpec
from headrace.operators.base import Operator
from headrace.state.keys import KeyCodec
from headrace.testing.pushed import ManualSource
from headrace.windowing.assigners import TumblingEventTimeWindows
from headrace.windowing.definition import WindowDefinition
from headrace.windowing.triggers import EventTimeTrigger
from tests.graph.conftest import PAYMENT, add_source, keyed_by

MINUTES = TumblingEventTimeWindows.of(Time.minutes(1))


@dataclass(frozen=True, slots=True)
class KeyedPair(PassingSpec):
    """Keyed records on two inputs."""

    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.KEYED, InputKind.KEYED)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        raise NotImplementedError("the graph does not run")


@dataclass(frozen=True, slots=True)
class Counted(PassingSpec):
    """Counts how often it is asked for its type."""

    asked: list[TypeInformation]

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        self.asked.append(inputs[0].record_type)
        return OutputSchema(inputs[0].record_type)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        raise NotImplementedError("the graph does not run")


def types_of(graph: StreamGraph) -> dict[str, object]:
    return {node.name: node.outputs.output_type for node in graph}


def test_types_follow_from_specs_and_inputs(payments: StreamGraph) -> None:
    window = Types.ROW_NAMED(
        ["merchant", "window_start", "window_end", "count", "first_amount"],
        [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG(), Types.DOUBLE()],
    )
    assert types_of(payments) == {
        "Source: payments": PAYMENT,
        "Timestamps/Watermarks": PAYMENT,
        "Card rule": Types.STRING(),
        "Totals": window,
        **dict.fromkeys(("Sink: alerts", "Sink: totals", "Sink: late")),
    }
    assert payments[3].outputs.side_types == {"late": PAYMENT}
    assert payments.record_type(Edge(3, side_output="late")) == PAYMENT


def test_a_rewrite_need_not_know_of_types_behind_it(payments: StreamGraph) -> None:
    """Another type of the source reaches all that passes it on, and what is computed of it."""
    cents = Types.ROW_NAMED(["card", "merchant", "amount"], [Types.STRING(), Types.STRING(), Types.LONG()])

    def with_cents(node: Node, made: StreamGraph) -> Iterator[Node]:
        yield node
        if node.is_source:
            yield Node(made.new_id(), specs.MapSpec(None, cents), "Cents", (Edge(node.id),))

    def behind_cents(node: Node, made: StreamGraph) -> Iterator[Node]:
        is_timed = isinstance(node.spec, specs.TimestampsSpec)
        yield replace(node, inputs=(Edge(7),)) if is_timed else node

    changed = payments.transform(with_cents).transform(behind_cents)
    assert [node.id for node in changed] == [0, 7, 1, 2, 3, 4, 5, 6]
    assert changed[3].type_of(None).field_types[-1] == Types.LONG()
    assert changed[3].type_of("late") == cents
    assert payments[3].type_of("late") == PAYMENT


def test_types_are_found_once_unless_something_before_has_changed() -> None:
    graph, asked = StreamGraph(), list[TypeInformation]()
    source = add_source(graph, "source")
    graph.add(Counted(asked), "counted", (Edge(source),))
    renamed = graph.transform(lambda node, _: [replace(node, name="x", inputs=tuple(map(replace, node.inputs)))])
    assert asked == [PAYMENT]
    assert renamed[1].type_of(None) is PAYMENT

    other = specs.SourceSpec(ManualSource(Types.LONG()))
    renamed.transform(lambda node, _: [replace(node, spec=other) if node.is_source else node])
    assert asked == [PAYMENT, Types.LONG()]


def now_reads(*inputs: Edge) -> Callable[[Node], Node]:
    return lambda node: replace(node, inputs=inputs)


CHANGES: dict[str, tuple[int, Callable[[Node], Node]]] = {
    "spec": (2, lambda node: replace(node, spec=KeyedProcessSpec(None, Types.LONG()))),
    "tags": (2, lambda node: replace(node, tags=(OutputTag("more", Types.LONG()),))),
    "key": (3, now_reads(keyed_by(1, "card"))),
    "producer": (7, now_reads(Edge(2))),
    "output of the producer": (7, now_reads(Edge(3, side_output="late"))),
    "another input before it": (7, now_reads(Edge(2), Edge(3))),
}


@pytest.mark.parametrize(("node_id", "change"), CHANGES.values(), ids=CHANGES)
def test_a_type_that_a_change_makes_wrong_is_not_kept(
    payments: StreamGraph, node_id: int, change: Callable[[Node], Node]
) -> None:
    payments.add(specs.FilterSpec(None), "totals again", (Edge(3),))
    payments.add(specs.FilterSpec(None), "alerts again", (Edge(2),))

    changed = payments.transform(lambda node, _: [change(node) if node.id == node_id else node])
    anew = changed.transform(lambda node, _: [replace(node, outputs=OutputSchema())])
    outputs = {node.id: node.outputs for node in changed}
    assert outputs == {node.id: node.outputs for node in anew}
    assert outputs != {node.id: node.outputs for node in payments}


def test_a_rule_sees_what_it_has_made_of_the_inputs() -> None:
    graph = StreamGraph()
    for number in range(5):
        inputs = (Edge(number - 1),) if number else ()
        spec = specs.MapSpec(None, PAYMENT) if number else graph_source()
        graph.add(spec, "x", inputs)

    def longer(node: Node, made: StreamGraph) -> Iterator[Node]:
        yield replace(node, name="".join(made[edge.source].name for edge in node.inputs) + "x")

    assert [node.name for node in graph.transform(longer)] == ["x", "xx", "xxx", "xxxx", "xxxxx"]


def graph_source() -> specs.SourceSpec:
    graph = StreamGraph()
    spec = graph[add_source(graph, "source")].spec
    assert isinstance(spec, specs.SourceSpec)
    return spec


def test_what_a_subgraph_holds(payments: StreamGraph) -> None:
    part = payments.subgraph([4])
    assert [node.id for node in part] == [0, 1, 2, 4]
    assert part[2] is payments[2]
    assert part.add(specs.SinkSpec(PrintSink()), "more", (Edge(2),)).id == 7


@pytest.mark.parametrize("indices", [(), (0,), (1,), (0, 2), (0, 1, 2)])
def test_an_operator_has_the_inputs_that_its_spec_says(indices: tuple[int, ...]) -> None:
    graph = StreamGraph()
    source = add_source(graph, "source")
    edges = tuple(keyed_by(source, "card", input_index=index) for index in indices)
    with pytest.raises(
        InvalidProgramError, match=r"'pair' has 2 inputs, but .*: (\d|none).*\n  at .*test_stream_graph"
    ):
        graph.add(KeyedPair(), "pair", edges)
    assert [node.name for node in graph] == ["source"]


def test_several_edges_may_lead_to_one_input() -> None:
    graph = StreamGraph()
    one, two = add_source(graph, "one"), add_source(graph, "two")
    edges = (keyed_by(one, "card"), keyed_by(two, "card", input_index=1), keyed_by(two, "card"))
    node = graph.add(KeyedPair(), "pair", edges)
    first, second = graph.input_schemas(node)
    assert (first.key, second.key) == (edges[0].key, edges[1].key)


def test_keyed_inputs_have_keys_of_one_type() -> None:
    graph = StreamGraph()
    source = add_source(graph, "source")
    amounts = KeySelection(KeyCodec.for_type(Types.LONG()), None, ("amount",))
    with pytest.raises(InvalidProgramError, match=r"input 1 of operator 'pair' takes keyed records.*\n  at "):
        graph.add(KeyedPair(), "pair", (keyed_by(source, "card"), Edge(source, input_index=1)))
    with pytest.raises(InvalidProgramError, match=r"keys of different types, String and Long.*\n  at "):
        graph.add(KeyedPair(), "pair", (keyed_by(source, "card"), Edge(source, HASH, input_index=1, key=amounts)))


def test_records_that_an_operator_has_no_use_for_are_told_with_the_line() -> None:
    graph = StreamGraph()
    source = add_source(graph, "source")
    with pytest.raises(InvalidTypeError, match=r"(?s)card.*\n  at .*test_stream_graph\.py:\d+ in test_records"):
        graph.add(
            AggregatedWindowSpec(WindowDefinition(MINUTES, EventTimeTrigger()), (sum_of("card"),)),
            "sums",
            (keyed_by(source, "card"),),
        )


def test_tags_are_side_outputs_beside_those_that_the_operator_has() -> None:
    graph = StreamGraph()
    source = add_source(graph, "source")
    late = OutputTag("late")
    window = graph.add(
        AggregatedWindowSpec(WindowDefinition(MINUTES, EventTimeTrigger(), late_tag=late), (sum_of("amount"),)),
        "w",
        (keyed_by(source, "card"),),
    )
    process = graph.add(ProcessSpec(None, PAYMENT), "process", (Edge(source),))
    assert not window.spec.emits_to_tags
    assert process.spec.emits_to_tags
    assert window.outputs.side_types == {"late": PAYMENT}
    tagged = graph.update(process.id, tags=(OutputTag("odd", Types.LONG()),), name="tagged")
    assert tagged.outputs.side_types == {"odd": Types.LONG()}
    assert graph[process.id] is tagged
