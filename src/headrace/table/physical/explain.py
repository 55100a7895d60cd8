"""Plans as text, in the form of Flink's ``EXPLAIN``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

from headrace.table.physical.costs import CostModel, Estimate
from headrace.table.physical.node import PhysicalNode, ScalarText

N = TypeVar("N")


def tree_text(root: N, line: Callable[[N], str], inputs: Callable[[N], Sequence[N]]) -> str:
    """A tree with a line for each node, its inputs below it.

    Args:
        root: the node on top.
        line: the line of a node.
        inputs: the inputs of a node.
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


def node_line(
    node: PhysicalNode,
    text: ScalarText,
    *,
    with_mode: bool,
    with_keys: bool = False,
    with_hints: bool = False,
    advice: Sequence[int] = (),
) -> str:
    """The line of a node in a plan."""
    terms = [f"advice=[{', '.join(map(str, advice))}]"] if advice else []
    terms += [f"{name}=[{value}]" for name, value in node.terms(text)]
    if with_mode:
        terms.append(f"changelogMode=[{node.mode}]")
    if with_keys and node.upsert_keys:
        keys = (
            ", ".join(node.schema.names[column] for column in sorted(key))
            for key in sorted(node.upsert_keys, key=sorted)
        )
        terms.append(f"upsertKeys=[{', '.join(f'[{key}]' for key in keys)}]")
    terms += [f"{name}=[{value}]" for name, value in node.hint_terms()] if with_hints else []
    return f"{node.title}({', '.join(terms)})" if terms else node.title


def execution_text(roots: Sequence[PhysicalNode], text: ScalarText) -> str:
    """The text of the execution plan: a subplan that is used several times is shown once, with a reuse id."""
    shared = _shared(roots)
    numbers = {node: number for number, node in enumerate(shared, 1)}
    seen: set[PhysicalNode] = set()

    def line(node: PhysicalNode) -> str:
        if node in numbers:
            if node in seen:
                return f"Reused(reference_id=[{numbers[node]}])"
            return f"{node_line(node.executed(), text, with_mode=False)}(reuse_id=[{numbers[node]}])"
        return node_line(node.executed(), text, with_mode=False)

    def inputs(node: PhysicalNode) -> Sequence[PhysicalNode]:
        if node in numbers and node in seen:
            return ()
        seen.add(node)
        return node.inputs

    trees = [*shared, *roots] if len(roots) > 1 else roots
    return "\n\n".join(tree_text(root, line, inputs) for root in trees)


def _shared(roots: Sequence[PhysicalNode]) -> list[PhysicalNode]:
    """The nodes that are used several times, except those below other reused ones only."""
    readers: dict[PhysicalNode, int] = {}
    waiting = list(roots)
    while waiting:
        node = waiting.pop(0)
        readers[node] = readers.get(node, 0) + 1
        if readers[node] == 1:
            waiting.extend(node.inputs)
    return [node for node, count in readers.items() if count > 1]


def physical_text(
    roots: Sequence[PhysicalNode],
    text: ScalarText,
    *,
    with_mode: bool = False,
    costs: CostModel | None = None,
    advice: Sequence[Collection[PhysicalNode]] = (),
) -> str:
    """The text of a physical plan.

    Args:
        roots: the plan.
        text: writes scalars.
        with_mode: whether nodes show their changelogs.
        costs: the formulas of estimated costs; None where no costs are shown.
        advice: the nodes that each piece of advice is about, which name it by its number.
    """

    def line(node: PhysicalNode) -> str:
        numbers = [number for number, each in enumerate(advice, 1) if node in each]
        shown = node_line(node, text, with_mode=with_mode, with_hints=True, advice=numbers)
        return shown if costs is None else f"{shown}: {Estimate(node, costs)}"

    return "\n\n".join(tree_text(root, line, lambda node: node.inputs) for root in roots)
