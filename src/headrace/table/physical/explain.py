"""Plans as text, in the form of Flink's ``EXPLAIN``, with estimates of rows and costs by its formulas for streams."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

from headrace.table.functions.kernels.spelling import double_text
from headrace.table.logical.scalars import InputRef, Literal, Scalar
from headrace.table.physical.basic import Calc, Exchange, TableSourceScan, Union, ValuesScan
from headrace.table.physical.joins import AnyJoin
from headrace.table.physical.node import PhysicalNode, ScalarText
from headrace.table.physical.ranks import Rank
from headrace.table.physical.row_counts import UNKNOWN_ROWS, rows_of_join, selectivity, size_of
from headrace.table.physical.sorts import Limit, SortLimit

_OF_GROUPS: Final = 0.1
"""The part of the rows of a Top-N that is left in each group."""

_SERIALIZATION: Final = 160.0
_HASHING: Final = 8.0
_SINGLE: Final = 1.0
_COMPARISON: Final = 4.0
_JOIN: Final = 200.0
_LIMIT: Final = 2.0


@dataclass(frozen=True)
class Cost:
    """The cost of a plan, in the units of Flink's planner."""

    rows: float = 0.0
    cpu: float = 0.0
    io: float = 0.0
    network: float = 0.0
    memory: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        units = ("rows", "cpu", "io", "network", "memory")
        shown = (f"{double_text(value)} {unit}" for value, unit in zip(astuple(self), units, strict=True))
        return f"{{{', '.join(shown)}}}"


class Estimate:
    """The estimate of a node and all nodes below it.

    Args:
        node: the node.
    """

    def __init__(self, node: PhysicalNode) -> None:
        self.node = node
        self.inputs = [Estimate(each) for each in node.inputs]

    @cached_property
    def rows(self) -> float:
        """The rows that the node emits."""
        rule = next((rule for kind, rule in _ROWS.items() if isinstance(self.node, kind)), None)
        return self.rows_read if rule is None else rule(self.node, self)

    @property
    def rows_read(self) -> float:
        """The rows of all inputs."""
        return sum(each.rows for each in self.inputs)

    @cached_property
    def cost(self) -> Cost:
        """The cost of the node and of all below it."""
        rule = next((rule for kind, rule in _COSTS.items() if isinstance(self.node, kind)), None)
        own = Cost(self.rows_read, self.rows_read) if rule is None else rule(self.node, self)
        return sum((each.cost for each in self.inputs), start=own)

    def __str__(self) -> str:
        return f"rowcount = {double_text(self.rows)}, cumulative cost = {self.cost}"


def _rows_of_scan(scan: TableSourceScan, _: Estimate) -> float:
    known = scan.source.statistics
    rows = UNKNOWN_ROWS if known is None else float(known.rows)
    for condition in scan.scan.filters:
        rows *= selectivity(condition)
    return rows if scan.scan.limit is None else min(rows, float(scan.scan.limit))


def _rows_of_join(join: AnyJoin, estimate: Estimate) -> float:
    return rows_of_join(join.kind, *(each.rows for each in estimate.inputs))


def _is_computed(scalar: Scalar) -> bool:
    return not isinstance(scalar, InputRef | Literal)


def _cost_of_exchange(exchange: Exchange, estimate: Estimate) -> Cost:
    rows = estimate.rows_read
    cpu = _SERIALIZATION + (_HASHING if exchange.keys else _SINGLE)
    return Cost(rows, rows * cpu, network=rows * size_of(exchange.schema))


def _cost_of_sort(sort: SortLimit, estimate: Estimate) -> Cost:
    comparisons = estimate.rows_read * math.log(max(sort.limit, 1)) * _COMPARISON * (3 + len(sort.schema))
    return Cost(estimate.rows, comparisons)


_ROWS: Final[dict[type[PhysicalNode], Callable[[Any, Estimate], float]]] = {
    ValuesScan: lambda node, _: float(len(node.rows)),
    TableSourceScan: _rows_of_scan,
    Calc: lambda node, estimate: estimate.rows_read * selectivity(node.condition),
    SortLimit: lambda node, estimate: min(estimate.rows_read, float(node.limit)),
    Rank: lambda _, estimate: estimate.rows_read * _OF_GROUPS,
    AnyJoin: _rows_of_join,
}
_COSTS: Final[dict[type[PhysicalNode], Callable[[Any, Estimate], Cost]]] = {
    ValuesScan: lambda _, estimate: Cost(estimate.rows, 1.0),
    TableSourceScan: lambda node, it: Cost(it.rows, it.rows, it.rows * size_of(node.schema)),
    Calc: lambda node, it: Cost(it.rows, it.rows * sum(map(_is_computed, node.expressions))),
    Union: lambda _, estimate: Cost(estimate.rows, estimate.rows),
    Exchange: _cost_of_exchange,
    Limit: lambda node, it: Cost(it.rows, it.rows * _LIMIT),
    SortLimit: _cost_of_sort,
    AnyJoin: lambda _, __: Cost(_JOIN, _JOIN),
}


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
    with_cost: bool = False,
    advice: Sequence[Collection[PhysicalNode]] = (),
) -> str:
    """The text of a physical plan.

    Args:
        roots: the plan.
        text: writes scalars.
        with_mode: whether nodes show their changelogs.
        with_cost: whether they show their estimated costs.
        advice: the nodes that each piece of advice is about, which name it by its number.
    """

    def line(node: PhysicalNode) -> str:
        numbers = [number for number, each in enumerate(advice, 1) if node in each]
        shown = node_line(node, text, with_mode=with_mode, with_hints=True, advice=numbers)
        return f"{shown}: {Estimate(node)}" if with_cost else shown

    return "\n\n".join(tree_text(root, line, lambda node: node.inputs) for root in roots)
