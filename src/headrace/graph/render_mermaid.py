"""The logical graph as a Mermaid flowchart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.graph.render_labels import ship_label
from headrace.graph.specs import SinkSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.graph.nodes import Node
    from headrace.graph.stream_graph import StreamGraph

_HARMLESS: Final = frozenset(" -,:/()=·")
"""Beside letters and digits: what has no meaning to Mermaid, nor to the Markdown and HTML inside its labels."""


def render_mermaid(graph: StreamGraph) -> str:
    """The graph as the text of a flowchart, from the sources down."""
    lines = ["flowchart TB"]
    lines += [f"    {mermaid_node(node, _details(node))}" for node in graph]
    for node in graph:
        for edge in node.inputs:
            label = ship_label(edge.partitioning, edge.key, edge.side_output)
            lines.append(f"    {mermaid_edge(edge.source, node.id, label)}")
    return "\n".join(lines) + "\n"


def mermaid_node(node: Node, details: Sequence[str] = ()) -> str:
    """The declaration of a node: sources are rounded, sinks have doubled sides."""
    text = "<br/>".join(map(escape, (node.name, *details)))
    if node.is_source:
        return f'op{node.id}(["{text}"])'
    return f'op{node.id}[["{text}"]]' if isinstance(node.spec, SinkSpec) else f'op{node.id}["{text}"]'


def mermaid_edge(source: int, target: int, label: str, *, is_exchange: bool = False) -> str:
    """The declaration of an edge; a thick arrow for an exchange."""
    arrow = "==>" if is_exchange else "-->"
    return f'op{source} {arrow}|"{escape(label)}"| op{target}'


def escape(text: str) -> str:
    """Text for a quoted label: nothing in it means anything to Mermaid, a newline is a line break."""
    return "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    if char == "\n":
        return "<br/>"
    if not char.isprintable():
        return " "
    # Other alphabets and emoji are as harmless as letters; numeric entities are written with '#' instead of '&#'
    return char if char.isalnum() or char in _HARMLESS or ord(char) > 0xFF else f"#{ord(char)};"


def _details(node: Node) -> list[str]:
    details = [] if node.uid is None else [f"uid {node.uid}"]
    return details if node.parallelism is None else [*details, f"parallelism {node.parallelism}"]
