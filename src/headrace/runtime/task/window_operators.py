"""From the plan to window operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.operators.window.columnar import ColumnarWindowOperator
from headrace.operators.window.folds import AggregateFold, Fold, ReduceFold
from headrace.operators.window.layout import WindowLayout
from headrace.operators.window.local import LocalWindowAggregate
from headrace.operators.window.row_window import RowWindowOperator
from headrace.operators.window.window_functions import window_call

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.graph.specs import ColumnarWindowSpec, LocalWindowSpec, RowWindowSpec
    from headrace.plan.job_plan import KeyPlan, PlannedOperator


def columnar_window(planned: PlannedOperator, spec: ColumnarWindowSpec) -> ColumnarWindowOperator:
    """The receiver's half of a window with built-in aggregates."""
    tag = None if spec.late_tag is None else spec.late_tag.tag_id
    return ColumnarWindowOperator(_layout(planned, spec), spec.assigner, spec.allowed_lateness, tag)


def local_window(planned: PlannedOperator, spec: LocalWindowSpec) -> LocalWindowAggregate:
    """The sender's half."""
    return LocalWindowAggregate(_layout(planned, spec.window), spec.window.assigner)


def row_window(planned: PlannedOperator, spec: RowWindowSpec) -> RowWindowOperator:
    """A window with functions of the user."""
    input_type = planned.inputs[0].record_type
    output_type = planned.node.type_of(None)
    fold, contents_type = _fold(spec, input_type, output_type)
    tag = None if spec.late_tag is None else spec.late_tag.tag_id
    return RowWindowOperator(
        spec.assigner,
        _key(planned).codec,
        fold,
        window_call(spec.window_function),
        contents_type,
        output_type,
        spec.allowed_lateness,
        tag,
        dict(planned.node.side_types),
    )


def _layout(planned: PlannedOperator, spec: ColumnarWindowSpec) -> WindowLayout:
    key = _key(planned)
    records = next(edge for edge in planned.inputs if edge.input_index == 0)
    return WindowLayout.of(records.record_type, key.codec, spec.aggregates, key.fields)


def _key(planned: PlannedOperator) -> KeyPlan:
    return next(edge.key for edge in planned.inputs if edge.key is not None)


def _fold(
    spec: RowWindowSpec, input_type: TypeInformation, output_type: TypeInformation
) -> tuple[Fold | None, TypeInformation]:
    """How elements are folded, and the type of what the window holds."""
    if spec.reduce_function is not None:
        return ReduceFold(spec.reduce_function, input_type), input_type
    if spec.aggregate_function is not None:
        return AggregateFold(spec.aggregate_function, output_type), spec.accumulator_type
    return None, input_type
