"""The plan of a job in the shape of Flink's ``getExecutionPlan()``: what will run, with how many subtasks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.graph.render_labels import role_of

if TYPE_CHECKING:
    from headrace.plan.job_plan import JobPlan, PlannedEdge, PlannedOperator


def execution_plan(plan: JobPlan) -> str:
    """The plan as JSON: ``{"nodes": [{"id", "type", "pact", "contents", "parallelism", "predecessors"}]}``.

    ``predecessors`` is a list of ``{"id", "ship_strategy", "side"}``, absent in sources; the strategy is ``FORWARD``,
    ``HASH`` or ``REBALANCE``.
    """
    nodes = sorted(plan.operators(), key=lambda operator: operator.node.id)
    return json.dumps({"nodes": [_node(operator) for operator in nodes]}, indent=2, ensure_ascii=False)


def _node(operator: PlannedOperator) -> dict[str, Any]:
    node = operator.node
    document: dict[str, Any] = {
        "id": node.id,
        "type": node.name,
        "pact": role_of(node),
        "contents": node.description or node.name,
        "parallelism": operator.parallelism,
    }
    if operator.inputs:
        document["predecessors"] = [_predecessor(edge) for edge in operator.inputs]
    return document


def _predecessor(edge: PlannedEdge) -> dict[str, Any]:
    side = "first" if edge.input_index == 0 else "second"
    return {"id": edge.source, "ship_strategy": edge.partitioning.label, "side": side}
