"""The physical plan as it is shown: a diagram of its stages, and documents for other programs.

The document of a plan has these keys, in this order; later versions may add some, but change none:

===================  ===================================================================================
``name``             the job's name
``mode``             ``STREAMING`` or ``BATCH``
``mode_reason``      why ``AUTOMATIC`` came to that mode; null when the program says the mode itself
``max_parallelism``  the number of key groups of an operator that does not say otherwise
``stages``           a list of ``{"index", "parallelism", "operators"}``, from the sources on
``edges``            a list of edges, as below
===================  ===================================================================================

An operator has ``id``, ``name``, ``kind``, ``pact`` (``Data Source``, ``Operator`` or ``Data Sink``), ``uid``,
``uid_derived`` (true when the user gave none), ``parallelism``, ``max_parallelism``, ``state`` (a list of the kinds of
state that it may hold: ``keyed``, ``operator list``, ``union list``, ``broadcast``), ``output_type`` (null for sinks),
``call_site`` (the line of the program that added it), ``deterministic`` (false where it calls a service, which may
answer something else when the epoch is run again), ``path`` (how its windows are computed, ``columnar`` or
``record by record``; null when it has none), ``path_reason`` (why it is not columnar, else null) and ``windows``
(``assigner``, ``trigger``, ``evictor``, ``allowed_lateness`` in milliseconds, ``late_output``, ``accumulation_mode``;
null when it has none).

An edge has ``source`` and ``target`` (ids of operators), ``input`` (which input of the target, from 0),
``ship_strategy`` (``FORWARD``, ``HASH`` or ``REBALANCE``), ``exchange`` (whether it crosses a shuffle; else its ends
are chained), ``key`` (what the records are keyed by; null when they are not) and ``side_output`` (null for the main
output).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.common.errors import UnsupportedOperationError
from headrace.graph.diagram import Arrow, Box, Diagram, DiagramFrame, count_of, node_document, ship_label
from headrace.graph.specs import InputSchema, OperatorParameters, OperatorSpec, OutputSchema
from headrace.graph.window_specs import LocalAggregateSpec
from headrace.operators.base import Operator
from headrace.plan.job_plan import JobPlan, PlannedEdge, PlannedOperator, PlanSettings, Stage
from headrace.plan.window_paths import path_of, windows_of
from headrace.state.protocols import names_of
from headrace.windowing.definition import AccumulationMode, WindowDefinition
from headrace.windowing.triggers import EventTimeTrigger, ProcessingTimeTrigger

_WITH_ADDRESS: Final = re.compile(r"<(?:function )?(?:[\w.<>]*\.)?([\w<>]+)(?: object)? at 0x[0-9a-fA-F]+>")
"""The text of Python for what has none of its own."""


def plan_diagram(plan: JobPlan) -> Diagram:
    """The stages, what runs chained in them, and what is shuffled between them."""
    stages = count_of(len(plan.stages), "stage")
    return Diagram(
        f"{plan.name}: {stages}, {count_of(plan.settings.max_parallelism, 'key group')}, {_mode(plan.settings)}",
        tuple(map(_frame, plan.stages)),
        tuple(_arrow(edge) for operator in plan.operators() for edge in operator.outputs),
    )


def _mode(settings: PlanSettings) -> str:
    mode = "batch mode" if settings.is_batch else "streaming mode"
    return f"{mode} ({settings.mode_reason})" if settings.mode_reason else mode


def _frame(stage: Stage) -> DiagramFrame:
    title = f"Stage {stage.index}, parallelism {stage.parallelism}"
    return DiagramFrame(title, tuple(_box(operator, stage) for operator in stage.operators))


def _box(operator: PlannedOperator, stage: Stage) -> Box:
    node, uid = operator.node, f"uid {operator.uid}"
    notes = tuple(notes_of(operator, stage))
    if operator.has_explicit_uid:
        return Box(node.id, node.name, node.role, (uid, *notes))
    return Box(node.id, node.name, node.role, notes, (f"{uid} (derived)",))


def notes_of(operator: PlannedOperator, stage: Stage) -> Iterator[str]:
    """Return what tells an operator from others beside its uid.

    Its state, whether it calls a service, how its windows are computed and what they are, its parallelism where that is
    not its stage's.
    """
    spec = operator.node.spec
    if isinstance(spec, DescribedSpec):
        yield from spec.notes
        return
    if operator.state_kinds:
        yield f"{' and '.join(names_of(operator.state_kinds))} state"
    if not spec.is_deterministic:
        yield "not deterministic"
    windows, path = windows_of(spec), path_of(spec)
    if path is not None:
        yield str(path)
    if windows is not None and not isinstance(spec, LocalAggregateSpec):
        yield from _window_notes(windows)
    if operator.parallelism != stage.parallelism:
        yield f"parallelism {operator.parallelism}"


def _window_notes(windows: WindowDefinition) -> Iterator[str]:
    """The windows, and what the program has said of them besides."""
    yield _part_text(windows.assigner)
    of_time = EventTimeTrigger() if windows.assigner.is_event_time() else ProcessingTimeTrigger()
    if windows.trigger != of_time:  # what windows of time have by themselves goes without saying
        yield f"trigger {_part_text(windows.trigger)}"
    if windows.evictor is not None:
        yield f"evictor {_part_text(windows.evictor)}"
    if windows.allowed_lateness:
        yield f"allowed lateness {windows.allowed_lateness} ms"
    if windows.late_tag is not None:
        yield f"late records to {windows.late_tag.tag_id!r}"
    if windows.accumulation_mode is not AccumulationMode.ACCUMULATING:
        yield windows.accumulation_mode.value


def _part_text(part: object) -> str:
    """A part of a window as it shows itself; objects and functions without a text of their own by their names."""
    return _WITH_ADDRESS.sub(r"\1", str(part))


def _arrow(edge: PlannedEdge) -> Arrow:
    label = ship_label(edge.partitioning, edge.key if edge.is_exchange else None, edge.side_output)
    return Arrow(edge.source, edge.target, label, edge.is_exchange)


def execution_plan_document(plan: JobPlan) -> dict[str, object]:
    """The plan in the shape of Flink's execution plan; see :mod:`headrace.graph.diagram`."""
    operators = sorted(plan.operators(), key=lambda operator: operator.node.id)
    uids = [operator.uid if operator.has_explicit_uid else None for operator in operators]
    nodes = [node_document(op.node, op.inputs, op.parallelism, uid) for op, uid in zip(operators, uids, strict=True)]
    return {"nodes": nodes}


