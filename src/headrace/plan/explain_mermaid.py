"""The physical plan as a Mermaid flowchart: a subgraph for each stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.graph.render_mermaid import escape, mermaid_edge, mermaid_node
from headrace.plan.explain_text import details, planned_label

if TYPE_CHECKING:
    from headrace.plan.job_plan import JobPlan, Stage


def explain_mermaid(plan: JobPlan) -> str:
    """The plan as the text of a flowchart; thick arrows are exchanges."""
    lines = ["flowchart TB"]
    for stage in plan.stages:
        lines += [f"    {line}" for line in _subgraph(stage)]
    for operator in plan.operators():
        for edge in operator.outputs:
            if edge.is_exchange:
                arrow = mermaid_edge(edge.source, edge.target, planned_label(edge), is_exchange=True)
                lines.append(f"    {arrow}")
    return "\n".join(lines) + "\n"


def _subgraph(stage: Stage) -> list[str]:
    title = escape(f"Stage {stage.index}, parallelism {stage.parallelism}")
    inside = [mermaid_node(operator.node, details(operator, stage)) for operator in stage.operators]
    for operator in stage.operators:
        chained = [edge for edge in operator.outputs if not edge.is_exchange]
        inside += [mermaid_edge(edge.source, edge.target, planned_label(edge)) for edge in chained]
    return [f'subgraph stage{stage.index}["{title}"]', *(f"    {line}" for line in inside), "end"]
