"""``EXPLAIN``: the plans of statements as text, with optional details."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.client.submission import plan_graph
from headrace.common.errors import UnsupportedOperationError
from headrace.datastream.streams.sinks import Handover
from headrace.graph.diagram import node_document
from headrace.graph.specs import SinkSpec
from headrace.graph.stream_graph import StreamGraph
from headrace.state.protocols import names_of
from headrace.table.environment.places import PlacesInText
from headrace.table.environment.table_result import ResultSink
from headrace.table.logical.relations import Relation, Sink
from headrace.table.parse.tree.statements import ExplainDetail

if TYPE_CHECKING:
    from headrace.table.environment.table_environment import TableEnvironment


def explained(
    tables: TableEnvironment,
    relations: Sequence[Relation],
    details: Sequence[ExplainDetail] = (),
    places: PlacesInText | None = None,
) -> str:
    """The text of ``EXPLAIN`` for statements that run as one job.

    Args:
        tables: the session.
        relations: the statements.
        details: what is shown besides their plans.
        places: the places in their text, which advice names.

    Raises:
        PlanningError: when they cannot be planned.
        UnsupportedOperationError: when a detail is not supported.
    """
    if ExplainDetail.PLAN_ADVICE in details and tables.is_batch:
        raise UnsupportedOperationError("EXPLAIN PLAN_ADVICE is not supported in batch mode: leave it out")
    text = tables.planner().plan_text(relations, details, places)
    if ExplainDetail.JSON_EXECUTION_PLAN not in details:
        return text
    return f"{text}\n== Physical Execution Plan ==\n{json.dumps(_execution_plan(tables, relations), indent=2)}"


def _execution_plan(tables: TableEnvironment, relations: Sequence[Relation]) -> dict[str, Any]:
    """The operators in the shape of Flink's execution plan, with the stage, the state and the uid of each."""
    plan = plan_graph(_graph(tables, relations), tables.job_configuration(), None, 1)
    operators = [(operator, stage) for stage in plan.stages for operator in stage.operators]
    nodes = [
        node_document(operator.node, operator.inputs, operator.parallelism, operator.uid)
        | {"stage": stage.index, "state": names_of(operator.state_kinds)}
        for operator, stage in sorted(operators, key=lambda pair: pair[0].node.id)
    ]
    return {"nodes": nodes}


def _graph(tables: TableEnvironment, relations: Sequence[Relation]) -> StreamGraph:
    planner, graph = tables.planner(), tables.new_graph()
    is_collected = not all(isinstance(relation, Sink) for relation in relations)
    plans = planner.plan(relations, is_collected=is_collected)
    ends = []
    for edges, root in zip(planner.translated(plans, graph), plans, strict=True):
        sink = SinkSpec(ResultSink(Handover(), root.schema.names))
        ends += [graph.add(sink, "Collect", edges).id] if is_collected else [edge.source for edge in edges]
    return graph.subgraph(ends)
