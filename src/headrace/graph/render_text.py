"""The logical graph as text: a tree from the sources down.

Edges say how records travel unless they just go on to the next operator (``FORWARD``). An operator that several others
feed is drawn below the first of them; the others refer to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.graph.render_labels import count_of, one_line, ship_label

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.graph.nodes import Edge, Node
    from headrace.graph.stream_graph import StreamGraph

_BELOW: Final = {"": "", "├─ ": "│  ", "└─ ": "   "}
"""What stands in the lines below a branch."""


def render_text(graph: StreamGraph) -> str:
    """The graph as a tree, one line for each operator."""
    labels = {node.id: node_text(node.id, node.name) for node in graph}
    children = {node.id: [(_edge_text(edge), target.id) for target, edge in graph.consumers(node.id)] for node in graph}
    roots = [node.id for node in graph if node.is_source]
    lines = [count_of(len(graph), "operator"), ""]
    lines += [
        line if node is None else line + _details(graph[node]) for line, node in draw_forest(labels, children, roots)
    ]
    return "\n".join(lines) + "\n"


def draw_forest(
    labels: Mapping[int, str], children: Mapping[int, Sequence[tuple[str, int]]], roots: Sequence[int]
) -> Iterator[tuple[str, int | None]]:
    """Draw trees whose branches may grow together.

    Args:
        labels: what stands for each node.
        children: by node, what follows it, each with a text for the branch (empty for none).
        roots: where to begin.

    Yields:
        The lines, each with the node that it draws; None when it refers to one that was drawn above.
    """
    drawn: set[int] = set()
    # A stack and not recursion: generated programs can be deeper than Python's
    stack = [("", "", "", root) for root in reversed(roots)]
    while stack:
        indent, branch, edge, node = stack.pop()
        line = f"{indent}{branch}{edge}{labels[node]}"
        if node in drawn:
            yield f"{line} (see above)", None
            continue
        drawn.add(node)
        yield line, node
        following = children.get(node, ())
        arms = [*["├─ "] * (len(following) - 1), "└─ "]
        below = indent + _BELOW[branch]
        stack += [(below, arm, *child) for arm, child in zip(arms, following, strict=False)][::-1]


def arrow_text(label: str) -> str:
    """What stands before the operator at the end of a branch; nothing when records just go on."""
    shown = label.removeprefix("FORWARD").removeprefix(", ")
    return f"{shown} → " if shown else ""


def node_text(node_id: int, name: str) -> str:
    """An operator's number and name."""
    return f"[{node_id}] {one_line(name)}"


def _edge_text(edge: Edge) -> str:
    return arrow_text(one_line(ship_label(edge.partitioning, edge.key, edge.side_output)))


def _details(node: Node) -> str:
    said = [] if node.uid is None else [f"uid {one_line(node.uid)}"]
    said += [] if node.parallelism is None else [f"parallelism {node.parallelism}"]
    return f"  ({', '.join(said)})" if said else ""
