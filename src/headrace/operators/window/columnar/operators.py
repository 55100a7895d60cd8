"""Which operator computes which windows with built-in aggregates column by column.

Windows differ in who puts records into them, in when they fire, and in where they are kept:

| windows | records are found by | they fire | they are kept |
|---|---|---|---|
| tumbling, sliding, cumulating | their timestamps | at their end | by end, overlapping ones as panes |
| of the clock; the global one | the clock; nothing | when the clock, or the input, is at their end | by end |
| of time, shown early | their timestamps | at intervals, and at their end | by key |
| sessions | their distance in time | at their end | by key |
| of a count | their place among those of the key | when they are full | by key, as panes |
"""

from headrace.operators.base import Operator
from headrace.operators.window.columnar.continuous_windows import ContinuousClockOperator, ContinuousEventTimeOperator
from headrace.operators.window.columnar.count_windows import CountWindowOperator
from headrace.operators.window.columnar.layout import ColumnarWindowLayout
from headrace.operators.window.columnar.session_windows import SessionWindowOperator
from headrace.operators.window.columnar.time_windows import UntimedWindowOperator, columnar_window
from headrace.windowing.definition import AccumulationMode, WindowDefinition
from headrace.windowing.intervals import (
    AlignedWindows,
    ColumnarWindows,
    CountPanes,
    FiringInterval,
    GrowingWindows,
    SessionGap,
)


def columnar_operator(
    layout: ColumnarWindowLayout,
    definition: WindowDefinition,
    windows: ColumnarWindows,
    interval: FiringInterval | None,
) -> Operator:
    """The operator for built-in aggregates over windows.

    Args:
        layout: the aggregates and the columns.
        definition: the windows.
        windows: the same as arithmetic.
        interval: when windows of time are shown before they end.
    """
    lateness, late_tag, mode = definition.allowed_lateness, definition.late_tag_id, definition.applied_mode
    if isinstance(windows, CountPanes):
        return CountWindowOperator(layout, windows)
    if isinstance(windows, SessionGap):
        discards = mode is AccumulationMode.DISCARDING
        return SessionWindowOperator(layout, windows.gap, late_tag, lateness, discards=discards)
    if interval is not None and isinstance(windows, AlignedWindows | GrowingWindows):
        kind = ContinuousClockOperator if interval.by_clock else ContinuousEventTimeOperator
        return kind(layout, definition, windows, interval.length)
    if definition.assigner.is_event_time():
        return columnar_window(layout, windows, lateness, late_tag, mode)
    return UntimedWindowOperator(layout, windows)
