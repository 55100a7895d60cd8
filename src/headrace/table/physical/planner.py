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
from headrace.table.parse.tree.statements import ExplainDetail
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
from headrace.table.physical.advice import AnalyzedPlan, StatementText, advice_on, advice_text
from headrace.table.physical.basic import projected
from headrace.table.physical.batch_costs import BATCH
from headrace.table.physical.batch_execution import batch_execution_plan
from headrace.table.physical.broadcast_joins import with_read_columns
from headrace.table.physical.changelog import ChangelogInference
from headrace.table.physical.changelog_rules import UpdateKind
from headrace.table.physical.changes import DropUpdateBefore, infer_sink
from headrace.table.physical.conversion import (
    ConversionContext,
    converted,
    known_statistics,
    statistics_of,
    table_source,
)
from headrace.table.physical.costs import STREAMS, CostModel
from headrace.table.physical.determinism import with_deterministic_updates
from headrace.table.physical.explain import execution_text, node_line, physical_text
from headrace.table.physical.logical_text import logical_text
from headrace.table.physical.mini_batches import with_mini_batches
from headrace.table.physical.node import Edges, PhysicalNode, with_unique_names
from headrace.table.physical.scalar_text import batch_text, calcite_text
from headrace.table.physical.scalar_text import execution_text as execution_scalar_text
from headrace.table.physical.sinks import Sink, with_shared_sinks
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
        self, relations: Sequence[Relation], *, is_collected: bool = False, is_shown: bool = False
    ) -> list[PhysicalNode]:
        """The physical plans of statements that become one job.

        Args:
            relations: their logical plans.
            is_collected: whether the program collects the rows, which then include ``UPDATE_BEFORE``.
            is_shown: whether the plans are only shown.

        Raises:
            PlanningError: when no plan can compute them.
        """
        context = ConversionContext(self.is_batch, self.settings, is_shown)
        if self.is_batch and not is_shown:
            context = replace(context, estimates=Estimates(lambda scan: statistics_of(scan, context)))
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
        asked = self.settings.get(JOIN_REORDER)
        if not self.is_batch or asked is False:
            return None
        estimates = Estimates(lambda scan: statistics_of(scan, context))
        has_joins = any(isinstance(node, LogicalJoin) for node in relation.walk())
        return estimates if asked or (has_joins and estimates.are_known(relation)) else None

    @refuses_depth
    def plan_text(
        self,
        relations: Sequence[Relation],
        details: Sequence[ExplainDetail] = (),
        written: StatementText | None = None,
    ) -> str:
        """The plans of statements that become one job, as ``EXPLAIN`` shows them.

        Args:
            relations: their logical plans.
            details: what is shown besides.
            written: their text, to which advice refers.

        Raises:
            PlanningError: when no operators compute them.
        """
        roots = self.plan(relations, is_shown=True)
        with_mode = ExplainDetail.CHANGELOG_MODE in details and not self.is_batch
        with_advice = ExplainDetail.PLAN_ADVICE in details
        advice = advice_on(self._analyzed(roots, written or StatementText())) if with_advice else []
        title = "Optimized Physical Plan With Advice" if with_advice else "Optimized Physical Plan"
        if not with_advice:  # advice is on nodes that are computed
            roots = with_shared_sinks([self._shown(root) for root in roots])
        below = f"{advice_text(advice)}\n\n" if with_advice else ""
        text = batch_text if self.is_batch and ExplainDetail.ESTIMATED_COST not in details else calcite_text
        physical = physical_text(
            roots,
            text,
            with_mode=with_mode,
            costs=_cost_model(details, is_batch=self.is_batch),
            advice=[each.nodes for each in advice],
        )
        executed = [batch_execution_plan(root, execution_scalar_text) for root in roots] if self.is_batch else roots
        return (
            f"== Abstract Syntax Tree ==\n{logical_text(relations)}\n\n"
            f"== {title} ==\n{physical}\n\n{below}"
            f"== Optimized Execution Plan ==\n{execution_text(executed, execution_scalar_text)}\n"
        )

    def _analyzed(self, roots: Sequence[PhysicalNode], written: StatementText) -> AnalyzedPlan:
        context = ConversionContext(True, self.settings)  # statistics are those that batch mode plans by
        return AnalyzedPlan(roots, self.settings, lambda scan: known_statistics(scan, context), written)

    def _with_modes(self, root: PhysicalNode, relation: Relation, *, is_collected: bool) -> PhysicalNode:
        inference = ChangelogInference(DropUpdateBefore, _described)
        if isinstance(root, Sink):
            return infer_sink(inference, root, self.settings, relation)
        wanted = [UpdateKind.BEFORE_AND_AFTER, UpdateKind.ONLY_AFTER]
        return inference.infer(root, wanted if is_collected else reversed(wanted))

    @refuses_depth
    def _shown(self, node: PhysicalNode) -> PhysicalNode:
        """A plan including the nodes that exist only in its text."""
        node = node.with_read_inputs()
        below = node.with_inputs([self._shown(child) for child in node.inputs])
        return below.as_shown(is_batch=self.is_batch)

    def translated(self, roots: Sequence[PhysicalNode], graph: StreamGraph) -> list[Edges]:
        """The edges that carry the rows of plans, whose operators are added to a graph."""
        builder = GraphBuilder(graph, self.is_batch, self.settings)
        return [builder.translate(root) for root in roots]


def explained_plans(roots: Sequence[PhysicalNode], details: Sequence[ExplainDetail], *, is_batch: bool) -> str:
    """The text of plans without the statements that they are of, as ``EXPLAIN`` shows it."""
    physical = physical_text(
        roots,
        batch_text if is_batch and ExplainDetail.ESTIMATED_COST not in details else calcite_text,
        with_mode=ExplainDetail.CHANGELOG_MODE in details and not is_batch,
        costs=_cost_model(details, is_batch=is_batch),
    )
    executed = execution_text(roots, execution_scalar_text)
    return f"== Optimized Physical Plan ==\n{physical}\n\n== Optimized Execution Plan ==\n{executed}\n"


def _cost_model(details: Sequence[ExplainDetail], *, is_batch: bool) -> CostModel | None:
    if ExplainDetail.ESTIMATED_COST not in details:
        return None
    return BATCH if is_batch else STREAMS


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
