"""Estimated rows and costs of plans, by the formulas of Flink's planner; its units have no meaning of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from functools import cached_property, singledispatch
from typing import Any, Final

from headrace.common.logical_types import LogicalType
from headrace.operators.join.results import JoinType
from headrace.table.explain.over import ComputedOver
from headrace.table.explain.phases import Phase
from headrace.table.functions.kernels.spelling import double_text
from headrace.table.functions.types import BIGINT
from headrace.table.logical.join_keys import is_equality, is_true
from headrace.table.logical.scalars import InputRef, Literal, Scalar, conjuncts
from headrace.table.physical.basic import Calc, Exchange, Expand, TableSourceScan, Union, ValuesScan
from headrace.table.physical.call_texts import partial_types
from headrace.table.physical.joins import AnyJoin, Join
from headrace.table.physical.mini_batches import LocalGroupAggregate
from headrace.table.physical.node import PhysicalNode
from headrace.table.physical.over import OverAggregate
from headrace.table.physical.ranks import Rank
from headrace.table.physical.row_counts import UNKNOWN_ROWS, rows_of_join, selectivity, sent_size_of, size_of
from headrace.table.physical.sorts import Limit, SortLimit
from headrace.table.physical.temporal_joins import TemporalJoin
from headrace.table.physical.window_aggregates import LocalWindowAggregate, counted

_OF_GROUPS: Final = 0.1
"""The part of the rows of a Top-N that is left in each group."""

SERIALIZATION: Final = 160.0
HASHING: Final = 8.0
_SINGLE: Final = 1.0
COMPARISON: Final = 4.0
_JOIN: Final = 200.0
_CALL_OVER: Final = 0.125
_OF_VERSIONS: Final = 0.25
_WITHOUT_MATCH: Final = 0.1
"""The part of the rows that have no partner."""


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


Rules = Mapping[type[PhysicalNode], Callable[[Any, "Estimate"], Any]]


@dataclass(frozen=True)
class CostModel:
    """The formulas of the nodes of plans.

    Attributes:
        rows: how many rows a kind of node emits; other nodes emit as many as they read.
        costs: what a kind of node costs without those below it; others cost a unit a row.
    """

    rows: Rules
    costs: Rules


class Estimate:
    """The estimate of a node and all nodes below it.

    Args:
        node: the node.
        model: the formulas.
    """

    def __init__(self, node: PhysicalNode, model: CostModel) -> None:
        self.node, self._model = node, model
        self.inputs = [Estimate(each, model) for each in node.inputs]

    @cached_property
    def rows(self) -> float:
        """The rows that the node emits."""
        rule = next((rule for kind, rule in self._model.rows.items() if isinstance(self.node, kind)), None)
        return self.rows_read if rule is None else rule(self.node, self)

    @property
    def rows_read(self) -> float:
        """The rows of all inputs."""
        return sum(each.rows for each in self.inputs)

    @cached_property
    def cost(self) -> Cost:
        """The cost of the node and of all below it."""
        rule = next((rule for kind, rule in self._model.costs.items() if isinstance(self.node, kind)), None)
        own = Cost(self.rows_read, self.rows_read) if rule is None else rule(self.node, self)
        return sum((each.cost for each in self.inputs), start=own)

    def __str__(self) -> str:
        return f"rowcount = {double_text(self.rows)}, cumulative cost = {self.cost}"


def rows_of_scan(scan: TableSourceScan, _: Estimate) -> float:
    """The rows of a table."""
    known = scan.source.statistics
    rows = UNKNOWN_ROWS if known is None else float(known.rows)
    for condition in scan.scan.filters:
        rows *= selectivity(condition)
    return rows if scan.scan.limit is None else min(rows, float(scan.scan.limit))


def rows_of_any_join(join: AnyJoin, estimate: Estimate) -> float:
    """The rows of a join: those of its first pair of columns, less what other conditions leave out."""
    left, right = (each.rows for each in estimate.inputs)
    if join.kind is JoinType.ANTI:
        return left * _WITHOUT_MATCH
    if join.kind is not JoinType.INNER:
        return rows_of_join(join.kind, left, right)
    parts = [each for each in conjuncts(join.condition) if not is_true(each)]
    if not join.keys.left:
        return left * right * math.prod(map(selectivity, parts))
    first = next(each for each in parts if is_equality(each, len(join.left.schema)))
    return rows_of_join(join.kind, left, right) * math.prod(selectivity(each) for each in parts if each is not first)


def rows_of_expand(expand: Expand, estimate: Estimate) -> float:
    """The rows of copies."""
    return estimate.rows_read * len(expand.projections)


@singledispatch
def row_types(node: PhysicalNode) -> tuple[LogicalType, ...]:
    """The types of the rows that a node emits in Flink's plan, where local aggregates emit accumulators."""
    return node.schema.types


