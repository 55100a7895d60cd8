"""Plans as text, in the form of Flink's ``EXPLAIN``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from headrace.table.physical.node import PhysicalNode, ScalarText

N = TypeVar("N")


def tree_text(root: N, line: Callable[[N], str], inputs: Callable[[N], Sequence[N]]) -> str:
    """A tree with a line for each node, its inputs below it.

    Args:
        root: the node on top.
        line: what a node says.
        inputs: what a node reads from.
    """
    return "\n".join(_lines(root, line, inputs))


def _lines(node: N, line: Callable[[N], str], inputs: Callable[[N], Sequence[N]]) -> Iterator[str]:
    yield line(node)
    below = inputs(node)
    for number, child in enumerate(below):
        is_last = number == len(below) - 1
        first, rest = ("+- ", "   ") if is_last else (":- ", ":  ")
        for place, text in enumerate(_lines(child, line, inputs)):
            yield (rest if place else first) + text


def node_line(node: PhysicalNode, text: ScalarText, *, with_mode: bool) -> str:
    """What a plan says of a node."""
    terms = [f"{name}=[{value}]" for name, value in node.terms(text)]
    if with_mode:
        terms.append(f"changelogMode=[{node.mode}]")
    return f"{node.name}({', '.join(terms)})"


def physical_text(roots: Sequence[PhysicalNode], text: ScalarText, *, with_mode: bool = False) -> str:
    """The text of a physical plan."""
    trees = (
        tree_text(root, lambda node: node_line(node, text, with_mode=with_mode), lambda node: node.inputs)
        for root in roots
    )
    return "\n\n".join(trees)
