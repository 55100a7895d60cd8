"""The plan of a job as a document, and back: what is shown of a job whose program is not here.

The program's functions are no part of it, so a plan that was read can be shown, and not run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.common.batch import Batch
from headrace.common.call_site import CallSite
from headrace.common.configuration import masked
from headrace.common.errors import UnsupportedOperationError
from headrace.common.masking import without_secrets
from headrace.common.typeinfo import Types
from headrace.graph import partitioning as known
from headrace.graph.partitioning import KeySelection, Partitioning, Receivers, Routed, Sending
from headrace.graph.stream_graph import Edge, Node
from headrace.plan.explain import DescribedSpec, notes_of
from headrace.plan.job_plan import JobPlan, PlannedEdge, PlannedOperator, PlanSettings, Stage
from headrace.state.evolution import NOTHING_RENAMED
from headrace.state.keys import KeyCodec, KeyColumn
from headrace.state.protocols import StateKind, names_of


@dataclass(frozen=True, slots=True)
class _Custom(Partitioning):
    """Records go where a function of the program said."""

    label = "CUSTOM"

    def route(self, batch: Batch, keys: KeyColumn | None, sending: Sending) -> Iterator[Routed]:
        raise UnsupportedOperationError("the job was read from what is told of it: it can be shown, and not run")


_PARTITIONINGS: Final[Mapping[str, Partitioning]] = {
    each.label: each
    for each in (
        known.FORWARD,
        known.REBALANCE,
        known.RESCALE,
        known.SHUFFLE,
        known.GLOBAL,
        known.HASH,
        known.BROADCAST,
        _Custom(),
    )
}

_CODEC: Final = KeyCodec.for_type(Types.STRING())
_TYPE: Final = Types.PICKLED_BYTE_ARRAY()
"""The types of keys and records are not shown."""


def is_described(plan: JobPlan) -> bool:
    """Return whether a plan was read from a document, so that the specs of its operators are not known."""
    return any(isinstance(operator.node.spec, DescribedSpec) for operator in plan.operators())


def plan_to_document(plan: JobPlan) -> dict[str, Any]:
    """A plan as JSON has it, with secrets masked."""
    settings = plan.settings
    return {
        "name": plan.name,
        "parallelism": settings.parallelism,
        "max_parallelism": settings.max_parallelism,
        "is_batch": settings.is_batch,
        "mode_reason": settings.mode_reason,
        "parameters": masked(settings.parameters),
        "stages": [
            {
                "parallelism": stage.parallelism,
                "operators": [_operator_json(each, stage) for each in stage.operators],
            }
            for stage in plan.stages
        ],
        "edges": [_edge_json(edge) for planned in plan.operators() for edge in planned.outputs],
    }


def _operator_json(planned: PlannedOperator, stage: Stage) -> dict[str, Any]:
    node = planned.node
    return {
        "id": node.id,
        "name": without_secrets(node.name),
        "description": node.description and without_secrets(node.description),
        "uid": planned.uid,
        "has_explicit_uid": planned.has_explicit_uid,
        "is_sink": node.is_sink,
        "parallelism": planned.parallelism,
        "max_parallelism": planned.max_parallelism,
        "state": names_of(planned.state_kinds),
        "call_site": [node.call_site.file, node.call_site.line, node.call_site.function],
        "notes": list(map(without_secrets, notes_of(planned, stage))),
    }


def _edge_json(edge: PlannedEdge) -> dict[str, Any]:
    return {
        "id": edge.id,
        "source": edge.source,
        "target": edge.target,
        "target_stage": edge.target_stage,
        "input": edge.input_index,
        "side_output": edge.side_output,
        "key": None if edge.key is None else edge.key.label,
        "is_exchange": edge.is_exchange,
        "partitioning": edge.partitioning.label,
        "receivers": [edge.receivers.parallelism, edge.receivers.max_parallelism],
    }


def plan_of_document(document: Mapping[str, Any]) -> JobPlan:
    """The plan that a document tells of; it can be shown, and not run."""
    edges = [_edge(each) for each in document["edges"]]
    settings = PlanSettings(
        name=document["name"],
        parallelism=document["parallelism"],
        max_parallelism=document["max_parallelism"],
        is_batch=document["is_batch"],
        mode_reason=document["mode_reason"],
        parameters=document["parameters"],
    )
    stages = tuple(_stage(index, each, edges) for index, each in enumerate(document["stages"]))
    return JobPlan(settings, stages, 0)


def _stage(index: int, document: Mapping[str, Any], edges: list[PlannedEdge]) -> Stage:
    operators = tuple(_operator(each, index, edges) for each in document["operators"])
    return Stage(index, document["parallelism"], operators, (), any(each.state_kinds for each in operators))


def _operator(document: Mapping[str, Any], stage: int, edges: list[PlannedEdge]) -> PlannedOperator:
    number, uid = document["id"], document["uid"]
    inputs = tuple(edge for edge in edges if edge.target == number)
    node = Node(
        id=number,
        spec=DescribedSpec(tuple(document["notes"]), document["is_sink"]),
        name=document["name"],
        inputs=tuple(Edge(each.source, each.partitioning, each.side_output, each.input_index) for each in inputs),
        uid=uid if document["has_explicit_uid"] else None,
        call_site=CallSite(*document["call_site"]),
        description=document["description"],
    )
    return PlannedOperator(
        node=node,
        uid=uid,
        has_explicit_uid=document["has_explicit_uid"],
        stage=stage,
        parallelism=document["parallelism"],
        max_parallelism=document["max_parallelism"],
        inputs=inputs,
        outputs=tuple(edge for edge in edges if edge.source == number),
        schemas=(),
        objects=(),
        checkpointed=(),
        state_kinds=frozenset(map(StateKind, document["state"])),
        renamed_fields=NOTHING_RENAMED,
        shares_broadcast_state=False,
        side_types={},
    )


def _edge(document: Mapping[str, Any]) -> PlannedEdge:
    label = document["key"]
    return PlannedEdge(
        id=document["id"],
        source=document["source"],
        target=document["target"],
        input_index=document["input"],
        side_output=document["side_output"],
        record_type=_TYPE,
        key=None if label is None else KeySelection(_CODEC, None, (label,)),
        is_exchange=document["is_exchange"],
        partitioning=_PARTITIONINGS[document["partitioning"]],
        target_stage=document["target_stage"],
        receivers=Receivers(*document["receivers"]),
    )
