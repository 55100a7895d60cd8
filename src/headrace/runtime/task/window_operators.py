"""From the plan to window operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.operators.window.columnar import ColumnarWindowOperator
from headrace.operators.window.layout import WindowLayout
from headrace.operators.window.local import LocalWindowAggregate
from headrace.operators.window.row_layout import RowWindowLayout
from headrace.operators.window.row_window import RowWindowOperator

if TYPE_CHECKING:
    from headrace.graph.nodes import KeySelection
    from headrace.graph.specs import ColumnarWindowSpec, LocalWindowSpec, RowWindowSpec
    from headrace.plan.job_plan import PlannedOperator


def columnar_window(planned: PlannedOperator, spec: ColumnarWindowSpec) -> ColumnarWindowOperator:
    """The receiver's half of a window with built-in aggregates."""
    tag = None if spec.late_tag is None else spec.late_tag.tag_id
    return ColumnarWindowOperator(_layout(planned, spec), spec.assigner, spec.allowed_lateness, tag)


def local_window(planned: PlannedOperator, spec: LocalWindowSpec) -> LocalWindowAggregate:
    """The sender's half."""
    return LocalWindowAggregate(_layout(planned, spec.window), spec.window.assigner)


def row_window(planned: PlannedOperator, spec: RowWindowSpec) -> RowWindowOperator:
    """A window with functions of the user."""
    layout = RowWindowLayout(
        assigner=spec.assigner,
        codec=_key(planned).codec,
        input_type=planned.inputs[0].record_type,
        output_type=planned.node.type_of(None),
        reduce_function=spec.reduce_function,
        aggregate_function=spec.aggregate_function,
        window_function=spec.window_function,
        accumulator_type=spec.accumulator_type,
        is_keyed=True,
        lateness=spec.allowed_lateness,
        late_tag=None if spec.late_tag is None else spec.late_tag.tag_id,
        side_types=dict(planned.node.side_types),
    )
    return RowWindowOperator(layout)


def _layout(planned: PlannedOperator, spec: ColumnarWindowSpec) -> WindowLayout:
    key = _key(planned)
    records = next(edge for edge in planned.inputs if edge.input_index == 0)
    return WindowLayout.of(records.record_type, key.codec, spec.aggregates, key.fields, key.name)


def _key(planned: PlannedOperator) -> KeySelection:
    return next(edge.key for edge in planned.inputs if edge.key is not None)
