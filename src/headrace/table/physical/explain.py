"""Plans as text, in the form of Flink's ``EXPLAIN``, and advice on them (``PLAN_ADVICE``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from headrace.common.configuration import Configuration
from headrace.table.options import AGG_PHASES, MINI_BATCH
from headrace.table.physical.aggregates import GroupAggregate
from headrace.table.physical.costs import Estimate
from headrace.table.physical.node import PhysicalNode, ScalarText

N = TypeVar("N")

_TWO_PHASES = "You might want to enable local-global two-phase optimization by configuring"
_BATCHES = (
    "('table.exec.mini-batch.enabled' to 'true', 'table.exec.mini-batch.allow-latency' to a positive long value, "
    "'table.exec.mini-batch.size' to a positive long value)"
)


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
    node: PhysicalNode, text: ScalarText, *, with_mode: bool, with_hints: bool = False, advice: Sequence[int] = ()
) -> str:
    """The line of a node in a plan."""
    terms = [f"advice=[{', '.join(map(str, advice))}]"] if advice else []
    terms += [f"{name}=[{value}]" for name, value in node.terms(text)]
    if with_mode:
        terms.append(f"changelogMode=[{node.mode}]")
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


@dataclass(frozen=True)
class Advice:
    """Advice on nodes of a plan.

    Attributes:
        text: what to do.
        nodes: the nodes.
    """

    text: str
    nodes: frozenset[PhysicalNode]


def physical_text(
    roots: Sequence[PhysicalNode],
    text: ScalarText,
    *,
    with_mode: bool = False,
    with_cost: bool = False,
    advice: Sequence[Advice] = (),
) -> str:
    """The text of a physical plan; its nodes name the advice on them by number, and may tell their estimated costs."""

    def line(node: PhysicalNode) -> str:
        numbers = [number for number, each in enumerate(advice, 1) if node in each.nodes]
        shown = node_line(node, text, with_mode=with_mode, with_hints=True, advice=numbers)
        return f"{shown}: {Estimate(node)}" if with_cost else shown

    return "\n\n".join(tree_text(root, line, lambda node: node.inputs) for root in roots)


def advice_on(roots: Sequence[PhysicalNode], settings: Configuration) -> list[Advice]:
    """The advice on streaming plans."""
    groups = frozenset(node for root in roots for node in root.walk() if type(node) is GroupAggregate)
    if not groups:
        return []
    if not settings.get(MINI_BATCH):
        return [Advice(f"{_TWO_PHASES} {_BATCHES}.", groups)]
    if settings.get(AGG_PHASES) == "ONE_PHASE":
        return [Advice(f"{_TWO_PHASES} ('{AGG_PHASES.key}' to 'AUTO').", groups)]
    return []


def advice_text(found: Sequence[Advice]) -> str:
    """The text of the advice below a plan, whose nodes refer to it by number."""
    if not found:
        return "No available advice..."
    return "\n".join(f"advice[{number}]: [ADVICE] {each.text}" for number, each in enumerate(found, 1))
