"""The window operator for every assigner, trigger and evictor: what windows hold, however a job is cut into epochs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from any_window import (
    ANY,
    CONTENTS,
    EVENT,
    LATE,
    TENS,
    Define,
    Event,
    Every,
    KeepNone,
    KeepTwo,
    OwnWindows,
    Values,
    at,
    cuts,
    drive,
    show,
)

from headrace.common import Time, Types
from headrace.datastream import WindowFunction
from headrace.datastream.streams.windowed_stream import WindowedStream
from headrace.datastream.window import SlidingEventTimeWindows
from headrace.testing import JobHarness
from headrace.windowing.assigners import WindowAssigner
from headrace.windowing.triggers import EventTimeTrigger
from headrace.windowing.windows import TimeWindow


@pytest.mark.sampled(4)
@cuts
@pytest.mark.parametrize("kind", CONTENTS)
def test_what_a_window_holds(kind: str, cut: int) -> None:
    define, expected = CONTENTS[kind]
    results, _, _ = drive(TENS, lambda w: define(w.trigger(Every(2))), at(1, 2, 3, 4), cut=cut)
    assert [row[3] for row in results] == [expected([1, 2]), expected([1, 2, 3, 4])]


@pytest.mark.sampled(5)
@cuts
@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("after", [False, True])
def test_wi26_an_evictor_removes_for_good(kind: str, after: bool, cut: int) -> None:
    define, expected = CONTENTS[kind]
    evictor = KeepTwo(after=after)
    results, _, _ = drive(TENS, lambda w: define(w.trigger(Every(3)).evictor(evictor)), at(1, 2, 3, 4, 5, 6), cut=cut)
    shown = [[1, 2, 3], [2, 3, 4, 5, 6]] if after else [[2, 3], [5, 6]]
    assert [row[3] for row in results] == [expected(values) for values in shown]


@pytest.mark.parametrize(("kind", "shown"), [("process", [[]]), ("reduce", []), ("aggregate", [[[]]])])
def test_an_evictor_may_leave_nothing(kind: str, shown: list[Any]) -> None:
    results, _, _ = drive(TENS, lambda w: CONTENTS[kind][0](w.evictor(KeepNone())), at(1, 2))
    assert [row[3] for row in results] == shown


@cuts
def test_reduce_alone_and_aggregate_alone(cut: int) -> None:
    def reduce(windows: WindowedStream) -> Any:
        return windows.reduce(lambda a, b: (a[0], a[1] + b[1], b[2]))

    reduced, _, _ = drive(OwnWindows(5), reduce, at(1, 4, 20), cut=cut, reads_late=False)
    assert reduced == [("hi", 5, 4), ("hi", 20, 20)]
    aggregated, _, _ = drive(
        OwnWindows(5), lambda w: w.aggregate(Values(), output_type=ANY), at(1, 4, 20), cut=cut, reads_late=False
    )
    assert aggregated == [[1, 4], [20]]


def clocked(assigner: WindowAssigner[Any, Any], define: Define, steps: Iterable[int | Event]) -> list[Any]:
    """Results with an epoch for each step: an event, or a reading of the clock."""

    def job(harness: JobHarness) -> None:
        keyed = harness.add_source("events", EVENT).key_by(lambda event: event[0], key_type=Types.STRING())
        harness.add_sink("results", define(keyed.window(assigner)).uid("windows"))

    with JobHarness(job, processing_time=0) as harness:
        for step in steps:
            if isinstance(step, int):
                harness.set_processing_time(step)
            else:
                harness.push("events", step)
            harness.run_epoch()
        return harness.results("results")


def test_windows_of_processing_time_fire_by_the_clock() -> None:
    sessions = OwnWindows(10, is_event_time=False)
    steps: list[int | Event] = [("hi", 1, 0), 5, ("hi", 2, 0), 13, ("hi", 3, 0), 22, 23, ("hi", 4, 0), 40]
    results = clocked(sessions, show, steps)
    assert results == [("hi", 0, 23, [1, 2, 3], "on time"), ("hi", 23, 33, [4], "on time")]


def test_allowed_lateness_means_nothing_in_processing_time() -> None:
    sessions = OwnWindows(10, is_event_time=False)
    with pytest.warns(UserWarning, match="allowed_lateness has no effect"):
        results = clocked(sessions, lambda w: show(w.allowed_lateness(1000)), [("hi", 1, 0), 9, ("hi", 2, 0), 30])
    assert [row[:4] for row in results] == [("hi", 0, 10, [1]), ("hi", 9, 19, [2])]


# --- agreement with the operator for aligned windows -----------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("assigner", "lateness", "cut"),
    [
        (TENS, 0, 100),
        (TENS, 7, 3),
        (SlidingEventTimeWindows.of(10, 4), 0, 3),
        (SlidingEventTimeWindows.of(10, 4), 7, 1),
        (SlidingEventTimeWindows.of(3, 5), 0, 1),
        (SlidingEventTimeWindows.of(3, 5), 7, 100),
    ],
)
def test_windows_that_fire_at_their_ends_are_the_same_in_both_operators(assigner: Any, lateness: int, cut: int) -> None:
    class SameTrigger(EventTimeTrigger):
        """Another class, so another operator."""

    class Report(WindowFunction):
        def apply(self, key: str, window: TimeWindow, inputs: Iterable[Event]) -> Iterator[Any]:
            yield key, window.start, window.end, [event[1] for event in inputs]

    events: list[Event | int] = []
    for number in range(40):
        events.append((f"k{number * 7 % 4}", number, number * 11 % 40 + number // 2))
        if number % 5 == 4:
            events.append(number // 2 + 8)

    def define(own: bool) -> Define:
        def windows(w: WindowedStream) -> Any:
            w = w.allowed_lateness(Time.milliseconds(lateness)).side_output_late_data(LATE)
            return (w.trigger(SameTrigger()) if own else w).apply(Report(), ANY)

        return windows

    assert drive(assigner, define(True), events, cut=cut) == drive(assigner, define(False), events, cut=cut)