@row_types.register
def _of_phase(phase: Phase) -> tuple[LogicalType, ...]:
    return phase.work.types or phase.columns.types


@row_types.register
def _of_exchange(exchange: Exchange) -> tuple[LogicalType, ...]:
    return row_types(exchange.input)


@row_types.register
def _of_local_aggregate(local: LocalGroupAggregate) -> tuple[LogicalType, ...]:
    keys = [local.schema.types[index] for index in local.group]
    return (*keys, *(kind for call in local.counted_calls for kind in partial_types(call, retracts=local.retracts)))


@row_types.register
def _of_local_windows(local: LocalWindowAggregate) -> tuple[LogicalType, ...]:
    retracts = not local.input.mode.is_insert_only
    calls = counted(local.calls, local.window, retracts=retracts)
    keys = [local.schema.types[index] for index in local.group]
    return (*keys, *(kind for call in calls for kind in partial_types(call, retracts=retracts)), BIGINT)


def is_computed(scalar: Scalar) -> bool:
    """Return whether it costs something to compute a column."""
    return not isinstance(scalar, InputRef | Literal)


def cost_of_exchange(exchange: Exchange, estimate: Estimate) -> Cost:
    """The cost of sending rows."""
    rows = estimate.rows_read
    single = 0.0 if exchange.is_broadcast else _SINGLE
    cpu = SERIALIZATION + (HASHING * len(exchange.keys) if exchange.keys else single)
    return Cost(rows, rows * cpu, network=rows * sent_size_of(row_types(exchange.input)))


def _cost_of_sort(sort: SortLimit, estimate: Estimate) -> Cost:
    return Cost(estimate.rows, estimate.rows_read * math.log(max(sort.limit, 1)) * _of_columns(sort))


def _cost_of_over(calls: int, estimate: Estimate) -> Cost:
    rows = estimate.rows_read
    return Cost(rows, rows * (1 + _CALL_OVER * calls))


def _of_columns(sort: SortLimit) -> float:
    return COMPARISON * (3 + len(sort.schema))


_ROWS: Final[Rules] = {
    ValuesScan: lambda node, _: float(len(node.rows)),
    TableSourceScan: rows_of_scan,
    Calc: lambda node, estimate: estimate.rows_read * selectivity(node.condition),
    SortLimit: lambda node, estimate: min(estimate.rows_read, float(node.limit)),
    Rank: lambda _, estimate: estimate.rows_read * _OF_GROUPS,
    TemporalJoin: lambda node, estimate: rows_of_any_join(node, estimate) * _OF_VERSIONS,
    AnyJoin: rows_of_any_join,
    Expand: rows_of_expand,
}
_COSTS: Final[Rules] = {
    ValuesScan: lambda _, estimate: Cost(estimate.rows, 1.0),
    TableSourceScan: lambda node, it: Cost(it.rows, it.rows, it.rows * size_of(node.schema)),
    Calc: lambda node, it: Cost(it.rows, it.rows * sum(map(is_computed, node.expressions))),
    Union: lambda _, estimate: Cost(estimate.rows, estimate.rows),
    Exchange: cost_of_exchange,
    Limit: lambda node, it: Cost(it.rows, it.rows * _of_columns(node)),
    SortLimit: _cost_of_sort,
    Join: lambda _, __: Cost(_JOIN, _JOIN),
    AnyJoin: lambda _, estimate: Cost(estimate.rows),
    Expand: lambda _, estimate: Cost(estimate.rows, estimate.rows),
    OverAggregate: lambda node, estimate: _cost_of_over(len(node.calls), estimate),
    ComputedOver: lambda node, estimate: _cost_of_over(node.work.calls, estimate),
}

STREAMS: Final = CostModel(_ROWS, _COSTS)
"""The formulas of streaming mode."""