def plan_document(plan: JobPlan) -> dict[str, object]:
    """The plan with all that headrace knows of it."""
    return {
        "name": plan.name,
        "mode": "BATCH" if plan.settings.is_batch else "STREAMING",
        "mode_reason": plan.settings.mode_reason or None,
        "max_parallelism": plan.settings.max_parallelism,
        "stages": [_stage(stage) for stage in plan.stages],
        "edges": [_edge(edge) for operator in plan.operators() for edge in operator.outputs],
    }


def _stage(stage: Stage) -> dict[str, object]:
    return {
        "index": stage.index,
        "parallelism": stage.parallelism,
        "operators": [_operator(operator) for operator in stage.operators],
    }


def _operator(operator: PlannedOperator) -> dict[str, object]:
    node, output_type = operator.node, operator.node.outputs.output_type
    path, windows = path_of(node.spec), windows_of(node.spec)
    return {
        "id": node.id,
        "name": node.name,
        "kind": node.spec.kind,
        "pact": node.role,
        "uid": operator.uid,
        "uid_derived": not operator.has_explicit_uid,
        "parallelism": operator.parallelism,
        "max_parallelism": operator.max_parallelism,
        "state": names_of(operator.state_kinds),
        "output_type": None if output_type is None else str(output_type),
        "call_site": str(node.call_site),
        "deterministic": node.spec.is_deterministic,
        "path": None if path is None else path.name,
        "path_reason": None if path is None else path.reason,
        "windows": None if windows is None else _windows(windows),
    }


def _windows(windows: WindowDefinition) -> dict[str, object]:
    return {
        "assigner": _part_text(windows.assigner),
        "trigger": _part_text(windows.trigger),
        "evictor": None if windows.evictor is None else _part_text(windows.evictor),
        "allowed_lateness": windows.allowed_lateness,
        "late_output": windows.late_tag_id,
        "accumulation_mode": windows.accumulation_mode.name,
    }


def _edge(edge: PlannedEdge) -> dict[str, object]:
    return {
        "source": edge.source,
        "target": edge.target,
        "input": edge.input_index,
        "ship_strategy": edge.partitioning.label,
        "exchange": edge.is_exchange,
        "key": None if edge.key is None else edge.key.label,
        "side_output": edge.side_output,
    }


@dataclass(frozen=True, slots=True)
class DescribedSpec(OperatorSpec):
    """An operator of a job whose program is not here.

    Attributes:
        notes: what plans say of it beside its name and uid.
        ends: whether it is a sink.
    """

    notes: tuple[str, ...]
    ends: bool

    @property
    def is_sink(self) -> bool:
        return self.ends

    def outputs(self, inputs: Sequence[InputSchema]) -> OutputSchema:
        raise self._unknown()

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        raise self._unknown()

    @staticmethod
    def _unknown() -> UnsupportedOperationError:
        return UnsupportedOperationError("the job was read from what is told of it: it can be shown, and not run")
