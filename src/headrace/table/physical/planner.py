"""Planning: from a logical relation to an annotated physical plan, and from there to the stream graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.common.configuration import Configuration
from headrace.graph.stream_graph import StreamGraph
from headrace.table.logical.errors import refuses_depth
from headrace.table.logical.relations import LogicalJoin, Relation, Scan
from headrace.table.logical.scalars import Cast, InputRef
from headrace.table.logical.schema import TimeAttribute
from headrace.table.options import JOIN_REORDER, NON_DETERMINISTIC_UPDATES, PREDICATE_PUSHDOWN
from headrace.table.physical import (  # noqa: F401 - their conversions
    changelog_functions,
    correlates,
    group_windows,
    grouping,
    match,
    over,
    ranks,
    sorts,
    temporal_joins,
    window_joins,
)
from headrace.table.physical.basic import projected
from headrace.table.physical.broadcast_joins import with_read_columns
from headrace.table.physical.changelog import ChangelogInference
from headrace.table.physical.changelog_rules import UpdateKind
from headrace.table.physical.changes import DropUpdateBefore, infer_sink, without_renames
from headrace.table.physical.conversion import (
    ConversionContext,
    ConversionRules,
    converted,
    statistics_of,
    table_source,
)
from headrace.table.physical.determinism import with_deterministic_updates
from headrace.table.physical.mini_batches import with_mini_batches
from headrace.table.physical.node import Edges, PhysicalNode, node_line, with_unique_names
from headrace.table.physical.scalar_text import calcite_text
from headrace.table.physical.sinks import Sink
from headrace.table.physical.translation import GraphBuilder
from headrace.table.rules.estimates import Estimates
from headrace.table.rules.optimizer import optimized
from headrace.table.rules.purpose import PlanPurpose
from headrace.table.rules.scan_push_down import with_projected_scans, with_pushed_down


@dataclass(frozen=True)
class Planner:
    """Plans statements.

    Attributes:
        is_batch: whether they run in batch mode.
        settings: the configuration of the session.
    """

    is_batch: bool
    settings: Configuration

    @refuses_depth
    def plan(
        self,
        relations: Sequence[Relation],
        *,
        is_collected: bool = False,
        is_kept: bool = False,
        shown_by: ConversionRules | None = None,
    ) -> list[PhysicalNode]:
        """The physical plans of statements that become one job.

        Args:
            relations: their logical plans.
            is_collected: whether the program collects the rows, which then include ``UPDATE_BEFORE``.
            is_kept: whether the plans are kept, and executed when tables have other rows.
            shown_by: conversion rules of plans that are only shown; None for plans that are executed.

        Raises:
            PlanningError: when no plan can compute them.
        """
        is_shown = shown_by is not None
        context = ConversionContext(self.is_batch, self.settings, shown_by or {}, is_kept=is_kept)
        if self.is_batch and not is_shown:
            context = replace(context, estimates=Estimates(lambda scan: statistics_of(scan, context)))
        relations = [relation.transform(_unnamed) for relation in relations]
        purpose = PlanPurpose(is_shown, self.is_batch)
        logical = [
            optimized(
                relation, context.is_normalized, context.time_zone, purpose, self._estimates_of(relation, context)
            )
            for relation in relations
        ]
        pushed = with_pushed_down(
            logical,
            lambda scan: table_source(scan, context),
            context.time_zone,
            pushes_filters=self.settings.get(PREDICATE_PUSHDOWN),
        )
        projected_scans = with_projected_scans(pushed, context.can_project)
        roots = [with_plain_times(converted(relation, context)) for relation in projected_scans]
        if is_shown:
            roots = list(map(without_renames, roots))
        if context.estimates is not None:
            roots = [with_read_columns(root) for root in roots]
        if not self.is_batch:
            pairs = zip(roots, relations, strict=True)
            roots = [self._with_modes(root, relation, is_collected=is_collected) for root, relation in pairs]
            if self.settings.get(NON_DETERMINISTIC_UPDATES) == "TRY_RESOLVE":
                roots = [with_deterministic_updates(root, self.settings) for root in roots]
            roots = [with_mini_batches(root, self.settings) for root in roots]
        return list(map(_named, roots, relations)) if is_collected else roots

    def check_hints(self, relation: Relation) -> None:
        """Check the options that the hint ``OPTIONS`` gives to tables.

        Raises:
            ConfigurationError: when the connector of a table does not take them.
        """
        context = ConversionContext(self.is_batch, self.settings)
        for node in relation.walk():
            if isinstance(node, Scan) and any(hint.name == "OPTIONS" for hint in node.hints):
                table_source(node, context)

    def _estimates_of(self, relation: Relation, context: ConversionContext) -> Estimates | None:
        """The estimates by which joins are put in order; None where they stay as they are written."""
        reorders = self.settings.get(JOIN_REORDER)
        if not self.is_batch or reorders is False:
            return None
        estimates = Estimates(lambda scan: statistics_of(scan, context))
        has_joins = any(isinstance(node, LogicalJoin) for node in relation.walk())
        return estimates if reorders or (has_joins and estimates.are_known(relation)) else None

    def _with_modes(self, root: PhysicalNode, relation: Relation, *, is_collected: bool) -> PhysicalNode:
        inference = ChangelogInference(DropUpdateBefore, _described)
        if isinstance(root, Sink):
            return infer_sink(inference, root, self.settings, relation)
        wanted = [UpdateKind.BEFORE_AND_AFTER, UpdateKind.ONLY_AFTER]
        return inference.infer(root, wanted if is_collected else reversed(wanted))

    def translated(self, roots: Sequence[PhysicalNode], graph: StreamGraph) -> list[Edges]:
        """The edges that carry the rows of plans, whose operators are added to a graph."""
        builder = GraphBuilder(graph, self.is_batch, self.settings)
        return [builder.translate(root) for root in roots]


def _unnamed(relation: Relation) -> Relation:
    """A scan without its name, so that a table that is joined with itself is read once."""
    return relation.without_alias() if isinstance(relation, Scan) else relation


def _named(root: PhysicalNode, relation: Relation) -> PhysicalNode:
    """The plan with the query's column names, where plans name the rank of a Top-N differently."""
    names = with_unique_names(relation.schema).names
    if names == root.schema.names:
        return root
    return replace(projected(root, InputRef.all_of(root.schema), names), mode=root.mode)


def with_plain_times(root: PhysicalNode) -> PhysicalNode:
    """The plan with processing time attributes materialized."""
    if isinstance(root, Sink):
        return replace(root, input=with_plain_times(root.input))
    fields = list(root.schema)
    if all(field.time is not TimeAttribute.PROCTIME for field in fields):
        return root
    refs = InputRef.all_of(root.schema)
    columns = [
        Cast(ref, type=ref.type) if field.time is TimeAttribute.PROCTIME else ref
        for ref, field in zip(refs, fields, strict=True)
    ]
    return projected(root, columns, root.schema.names)


def _described(node: PhysicalNode) -> str:
    return node_line(node, calcite_text, with_mode=False)
