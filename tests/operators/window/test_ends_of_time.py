"""Timestamps whose windows would begin or end beyond 64 bits are refused, and those just before them are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import Types
from headrace.datastream.aggregates import count
from headrace.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from headrace.testing import JobHarness

if TYPE_CHECKING:
    from collections.abc import Callable

EVENT = Types.ROW_NAMED(["key"], [Types.LONG()])

ASSIGNERS: dict[str, tuple[Any, int]] = {
    "tumbling": (TumblingEventTimeWindows.of(1000, 300), 1300),
    "sliding": (SlidingEventTimeWindows.of(1000, 400), 1200),
    "with gaps": (SlidingEventTimeWindows.of(10, 400, -3), 403),
    "cumulating": (CumulatingEventTimeWindows.of(1000, 100), 1000),
    "sessions": (EventTimeSessionWindows.with_gap(700), 700),
}

PATHS: dict[str, Callable[[Any], Any]] = {
    "columns": lambda windows: windows.aggregate(count()),
    "at the end": lambda windows: windows.apply(lambda key, window, rows: [len(list(rows))], Types.LONG()),
    "each": lambda windows: windows.trigger(CountTrigger.of(1)).reduce(lambda a, b: a),
    "early": lambda windows: windows.trigger(ContinuousEventTimeTrigger.of(50)).aggregate(count()),
}


def shown(assigner: Any, path: str, timestamp: int) -> int:
    """How many results there are of one record."""

    def job(harness: JobHarness) -> None:
        windows = harness.add_source("events", EVENT).key_by("key").window(assigner)
        harness.add_sink("results", PATHS[path](windows).uid("windows"))

    with JobHarness(job) as harness:
        harness.push("events", (1,), timestamp)
        harness.run_epoch()
        if timestamp > 0:
            harness.finish()
        return len(harness.results("results"))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", ASSIGNERS)
def test_windows_that_would_end_beyond_time_are_refused(kind: str, path: str) -> None:
    assigner, reach = ASSIGNERS[kind]
    shown(assigner, path, MIN_WATERMARK + 1 + reach)
    shown(assigner, path, MAX_WATERMARK - reach)
    for beyond in (MAX_WATERMARK - reach + 1, MIN_WATERMARK + reach):
        with pytest.raises(InvalidProgramError, match=f"no 64 bits: its timestamp is {beyond}\n  record: ") as caught:
            shown(assigner, path, beyond)
        assert "operator defined at" in str(caught.value)
