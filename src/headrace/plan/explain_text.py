"""The physical plan as text: a box for each stage, and what is shuffled between them."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from headrace.graph.render_labels import count_of, one_line, ship_label
from headrace.graph.render_text import arrow_text, draw_forest, node_text
from headrace.state.kinds import names_of

if TYPE_CHECKING:
    from headrace.plan.job_plan import JobPlan, PlannedEdge, PlannedOperator, Stage


def explain_text(plan: JobPlan) -> str:
    """The plan, from the sources down.

    A box holds what runs chained in one task. Below it stand the exchanges that leave the stage, each with its ship
    strategy and the numbers of the operators at its ends.
    """
    contents = [_operators(stage) for stage in plan.stages]
    titles = [f"Stage {stage.index}, parallelism {stage.parallelism}" for stage in plan.stages]
    width = max(_width(line) for line in [*titles, *(line for lines in contents for line in lines)])
    lines = [_headline(plan), ""]
    for stage, title, content in zip(plan.stages, titles, contents, strict=True):
        lines += _box(title, content, width)
        lines += _exchanges(stage)
    return "\n".join(lines) + "\n"


def details(operator: PlannedOperator, stage: Stage) -> list[str]:
    """What tells an operator from others: its uid, its state, and its parallelism where that is not its stage's."""
    state = f"{' and '.join(names_of(operator.state_kinds))} state" if operator.state_kinds else ""
    parallelism = "" if operator.parallelism == stage.parallelism else f"parallelism {operator.parallelism}"
    return [detail for detail in (_identity(operator), state, parallelism) if detail]


def planned_label(edge: PlannedEdge) -> str:
    """How the records of an edge travel."""
    return ship_label(edge.partitioning, edge.key if edge.is_exchange else None, edge.side_output)


def _identity(operator: PlannedOperator) -> str:
    """The uid, marked when it is derived and so changes with the program."""
    return f"uid {operator.uid}" + ("" if operator.has_explicit_uid else " (derived)")


def _headline(plan: JobPlan) -> str:
    stages = count_of(len(plan.stages), "stage")
    mode = "batch" if plan.is_batch else "streaming"
    return f"{one_line(plan.name)}: {stages}, {count_of(plan.max_parallelism, 'key group')}, {mode} mode"


def _operators(stage: Stage) -> list[str]:
    """One line an operator: where it stands in the chain, and what identifies it in a column beside."""
    by_id = {operator.node.id: operator for operator in stage.operators}
    labels = {number: node_text(number, operator.node.name) for number, operator in by_id.items()}
    tree = list(draw_forest(labels, _chained(stage), _heads(stage)))
    width = max(_width(line) for line, _ in tree)
    return [
        line if number is None else f"{_padded(line, width)}  {_details(by_id[number], stage)}" for line, number in tree
    ]


def _chained(stage: Stage) -> dict[int, list[tuple[str, int]]]:
    return {
        operator.node.id: [
            (arrow_text(one_line(planned_label(edge))), edge.target)
            for edge in operator.outputs
            if not edge.is_exchange
        ]
        for operator in stage.operators
    }


def _heads(stage: Stage) -> list[int]:
    """The operators that records enter the stage through."""
    return [op.node.id for op in stage.operators if all(edge.is_exchange for edge in op.inputs)]


def _details(operator: PlannedOperator, stage: Stage) -> str:
    return ", ".join(map(one_line, details(operator, stage)))


def _exchanges(stage: Stage) -> list[str]:
    edges = [(edge, operator) for operator in stage.operators for edge in operator.outputs if edge.is_exchange]
    if not edges:
        return []
    labels = [one_line(planned_label(edge)) for edge, _ in edges]
    width = max(map(_width, labels))
    lines = [
        f"   │ {_padded(label, width)}  [{edge.source}] → [{edge.target}]{_skipped(edge, stage)}"
        for label, (edge, _) in zip(labels, edges, strict=True)
    ]
    return [*lines, "   ▼"]


def _skipped(edge: PlannedEdge, stage: Stage) -> str:
    """A note on an exchange that passes stages by on its way."""
    passed = range(stage.index + 1, edge.target_stage)
    return f" (passes through stage {', '.join(map(str, passed))})" if passed else ""


def _box(title: str, content: list[str], width: int) -> list[str]:
    top = f"┌─ {title} {'─' * (width - _width(title) - 1)}┐"
    return [top, *(f"│ {_padded(line, width)} │" for line in content), f"└{'─' * (width + 2)}┘"]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _width(text: str) -> int:
    """How many columns a terminal needs: East Asian wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
