"""Estimates of rows and costs, which ``EXPLAIN ESTIMATED_COST`` shows: Flink's formulas for streams."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any, Final

from headrace.table.functions.kernels.spelling import double_text
from headrace.table.logical.scalars import InputRef, Literal, Scalar
from headrace.table.physical.basic import Calc, Exchange, TableSourceScan, Union, ValuesScan
from headrace.table.physical.joins import AnyJoin
from headrace.table.physical.node import PhysicalNode
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
