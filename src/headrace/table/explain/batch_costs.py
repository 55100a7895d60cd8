"""The formulas of estimated rows and costs in batch mode, those of Flink's planner."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from headrace.table.explain.costs import (
    COMPARISON,
    HASHING,
    Cost,
    CostModel,
    Estimate,
    cost_of_exchange,
    is_computed,
    row_types,
    rows_of_any_join,
    rows_of_expand,
    rows_of_scan,
)
from headrace.table.explain.phases import Phase
from headrace.table.physical.basic import Calc, Exchange, Expand, TableSourceScan, Union, ValuesScan
from headrace.table.physical.joins import AnyJoin, HashJoin, NestedLoopJoin
from headrace.table.physical.node import PhysicalNode
from headrace.table.physical.row_counts import binary_size_of, selectivity, sent_size_of, size_of
from headrace.table.physical.sorts import Sort

_CALL: Final = 12.0
"""The cost of a call of an aggregate."""
_LIMIT: Final = 4.0
_OF_KEYS: Final = 0.1
"""The part of the rows that have different values of a column."""
_OF_TASK: Final = 1_000_000
"""The rows for which there is one more task."""
_OF_RANKS: Final = 0.1
"""The part of the rows that are left by a Top-N."""
_HASHED: Final = 8.0
"""The bytes that a row of a hash table has beside it, in the table and with the row."""
_SORTED: Final = 28.0
"""The bytes that a row that is sorted has beside it: its length, its place and the beginning of its key."""
_KEPT: Final = 4.0
"""The bytes of the length of a row."""
_OF_ONE_ROW: Final = 0.99
"""The factor by which a join with a single row is made to seem cheaper."""

_AGGREGATES: Final = frozenset(("LocalHashAggregate", "HashAggregate", "LocalSortAggregate", "SortAggregate"))


def _groups(rows: float, keys: int) -> float:
    """The groups of rows by columns of which nothing is known."""
    return rows * (1.0 - math.exp(-_OF_KEYS * keys))


def _rows_of_phase(phase: Phase, estimate: Estimate) -> float:
    work, rows = phase.work, estimate.rows_read
    if phase.called == "Rank":
        return rows * _OF_RANKS
    if phase.called not in _AGGREGATES:
        return rows * work.copies if work.limit is None else min(rows, float(work.limit))
    if not work.keys:
        return rows // _OF_TASK + 1.0 if phase.called.startswith("Local") else 1.0
    return rows if ("isMerge", "true") in phase.described else _groups(rows, work.keys)


def _cost_of_hashing(phase: Phase, estimate: Estimate) -> Cost:
    work, rows, groups = phase.work, estimate.rows_read, estimate.rows
    memory = groups * (binary_size_of(row_types(phase)) + _HASHED) + groups * _HASHED
    if not work.keys:
        memory = sent_size_of(row_types(phase))
    return Cost(groups, rows * (HASHING * work.keys + _CALL * work.calls), memory=memory)


def _cost_of_merging(phase: Phase, estimate: Estimate) -> Cost:
    """The cost of calls over sorted rows."""
    calls = 1 if phase.called == "Rank" else phase.work.calls
    return Cost(estimate.rows, estimate.rows_read * _CALL * calls, memory=sent_size_of(row_types(phase)))


def _cost_of_sort(node: Phase | Sort, estimate: Estimate) -> Cost:
    rows, keys = estimate.rows_read, len(node.keys) if isinstance(node, Sort) else node.work.keys
    comparisons = COMPARISON * keys * rows * math.log(max(rows, 1.0))
    return Cost(rows, comparisons, memory=rows * (binary_size_of(row_types(node.input)) + _SORTED))


def _cost_of_limit(phase: Phase, estimate: Estimate) -> Cost:
    work, rows = phase.work, estimate.rows
    if not work.keys:
        return Cost(rows, rows * _LIMIT)
    comparisons = COMPARISON * work.keys * estimate.rows_read * math.log(max(work.limit or 1, 1))
    return Cost(rows, comparisons, memory=rows * size_of(phase.schema))


_OF_PHASES: Final[dict[str, Callable[[Phase, Estimate], Cost]]] = {
    "LocalHashAggregate": _cost_of_hashing,
    "HashAggregate": _cost_of_hashing,
    "LocalSortAggregate": _cost_of_merging,
    "SortAggregate": _cost_of_merging,
    "OverAggregate": _cost_of_merging,
    "Rank": _cost_of_merging,
    "Sort": _cost_of_sort,
    "SortLimit": _cost_of_limit,
    "Limit": _cost_of_limit,
}


def _cost_of_phase(phase: Phase, estimate: Estimate) -> Cost:
    rule = _OF_PHASES.get(phase.called)
    return Cost(estimate.rows, estimate.rows) if rule is None else rule(phase, estimate)


def _cost_of_hash_join(join: HashJoin, estimate: Estimate) -> Cost:
    left, right = estimate.inputs
    built = left if join.builds_left else right
    memory = built.rows * (binary_size_of(built.node.schema.types) + _HASHED)
    return Cost(estimate.rows, HASHING * (left.rows + right.rows), memory=memory)


def _cost_of_nested_loops(join: NestedLoopJoin, estimate: Estimate) -> Cost:
    left, right = estimate.inputs
    built = left if join.builds_left else right
    cheaper = _OF_ONE_ROW if join.is_of_one_row else 1.0
    memory = built.rows * (size_of(built.node.schema) + _KEPT)
    return Cost(estimate.rows * cheaper, left.rows * right.rows * cheaper, memory=memory * cheaper)


def _whole(_: PhysicalNode, estimate: Estimate) -> Cost:
    return Cost(estimate.rows, estimate.rows)


BATCH: Final = CostModel(
    {
        ValuesScan: lambda node, _: float(len(node.rows)),
        TableSourceScan: rows_of_scan,
        Calc: lambda node, estimate: estimate.rows_read * selectivity(node.condition),
        AnyJoin: rows_of_any_join,
        Expand: rows_of_expand,
        Phase: _rows_of_phase,
    },
    {
        ValuesScan: lambda _, estimate: Cost(estimate.rows, 1.0),
        TableSourceScan: lambda node, it: Cost(it.rows, 0.0, it.rows * size_of(node.schema)),
        Calc: lambda node, it: Cost(it.rows, it.rows * sum(map(is_computed, node.expressions))),
        Union: _whole,
        Expand: _whole,
        Exchange: cost_of_exchange,
        Sort: _cost_of_sort,
        NestedLoopJoin: _cost_of_nested_loops,
        HashJoin: _cost_of_hash_join,
        Phase: _cost_of_phase,
    },
)
"""The formulas of batch mode."""
