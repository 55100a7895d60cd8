"""The text of ``EXPLAIN``: the abstract syntax tree, the physical plan and the execution plan, as Flink writes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headrace.table.explain.advice import AnalyzedPlan, StatementText, advice_on, advice_text
from headrace.table.explain.batch_costs import BATCH
from headrace.table.explain.conversion import RULES_OF_BATCH, RULES_OF_STREAMS
from headrace.table.explain.costs import STREAMS, CostModel, Estimate
from headrace.table.explain.execution import batch_execution_plan, execution_node
from headrace.table.explain.logical_text import logical_text
from headrace.table.explain.nodes import explained_plan, with_shared_sinks
from headrace.table.logical.errors import refuses_depth
from headrace.table.logical.relations import Relation
from headrace.table.parse.tree.statements import ExplainDetail
from headrace.table.physical.conversion import ConversionContext, known_statistics
from headrace.table.physical.node import PhysicalNode, ScalarText, node_line, tree_text
from headrace.table.physical.planner import Planner
from headrace.table.physical.scalar_text import batch_text, calcite_text
from headrace.table.physical.scalar_text import execution_text as execution_scalar_text
from headrace.table.rules.unique_groups import with_needed_distinct


@refuses_depth
def explain_text(
    planner: Planner,
    relations: Sequence[Relation],
    details: Sequence[ExplainDetail] = (),
    written: StatementText | None = None,
) -> str:
    """The plans of statements that become one job, as ``EXPLAIN`` shows them.

    Args:
        planner: plans them.
        relations: their logical plans.
        details: what is shown besides.
        written: their text, to which advice refers.

    Raises:
        PlanningError: when no operators compute them.
    """
    is_batch = planner.is_batch
    roots = planner.plan(relations, shown_by=RULES_OF_BATCH if is_batch else RULES_OF_STREAMS)
    with_advice = ExplainDetail.PLAN_ADVICE in details
    advice = advice_on(_analyzed(planner, roots, written or StatementText())) if with_advice else []
    title = "Optimized Physical Plan With Advice" if with_advice else "Optimized Physical Plan"
    if not with_advice:  # advice is on nodes that are computed
        roots = with_shared_sinks([explained_plan(root, is_batch) for root in roots])
    below = f"{advice_text(advice)}\n\n" if with_advice else ""
    physical = _physical_plan(roots, details, is_batch=is_batch, advice=[each.nodes for each in advice])
    executed = [batch_execution_plan(root, execution_scalar_text) for root in roots] if is_batch else roots
    return (
        f"== Abstract Syntax Tree ==\n{logical_text([with_needed_distinct(each) for each in relations])}\n\n"
        f"== {title} ==\n{physical}\n\n{below}"
        f"== Optimized Execution Plan ==\n{execution_text(executed, execution_scalar_text)}\n"
    )


def compiled_plan_text(roots: Sequence[PhysicalNode], details: Sequence[ExplainDetail], *, is_batch: bool) -> str:
    """The text of plans without the statements that they are of, as ``EXPLAIN`` shows it."""
    physical = _physical_plan(roots, details, is_batch=is_batch)
    executed = execution_text(roots, execution_scalar_text)
    return f"== Optimized Physical Plan ==\n{physical}\n\n== Optimized Execution Plan ==\n{executed}\n"


def _analyzed(planner: Planner, roots: Sequence[PhysicalNode], written: StatementText) -> AnalyzedPlan:
    context = ConversionContext(True, planner.settings)  # statistics are those that batch mode plans by
    return AnalyzedPlan(roots, planner.settings, lambda scan: known_statistics(scan, context), written)


def _physical_plan(
    roots: Sequence[PhysicalNode],
    details: Sequence[ExplainDetail],
    *,
    is_batch: bool,
    advice: Sequence[Collection[PhysicalNode]] = (),
) -> str:
    """The text of a physical plan.

    Args:
        roots: the plan.
        details: what is shown besides.
        is_batch: whether it is of batch mode.
        advice: the nodes that each piece of advice is about, which name it by its number.
    """
    text = batch_text if is_batch and ExplainDetail.ESTIMATED_COST not in details else calcite_text
    with_mode = ExplainDetail.CHANGELOG_MODE in details and not is_batch
    costs = _cost_model(details, is_batch=is_batch)

    def line(node: PhysicalNode) -> str:
        numbers = [number for number, each in enumerate(advice, 1) if node in each]
        found = node_line(node, text, with_mode=with_mode, with_hints=True, advice=numbers)
        return found if costs is None else f"{found}: {Estimate(node, costs)}"

    return "\n\n".join(tree_text(root, line, lambda node: node.inputs) for root in roots)


def _cost_model(details: Sequence[ExplainDetail], *, is_batch: bool) -> CostModel | None:
    if ExplainDetail.ESTIMATED_COST not in details:
        return None
    return BATCH if is_batch else STREAMS


def execution_text(roots: Sequence[PhysicalNode], text: ScalarText) -> str:
    """The text of the execution plan: a subplan that is used several times is shown once, with a reuse id."""
    shared = _shared(roots)
    numbers = {node: number for number, node in enumerate(shared, 1)}
    seen: set[PhysicalNode] = set()

    def line(node: PhysicalNode) -> str:
        if node in numbers:
            if node in seen:
                return f"Reused(reference_id=[{numbers[node]}])"
            return f"{node_line(execution_node(node), text, with_mode=False)}(reuse_id=[{numbers[node]}])"
        return node_line(execution_node(node), text, with_mode=False)

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
