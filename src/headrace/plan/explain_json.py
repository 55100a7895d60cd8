"""The physical plan as JSON.

The document has these keys, in this order; later versions may add some, but change none:

===================  ===================================================================================
``name``             the job's name
``mode``             ``STREAMING`` or ``BATCH``
``max_parallelism``  the number of key groups of an operator that does not say otherwise
``stages``           a list of ``{"index", "parallelism", "operators"}``, from the sources on
``edges``            a list of edges, as below
===================  ===================================================================================

An operator has ``id``, ``name``, ``kind``, ``pact`` (``Data Source``, ``Operator`` or ``Data Sink``), ``uid``,
``uid_derived`` (true when the user gave none), ``parallelism``, ``max_parallelism``, ``state`` (a list of the kinds of
state that it may hold: ``keyed``, ``operator list``, ``union list``, ``broadcast``), ``output_type`` (null for sinks)
and ``call_site`` (the line of the program that asked for it).

An edge has ``source`` and ``target`` (ids of operators), ``input`` (which input of the target, from 0),
``ship_strategy`` (``FORWARD``, ``HASH`` or ``REBALANCE``), ``exchange`` (whether it crosses a shuffle; else its ends
are chained), ``key`` (what the records are keyed by; null when they are not) and ``side_output`` (null for the main
output).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace.graph.render_labels import key_label, role_of
from headrace.state.kinds import names_of

if TYPE_CHECKING:
    from headrace.plan.job_plan import JobPlan, PlannedEdge, PlannedOperator, Stage


def explain_json(plan: JobPlan) -> str:
    """The plan as indented JSON."""
    return json.dumps(plan_document(plan), indent=2, ensure_ascii=False) + "\n"


def plan_document(plan: JobPlan) -> dict[str, Any]:
    """What :func:`explain_json` writes."""
    return {
        "name": plan.name,
        "mode": "BATCH" if plan.is_batch else "STREAMING",
        "max_parallelism": plan.max_parallelism,
        "stages": [_stage(stage) for stage in plan.stages],
        "edges": [_edge(edge) for operator in plan.operators() for edge in operator.outputs],
    }


def _stage(stage: Stage) -> dict[str, Any]:
    return {
        "index": stage.index,
        "parallelism": stage.parallelism,
        "operators": [_operator(operator) for operator in stage.operators],
    }


def _operator(operator: PlannedOperator) -> dict[str, Any]:
    node = operator.node
    return {
        "id": node.id,
        "name": node.name,
        "kind": node.spec.kind,
        "pact": role_of(node),
        "uid": operator.uid,
        "uid_derived": not operator.has_explicit_uid,
        "parallelism": operator.parallelism,
        "max_parallelism": operator.max_parallelism,
        "state": names_of(operator.state_kinds),
        "output_type": None if node.output_type is None else str(node.output_type),
        "call_site": str(node.call_site),
    }


def _edge(edge: PlannedEdge) -> dict[str, Any]:
    return {
        "source": edge.source,
        "target": edge.target,
        "input": edge.input_index,
        "ship_strategy": edge.partitioning.label,
        "exchange": edge.is_exchange,
        "key": None if edge.key is None else key_label(edge.key),
        "side_output": edge.side_output,
    }
