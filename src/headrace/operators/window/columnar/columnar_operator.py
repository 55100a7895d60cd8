"""The operator for built-in aggregates over windows: where to begin reading this package.

**The life of a batch.**

1. The layout evaluates what the aggregates read, as columns. Records with these columns, which have no windows yet,
   are a :class:`.Chunk` (both in :mod:`.accumulators`).
2. The windows, as arithmetic (:mod:`headrace.windowing.intervals`), say which windows records are in; records that are
   late for all of them are sent away (:mod:`headrace.operators.window.lateness`).
3. Pairs of a record and a window become :class:`.Accumulators`: a row for each window and key, with what the aggregates
   remember.
4. The rows are stored. Where a window is known by its end alone, they are appended and nothing is read
   (:mod:`.windows_by_end`); windows that overlap share panes (:mod:`.panes`, :mod:`.pane_store`). Where it has to be
   known which windows a key has, they are stored by key (:mod:`.windows_by_key`).
5. When the watermark rises, the windows that are due are read and merged, and their results are emitted under the
   watermark that was in force before (:mod:`.firing`).

**The operators.** They differ in how records get into windows, and in when these fire:

| windows | operator | stored |
|---|---|---|
| tumbling, cumulating | :class:`.AlignedWindowOperator` | by end |
| sliding | :class:`.PanedWindowOperator` | by the end of panes |
| of the clock, or one for all records | :class:`.UntimedWindowOperator` | by end |
| shown at intervals | :class:`.ContinuousWindowOperator` | by key |
| sessions | :class:`.SessionWindowOperator` | by key |
| of a number of records | :class:`.CountWindowOperator` | by key |

Before the shuffle stands :class:`.LocalWindowAggregateOperator`, which sends accumulators in place of records. General
windows with built-in aggregates, and ``GROUP BY`` without windows, keep accumulators in the same tables.
"""

from __future__ import annotations

from headrace.operators.base import KeyedOperator
from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout
from headrace.operators.window.columnar.panes import Panes
from headrace.operators.window.columnar.time_windows import (
    AlignedWindowOperator,
    PanedWindowOperator,
    UntimedWindowOperator,
)
from headrace.windowing.definition import AccumulationMode, WindowDefinition
from headrace.windowing.intervals import (
    AlignedWindows,
    ColumnarWindows,
    CountPanes,
    FiringInterval,
    GrowingWindows,
    RegularWindows,
    SessionGap,
)


def columnar_operator(
    layout: ColumnarWindowLayout,
    definition: WindowDefinition,
    windows: ColumnarWindows,
    interval: FiringInterval | None,
) -> KeyedOperator:
    """The operator for built-in aggregates over windows.

    Args:
        layout: the aggregates and the columns.
        definition: the windows.
        windows: the same as arithmetic.
        interval: when windows of time are shown before they end.
    """
    lateness, late_tag, mode = definition.allowed_lateness, definition.late_tag_id, definition.applied_mode
    if isinstance(windows, CountPanes):
        from headrace.operators.window.columnar.count_windows import CountWindowOperator

        return CountWindowOperator(layout, windows)
    if isinstance(windows, SessionGap):
        from headrace.operators.window.columnar.session_windows import SessionWindowOperator

        discards = mode is AccumulationMode.DISCARDING
        return SessionWindowOperator(layout, windows.gap, late_tag, lateness, discards=discards)
    if interval is not None and isinstance(windows, AlignedWindows | GrowingWindows):
        from headrace.operators.window.columnar import continuous_windows as continuous

        kind = continuous.ContinuousClockOperator if interval.by_clock else continuous.ContinuousEventTimeOperator
        return kind(layout, definition, windows, interval.length)
    if definition.assigner.is_event_time():
        return columnar_window(layout, windows, lateness, late_tag, mode)
    return UntimedWindowOperator(layout, windows)


def columnar_window(
    layout: ColumnarWindowLayout,
    assigner: RegularWindows,
    lateness: int = 0,
    late_tag: str | None = None,
    mode: AccumulationMode = AccumulationMode.ACCUMULATING,
) -> AlignedWindowOperator:
    """The operator for built-in aggregates over such windows."""
    pane = None if layout.retracts else assigner.pane
    if pane is None:
        return AlignedWindowOperator(layout, assigner, lateness, late_tag, mode)
    return PanedWindowOperator(layout, assigner, Panes(assigner, pane), lateness, late_tag, mode)
