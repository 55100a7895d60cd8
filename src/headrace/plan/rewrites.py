"""Rewrites of the logical graph, each a function from graph to graph."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.graph.nodes import Edge, HashPartitioning, Node
from headrace.graph.specs import ColumnarWindowSpec, LocalWindowSpec
from headrace.graph.stream_graph import StreamGraph
from headrace.operators.window.layout import WindowLayout
from headrace.operators.window.local import PARTIALS_TAG
from headrace.state.keys import KeyCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def two_phase_windows(graph: StreamGraph) -> StreamGraph:
    """Sum up before the shuffle what a window with built-in aggregates would sum up behind it.

    Only where it changes nothing: without allowed lateness and without a side output for late records, which both want
    records as they came, and for aggregates that do not depend on the order of records.
    """
    nodes: list[Node] = []
    next_id = max((node.id for node in graph), default=-1) + 1
    for node in graph:
        if isinstance(node.spec, ColumnarWindowSpec) and _can_be_split(graph, node, node.spec):
            inputs: list[Edge] = []
            for number, edge in enumerate(node.inputs):
                local = _local_window(graph, node, node.spec, edge, next_id, number)
                next_id += 1
                nodes.append(local)
                inputs.extend(_edges(local, edge))
            nodes.append(replace(node, inputs=tuple(inputs)))
        else:
            nodes.append(node)
    return StreamGraph.of(nodes)


REWRITES: tuple[Callable[[StreamGraph], StreamGraph], ...] = (two_phase_windows,)
"""All rewrites, in the order in which they are done."""


def _can_be_split(graph: StreamGraph, node: Node, spec: ColumnarWindowSpec) -> bool:
    is_plain = spec.allowed_lateness == 0 and spec.late_tag is None
    return is_plain and not any(_layout(graph, edge, spec).is_ordered for edge in node.inputs)


def _layout(graph: StreamGraph, edge: Edge, spec: ColumnarWindowSpec) -> WindowLayout:
    assert isinstance(edge.partitioning, HashPartitioning)
    record_type = graph[edge.source].type_of(edge.side_output)
    codec = KeyCodec.for_type(edge.partitioning.key_type)
    return WindowLayout.of(record_type, codec, spec.aggregates, edge.partitioning.fields)


def _local_window(
    graph: StreamGraph, node: Node, spec: ColumnarWindowSpec, edge: Edge, node_id: int, number: int
) -> Node:
    return Node(
        id=node_id,
        spec=LocalWindowSpec(spec),
        name=f"Local {node.name}",
        inputs=(edge,),
        output_type=graph[edge.source].type_of(edge.side_output),
        side_types=((PARTIALS_TAG, _layout(graph, edge, spec).partial_type),),
        uid=f"{node.uid}/local-{number}",
        call_site=node.call_site,
    )


def _edges(local: Node, edge: Edge) -> Iterator[Edge]:
    """Raw records on the first input, partial results on the second; both by the key that the records have."""
    assert isinstance(edge.partitioning, HashPartitioning)
    yield Edge(local.id, edge.partitioning, None, 0)
    yield Edge(local.id, replace(edge.partitioning, only_routes=True), PARTIALS_TAG, 1)
