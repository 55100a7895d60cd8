"""Conversion rules of plans that are shown, in place of those of plans that are executed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headrace.common.logical_types import ArrayType, RowType
from headrace.table.explain.over import converted_rank as rank_of_batch
from headrace.table.explain.reduced_aggregates import shown_aggregate
from headrace.table.logical.relations import LogicalAggregate, LogicalCorrelate, LogicalJoin, Unnest
from headrace.table.logical.scalars import InputRef
from headrace.table.logical.schema import Schema
from headrace.table.options import MINI_BATCH
from headrace.table.physical.basic import ValuesScan, projected
from headrace.table.physical.broadcast_joins import executed_join
from headrace.table.physical.conversion import RULES, ConversionContext, ConversionRules, converted
from headrace.table.physical.correlates import Correlate, converted_correlate
from headrace.table.physical.joins import without_times
from headrace.table.physical.node import PhysicalNode
from headrace.table.physical.ranks import converted_rank
from headrace.table.rules.rank import LogicalRank


def _rank(rank: LogicalRank, context: ConversionContext) -> PhysicalNode:
    """A Top-N of streams: it has updates with mini-batches, and none of a first row in any but a descending order."""
    is_descending = len(rank.order_by) == 1 and rank.order_by[0].descending
    return converted_rank(
        rank,
        context,
        has_updates=context.settings.get(MINI_BATCH),
        shows_insertions=(rank.start, rank.end) == (1, 1) and not is_descending,
    )


def _join(join: LogicalJoin, context: ConversionContext) -> PhysicalNode:
    """A join of batch mode, whose times are plain columns."""
    left, right = converted(join.left, context), converted(join.right, context)
    return executed_join(join, without_times(left), without_times(right), context)


def _correlate(correlate: LogicalCorrelate, context: ConversionContext) -> PhysicalNode:
    return converted_correlate(correlate, context, _with_flink_names)


def _unnest(unnest: Unnest, context: ConversionContext) -> PhysicalNode:
    """The unnesting of a constant collection, over a row without columns."""
    if len(unnest.operands) != 1:
        return RULES[Unnest](unnest, context)
    nothing = ValuesScan(((),), Schema(()))
    return _with_flink_names(Correlate(nothing, unnest.operands[0], unnest.columns, unnest.with_ordinality), "")


def _with_flink_names(node: Correlate, correlation: str) -> PhysicalNode:
    """The rows as plans show them: Flink gives the columns of elements names of its own."""
    elements = [f"f{at}" for at in range(len(node.columns))]
    if node.with_ordinality:
        elements = [*(f"EXPR${at}" for at in range(len(elements) - 1)), "ORDINALITY"]
    if isinstance(node.collection.type, ArrayType) and isinstance(node.collection.type.element, RowType):
        elements[: len(node.collection.type.element.names)] = node.collection.type.element.names
    if node.with_ordinality and node.keeps_empty:
        return replace(node, correlation=correlation)
    named = replace(node, columns=node.columns.renamed(tuple(elements)), correlation=correlation)
    if not len(node.input.schema):
        return named
    names = (*node.input.schema.names, *node.columns.names)
    return projected(named, InputRef.all_of(named.schema), names)


_OF_BOTH: Final[ConversionRules] = {
    LogicalAggregate: shown_aggregate,
    LogicalCorrelate: _correlate,
    Unnest: _unnest,
}
RULES_OF_STREAMS: Final[ConversionRules] = {**_OF_BOTH, LogicalRank: _rank}
RULES_OF_BATCH: Final[ConversionRules] = {**_OF_BOTH, LogicalRank: rank_of_batch, LogicalJoin: _join}
