"""Assigners that are derived from built-in ones: what they override holds on every path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from headrace.common import Types
from headrace.datastream import ProcessWindowFunction
from headrace.datastream.aggregates import count
from headrace.datastream.window import (
    CountTrigger,
    CumulatingEventTimeWindows,
    EventTimeTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from headrace.testing import JobHarness
from headrace.windowing.intervals import AlignedWindows

Event = tuple[str, int]
EVENT = Types.TUPLE([Types.STRING(), Types.LONG()])
ANY = Types.PICKLED_BYTE_ARRAY()
TENS = TumblingEventTimeWindows.of(10)


class Show(ProcessWindowFunction[Event, Any, str, TimeWindow]):
    def process(self, key: str, context: Any, elements: Iterable[Event]) -> Iterator[Any]:
        yield key, context.window().start, context.window().end, len(list(elements))


class HiApart(TumblingEventTimeWindows):
    """Keeps what is "hi" in windows of five, and all else in windows of its size."""

    def assign_windows(self, element: Event, timestamp: int, context: Any) -> Any:
        return TENS.windows_at(timestamp, element, context) if element[0] == "ho" else [_five(timestamp)]


class HiApartAt(SlidingEventTimeWindows):
    """The same by the other method."""

    def windows_at(self, time: int, element: Event, context: Any) -> Any:
        return TENS.windows_at(time, element, context) if element[0] == "ho" else [_five(time)]


class HiApartBeside:
    """The same, for a class that has a built-in one beside it."""

    assign_windows = HiApart.assign_windows


class HiApartMixed(HiApartBeside, CumulatingEventTimeWindows): ...


class HiApartRestored(HiApartMixed):
    """Inherits what was overridden."""


def _five(timestamp: int) -> TimeWindow:
    start = timestamp - timestamp % 5
    return TimeWindow(start, start + 5)


DERIVED = [HiApart(10), HiApartAt(10, 10), HiApartMixed(10, 5), HiApartRestored(10, 5)]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("assigner", DERIVED, ids=lambda assigner: type(assigner).__name__)
@pytest.mark.parametrize("trigger", [EventTimeTrigger(), CountTrigger.of(2)], ids=str)
@pytest.mark.parametrize("by", ["function", "aggregate"])
def test_overridden_assigners_are_asked_on_every_path(by: str, trigger: Any, assigner: Any) -> None:
    def job(harness: JobHarness) -> None:
        keyed = harness.add_source("events", EVENT).key_by(0)
        windows = keyed.window(assigner).trigger(trigger)
        shown = windows.process(Show(), ANY) if by == "function" else windows.aggregate(count()).map(tuple)
        harness.add_sink("results", shown)

    with JobHarness(job) as harness:
        for key, time in [("hi", 1), ("hi", 7), ("hi", 8), ("ho", 1), ("ho", 7)]:
            harness.push("events", (key, time), time)
        harness.finish()
        results = harness.results("results")
    fives = [("hi", 0, 5, 1), ("hi", 5, 10, 2)] if isinstance(trigger, EventTimeTrigger) else [("hi", 5, 10, 2)]
    assert sorted(results) == [*fives, ("ho", 0, 10, 2)]


@pytest.mark.parametrize("base", [TumblingEventTimeWindows, SlidingEventTimeWindows, TumblingProcessingTimeWindows])
def test_an_overridden_assigner_may_ask_the_built_in_one(base: Any) -> None:
    class FromZero(base):  # type: ignore[misc]
        def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
            return super().assign_windows(element, max(timestamp, 0), context)

    assigner = FromZero.of(10, 10) if base is SlidingEventTimeWindows else FromZero.of(10)
    assert type(assigner) is FromZero
    assert assigner.regular is None
    assert assigner.assign_windows("hi", -5, ClockAt(7)) == [TimeWindow(0, 10)]


class ClockAt:
    def __init__(self, time: int) -> None:
        self.time = time

    def get_current_processing_time(self) -> int:
        return self.time


def test_one_that_gives_other_arithmetic_alone_has_these_windows() -> None:
    class Halves(TumblingEventTimeWindows):
        @property
        def aligned(self) -> AlignedWindows:
            return AlignedWindows(self.size // 2, self.size // 2)

    assert Halves.of(10).assign_windows("hi", 7, ClockAt(0)) == [TimeWindow(5, 10)]


def test_an_overridden_assigner_may_give_the_arithmetic_of_its_windows() -> None:
    class Halves(HiApart):
        @property
        def aligned(self) -> AlignedWindows:
            return AlignedWindows(self.size // 2, self.size // 2)

    assert HiApart(10).aligned is HiApart(10).regular is None
    assert Halves(10).regular == AlignedWindows(5, 5)
