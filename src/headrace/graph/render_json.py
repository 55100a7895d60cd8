"""The logical graph as JSON, in the shape of Flink's ``get_execution_plan()``.

The document is ``{"nodes": [...]}``; a node has these keys, in this order:

==============  ========================================================================================
``id``          the node's number; inputs have smaller ones
``type``        the name that the user sees
``pact``        ``Data Source``, ``Operator`` or ``Data Sink``
``contents``    the description if there is one, else the name
``parallelism`` the number of subtasks; null when the job's default decides
``predecessors``  absent in sources: a list of ``{"id", "ship_strategy", "side"}``, where ``side`` is ``first`` or
                ``second`` input; ``side_output`` is there when the records come from one
``uid``         only when the user gave one (an addition to Flink's)
==============  ========================================================================================
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.graph.render_labels import role_of

if TYPE_CHECKING:
    from headrace.graph.nodes import Edge, Node
    from headrace.graph.stream_graph import StreamGraph


def render_json(graph: StreamGraph) -> str:
    """The graph as indented JSON."""
    return json.dumps(graph_document(graph), indent=2, ensure_ascii=False) + "\n"


def graph_document(graph: StreamGraph) -> dict[str, Any]:
    """What :func:`render_json` writes."""
    return {"nodes": [_node(node) for node in graph]}


def _node(node: Node) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": node.id,
        "type": node.name,
        "pact": role_of(node),
        "contents": node.description or node.name,
        "parallelism": node.parallelism,
    }
    if node.inputs:
        document["predecessors"] = [_predecessor(edge) for edge in node.inputs]
    if node.uid is not None:
        document["uid"] = node.uid
    return document


def _predecessor(edge: Edge) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": edge.source,
        "ship_strategy": edge.partitioning.label,
        "side": "first" if edge.input_index == 0 else "second",
    }
    if edge.side_output is not None:
        document["side_output"] = edge.side_output
    return document
