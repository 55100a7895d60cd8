"""The logical graph as text: a tree from the sources down.

Edges say how records travel unless they just go on to the next operator (``FORWARD``). An operator that several others
feed is drawn below the first of them; the others refer to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.graph.render_labels import count_of, edge_key, one_line, ship_label

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.graph.nodes import Edge, Node
    from headrace.graph.stream_graph import StreamGraph

    Children = Mapping[int, Sequence[tuple[str, int]]]


def render_text(graph: StreamGraph) -> str:
    """The graph as a tree, one line for each operator."""
    labels = {node.id: _label(node) for node in graph}
    children = {
        node.id: [(edge_text(_strategy(edge)), consumer.id) for consumer, edge in graph.consumers(node.id)]
        for node in graph
    }
    roots = [node.id for node in graph if node.is_source]
    return "\n".join([count_of(len(graph), "operator"), "", *draw_forest(labels, children, roots)]) + "\n"


def draw_forest(labels: Mapping[int, str], children: Children, roots: Sequence[int]) -> Iterator[str]:
    """Draw trees whose branches may grow together.

    Args:
        labels: what stands for each node.
        children: by node, what follows it, each with a text for the branch (empty for none).
        roots: where to begin.

    Yields:
        The lines.
    """
    drawn: set[int] = set()
    # A stack and not recursion: generated programs can be deeper than Python's
    stack = [("", "", "", root) for root in reversed(roots)]
    while stack:
        indent, branch, edge, node = stack.pop()
        if node in drawn:
            yield f"{indent}{branch}{edge}{labels[node].split('  ')[0]} (see above)"
            continue
        drawn.add(node)
        yield f"{indent}{branch}{edge}{labels[node]}"
        below = indent + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        following = list(children.get(node, ()))
        branches = ["├─ "] * (len(following) - 1) + ["└─ "]
        stack += [(below, arm, *child) for arm, child in zip(branches, following, strict=False)][::-1]


def edge_text(label: str) -> str:
    """What stands before the operator at the end of a branch; nothing when records just go on."""
    shown = label.removeprefix("FORWARD").removeprefix(", ")
    return f"{shown} → " if shown else ""


def node_text(node_id: int, name: str) -> str:
    """An operator's number and name."""
    return f"[{node_id}] {one_line(name)}"


def _label(node: Node) -> str:
    said = []
    if node.uid is not None:
        said.append(f"uid {one_line(node.uid)}")
    if node.parallelism is not None:
        said.append(f"parallelism {node.parallelism}")
    return node_text(node.id, node.name) + (f"  ({', '.join(said)})" if said else "")


def _strategy(edge: Edge) -> str:
    side_output = None if edge.side_output is None else one_line(edge.side_output)
    return ship_label(edge.partitioning.label, edge_key(edge), side_output)
