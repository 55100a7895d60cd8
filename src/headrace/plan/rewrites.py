"""Rewrites of the logical graph, each a function from graph to graph."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.graph.nodes import Edge, Node
from headrace.graph.partitioning import FORWARD
from headrace.graph.specs import ColumnarWindowSpec, LocalWindowSpec
from headrace.operators.window.layout import WindowLayout
from headrace.operators.window.local import ACCUMULATORS_TAG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.graph.stream_graph import StreamGraph


def two_phase_windows(graph: StreamGraph) -> StreamGraph:
    """Sum up before the shuffle what a window with built-in aggregates would sum up behind it.

    Only where it changes nothing: without allowed lateness and without a side output for late records, which both want
    records as they came, and for aggregates that do not depend on the order of records.
    """

    def split(node: Node, free: Iterator[int]) -> Iterator[Node]:
        spec = node.spec
        if isinstance(spec, ColumnarWindowSpec) and _can_be_split(graph, node, spec):
            found = enumerate(node.inputs)
            local = [(_local_window(graph, node, spec, edge, next(free), number), edge) for number, edge in found]
            yield from (window for window, _ in local)
            node = replace(node, inputs=tuple(edge for one in local for edge in _edges(*one)))
        yield node

    return graph.transform(split)


REWRITES: tuple[Callable[[StreamGraph], StreamGraph], ...] = (two_phase_windows,)
"""All rewrites, in the order in which they are done."""


def _can_be_split(graph: StreamGraph, node: Node, spec: ColumnarWindowSpec) -> bool:
    is_plain = spec.allowed_lateness == 0 and spec.late_tag is None
    return is_plain and not any(_layout(graph, edge, spec).is_ordered for edge in node.inputs)


def _layout(graph: StreamGraph, edge: Edge, spec: ColumnarWindowSpec) -> WindowLayout:
    assert edge.key is not None
    record_type = graph.record_type(edge)
    return WindowLayout.of(record_type, edge.key.codec, spec.aggregates, edge.key.fields, edge.key.names)


def _local_window(
    graph: StreamGraph, node: Node, spec: ColumnarWindowSpec, edge: Edge, node_id: int, number: int
) -> Node:
    return Node(
        id=node_id,
        spec=LocalWindowSpec(spec),
        name=f"Local {node.name}",
        inputs=(replace(edge, partitioning=FORWARD),),
        output_type=graph.record_type(edge),
        side_types=((ACCUMULATORS_TAG, _layout(graph, edge, spec).accumulator_type),),
        uid=f"{node.uid}/local-{number}",
        call_site=node.call_site,
    )


def _edges(local: Node, edge: Edge) -> Iterator[Edge]:
    """Raw records on the first input, accumulators on the second; both by the key that the records have."""
    assert edge.key is not None
    key = replace(edge.key, is_attached=True)
    yield Edge(local.id, edge.partitioning, None, 0, key)
    yield Edge(local.id, edge.partitioning, ACCUMULATORS_TAG, 1, replace(key, only_routes=True))
