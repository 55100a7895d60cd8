"""Every way in which windows are computed: by columns, by what elements are folded into, by triggers that are asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headrace.common import Row
from headrace.datastream.window import (
    AccumulationMode,
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    WindowStagger,
)
from tests.invariance.window_programs import FUNCTIONS, Program, bounded
from tests.windowing.scenarios import Windows

TEN: Final = TumblingEventTimeWindows.of(10, 3)
SESSIONS: Final = EventTimeSessionWindows.with_gap(4)
EACH_FOUR: Final = ContinuousEventTimeTrigger.of(4)
RETRACTING: Final = AccumulationMode.ACCUMULATING_AND_RETRACTING
WAYS: Final[dict[str, tuple[WindowAssigner[Any, Any], str, dict[str, Any]]]] = {
    "tumbling": (TEN, "built-in", {}),
    "tumbling, late records": (TEN, "built-in", {"lateness": 8}),
    "tumbling, retracting": (TEN, "built-in", {"lateness": 8, "mode": RETRACTING}),
    "tumbling, discarding": (TEN, "built-in", {"lateness": 8, "mode": AccumulationMode.DISCARDING}),
    "tumbling, of all": (TEN, "built-in of all", {}),
    "sums": (TEN, "sums", {}),
    "sums of sliding": (SlidingEventTimeWindows.of(12, 3), "sums", {}),
    "sums of the stream": (GlobalWindows.create_with_end_of_stream_trigger(), "sums", {}),
    "sums by the clock": (TumblingProcessingTimeWindows.of(10), "sums", {}),
    "sliding": (SlidingEventTimeWindows.of(12, 3, 1), "built-in", {"lateness": 4}),
    "sliding, retracting": (SlidingEventTimeWindows.of(12, 3), "built-in", {"lateness": 8, "mode": RETRACTING}),
    "cumulating": (CumulatingEventTimeWindows.of(12, 3), "built-in", {}),
    "sessions": (SESSIONS, "built-in", {}),
    "sessions, of all": (EventTimeSessionWindows.with_gap(2), "built-in of all", {}),
    "by the clock": (TumblingProcessingTimeWindows.of(10), "built-in", {}),
    "sliding by the clock": (SlidingProcessingTimeWindows.of(12, 3), "built-in", {}),
    "staggered by the clock": (TumblingProcessingTimeWindows.of(10, 0, WindowStagger.NATURAL), "built-in", {}),
    "count": (CountTumblingWindowAssigner.of(3), "built-in", {}),
    "end of the stream": (GlobalWindows.create_with_end_of_stream_trigger(), "built-in", {}),
    "at intervals": (TEN, "built-in", {"trigger": EACH_FOUR}),
    "at intervals, retracting": (TEN, "built-in", {"trigger": EACH_FOUR, "mode": RETRACTING, "lateness": 8}),
    "record by record": (TEN, "built-in", {"trigger": CountTrigger.of(2)}),
    "record by record, retracting": (TEN, "built-in", {"trigger": CountTrigger.of(2), "mode": RETRACTING}),
    "sessions, late records": (SESSIONS, "built-in", {"lateness": 8, "mode": RETRACTING}),
    "sliding counts": (CountSlidingWindowAssigner.of(3, 2), "built-in", {}),
    "an evictor": (TEN, "built-in", {"evictor": CountEvictor.of(2)}),
    "contents by their ends": (TEN, "listed", {"lateness": 8}),
    "folded contents by their ends": (SlidingEventTimeWindows.of(12, 3), "aggregated", {"lateness": 8}),
    "contents by key": (TEN, "listed", {"trigger": CountTrigger.of(2)}),
    "contents by key, retracting": (TEN, "listed", {"lateness": 8, "mode": RETRACTING}),
    "contents of all": (TEN, "listed of all", {}),
    "contents of sessions": (SESSIONS, "listed", {"lateness": 8, "mode": RETRACTING}),
    "reduced sessions": (SESSIONS, "reduced", {}),
    "contents by the clock": (ProcessingTimeSessionWindows.with_gap(8), "listed", {}),
    "contents with an evictor": (TEN, "listed", {"evictor": CountEvictor.of(2, True), "trigger": CountTrigger.of(3)}),
}


def program_of(way: str, splits: Sequence[Sequence[Row]]) -> Program:
    """A program whose windows are computed in one of these ways; event time is behind the newest record by 3 ms."""
    assigner, function, options = WAYS[way]
    parts = Windows(assigner, options.get("trigger"), options.get("evictor"), options.get("lateness", 0))
    mode = options.get("mode", AccumulationMode.ACCUMULATING)
    return Program(parts, mode, FUNCTIONS[function], splits, bounded(3))
