"""``EXPLAIN``: the plan of a statement as text."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.table.logical.relations import Relation
from headrace.table.parse.tree.statements import ExplainDetail
from headrace.table.physical.explain import execution_text, physical_text
from headrace.table.physical.logical_text import logical_text
from headrace.table.physical.planner import Planner
from headrace.table.physical.scalar_text import calcite_text, infix_text


def plan_text(planner: Planner, relations: Sequence[Relation], details: Sequence[ExplainDetail] = ()) -> str:
    """The plans of statements that become one job.

    Raises:
        PlanningError: when they cannot be planned.
    """
    roots = planner.plan(relations)
    with_mode = ExplainDetail.CHANGELOG_MODE in details
    return (
        f"== Abstract Syntax Tree ==\n{logical_text(relations)}\n\n"
        f"== Optimized Physical Plan ==\n{physical_text(roots, calcite_text, with_mode=with_mode)}\n\n"
        f"== Optimized Execution Plan ==\n{execution_text(roots, infix_text)}\n"
    )
