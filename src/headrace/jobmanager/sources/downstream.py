"""What a plan has downstream of a source: who makes its watermarks, and whether the order of its records counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.graph.specs import TimestampsSpec
from headrace.plan.forks import forks_of

if TYPE_CHECKING:
    from headrace.plan.job_plan import JobPlan, PlannedOperator
    from headrace.time.watermark_strategy import WatermarkStrategy


def has_to_be_read_whole(plan: JobPlan, source: PlannedOperator) -> bool:
    """Whether one task has to read the pieces of a split, one after the other.

    That is where records meet state before any shuffle, or a generator of watermarks that has a memory: these have to
    see them in their order. And where the pieces cannot be told apart by number where their records come together
    again: where branches meet that have watermarks of their own, one number is not enough to lift what a later piece
    says; and where records meet what was made of them behind another shuffle, that has no pieces any more.
    """
    found = forks_of(plan.stages[0])
    if any(fork.node == source.node.id and fork.has_several_watermarks for fork in found):
        return True
    reached = {source.node.id}
    for planned in plan.operators():
        if any(edge.source in reached for edge in planned.inputs) and _goes_by_order(planned, plan):
            return True
        edges = [edge for edge in planned.inputs if edge.source in reached]
        stages = {plan.operator(edge.source).stage for edge in edges if edge.is_exchange}
        if 0 in stages and len(stages) > 1:
            return True
        if edges:
            reached.add(planned.node.id)
    return False


def _goes_by_order(planned: PlannedOperator, plan: JobPlan) -> bool:
    """Whether an operator of stage 0 has to see the records of a split in their order."""
    spec = planned.node.spec
    has_memory = isinstance(spec, TimestampsSpec) and spec.strategy.has_memory and not plan.settings.is_batch
    return planned.stage == 0 and (bool(planned.state_kinds) or has_memory)


def timestamps_operators(plan: JobPlan, source: PlannedOperator) -> dict[int, WatermarkStrategy]:
    """The watermark-making operators of stage 0 that records of a source reach, by node id, with their strategies."""
    reached = {source.node.id}
    found: dict[int, WatermarkStrategy] = {}
    for planned in plan.stages[0].operators:
        if any(edge.source in reached for edge in planned.inputs):
            reached.add(planned.node.id)
            if isinstance(planned.node.spec, TimestampsSpec):
                found[planned.node.id] = planned.node.spec.strategy
    return found
