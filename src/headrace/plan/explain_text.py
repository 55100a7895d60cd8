"""The physical plan as text: a box for each stage, and what is shuffled between them."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from headrace.graph.render_labels import count_of, one_line, ship_label
from headrace.graph.render_text import draw_forest, edge_text, node_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.plan.job_plan import JobPlan, PlannedEdge, PlannedOperator, Stage


def explain_text(plan: JobPlan) -> str:
    """The plan, from the sources down.

    A box holds what runs chained in one task. Below it stand the exchanges that cross to the next stage, each with its
    ship strategy and the operators at its ends.
    """
    boxes = [_table(stage) for stage in plan.stages]
    titles = [f"Stage {stage.index}, parallelism {stage.parallelism}" for stage in plan.stages]
    width = max(_width(line) for line in [*titles, *(line for box in boxes for line in box)])
    lines = [_headline(plan), ""]
    for stage, title, box in zip(plan.stages, titles, boxes, strict=True):
        lines += _box(title, box, width)
        lines += _exchanges(plan, stage)
    return "\n".join(lines) + "\n"


def _headline(plan: JobPlan) -> str:
    mode = "batch" if plan.is_batch else "streaming"
    stages = count_of(len(plan.stages), "stage")
    return f"{one_line(plan.name)}: {stages}, {count_of(plan.max_parallelism, 'key group')}, {mode} mode"


def _table(stage: Stage) -> list[str]:
    """One line an operator: the tree at the left, what identifies the operator in columns beside it."""
    tree = list(_tree(stage))
    width = max(_width(line) for line in tree)
    # The tree shows every operator once, so its lines can be told from the references to lines above
    order = {node_text(op.node.id, op.node.name): op for op in stage.operators}
    lines = []
    for line in tree:
        found = next((op for text, op in order.items() if line.endswith(text)), None)
        lines.append(line if found is None else f"{_padded(line, width)}  {_identity(found, stage)}")
    return lines
