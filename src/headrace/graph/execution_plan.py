"""A job as JSON in the shape of Flink's ``getExecutionPlan()``.

The document is ``{"nodes": [...]}``; a node has these keys, in this order:

================  ======================================================================================
``id``            the node's number; inputs have smaller ones
``type``          the name that the user sees
``pact``          ``Data Source``, ``Operator`` or ``Data Sink``
``contents``      the description if there is one, else the name
``parallelism``   the number of subtasks; in the logical graph null when the job's default decides
``predecessors``  absent in sources: a list of ``{"id", "ship_strategy", "side"}``, where ``side`` is ``first`` or
                  ``second`` input; ``side_output`` is there when the records come from one
``uid``           only when the user gave one (an addition to Flink's)
================  ======================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.graph.nodes import Node
    from headrace.graph.partitioning import Partitioning
    from headrace.graph.stream_graph import StreamGraph


class _Input(Protocol):
    """An edge of the logical graph, or of a plan."""

    @property
    def source(self) -> int: ...
    @property
    def partitioning(self) -> Partitioning: ...
    @property
    def input_index(self) -> int: ...
    @property
    def side_output(self) -> str | None: ...


def graph_document(graph: StreamGraph) -> dict[str, Any]:
    """The document of the logical graph."""
    return {"nodes": [node_document(node, node.inputs, node.parallelism, node.uid) for node in graph]}


def node_document(node: Node, inputs: Iterable[_Input], parallelism: int | None, uid: str | None) -> dict[str, Any]:
    """What the document says of one operator.

    Args:
        node: the operator.
        inputs: what it reads.
        parallelism: how many subtasks it has; None when that is not known yet.
        uid: the user's; None when there is none.
    """
    document: dict[str, Any] = {
        "id": node.id,
        "type": node.name,
        "pact": node.role,
        "contents": node.description or node.name,
        "parallelism": parallelism,
        "predecessors": [_predecessor(edge) for edge in inputs],
        "uid": uid,
    }
    return {key: value for key, value in document.items() if key == "parallelism" or value not in (None, [])}


def _predecessor(edge: _Input) -> dict[str, Any]:
    document = {
        "id": edge.source,
        "ship_strategy": edge.partitioning.label,
        "side": "first" if edge.input_index == 0 else "second",
    }
    return document if edge.side_output is None else {**document, "side_output": edge.side_output}
