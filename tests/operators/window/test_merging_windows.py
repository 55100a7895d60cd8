"""Windows that merge where they touch are found by their place in time; assigners that merge otherwise are asked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.time import Time
from headrace.common.typeinfo import Types
from headrace.operators.window.general.assigned_windows import (
    GenericMergingWindowSet,
    IntervalMergingWindowSet,
    KeptWindows,
    MergingWindowSet,
)
from headrace.state.keyed.table import StateTable
from headrace.state.keys.codecs import KeyEntry
from headrace.testing import JobHarness
from headrace.windowing.session_assigners import EventTimeSessionWindows, ProcessingTimeSessionWindows
from headrace.windowing.triggers import ContinuousEventTimeTrigger
from headrace.windowing.windows import TimeWindow, TimeWindowSerializer, window_serializer
from tests.draws import draws

KEY = KeyEntry(1, 1, 0)
SESSIONS = EventTimeSessionWindows.with_gap(5)

some_windows = st.builds(lambda start, size: TimeWindow(start, start + size), st.integers(-30, 30), st.integers(1, 12))


class Steps:
    """What happens to the windows of a key, in order."""

    def __init__(self, windows: MergingWindowSet[TimeWindow]) -> None:
        self.windows = windows
        self.happened: list[Any] = []

    def run(self, new: list[tuple[TimeWindow, bool]]) -> list[Any]:
        """Add windows, some of which go at once; gives what has happened, and which windows are there then."""
        for window, goes in new:
            actual = self.windows.add(window, lambda *merged: self.happened.append(merged))
            self.happened.append(actual)
            if goes:
                self.windows.retire(actual)
        return [*self.happened, list(self.windows.mapping.items()), self.windows.has_changed]


def asking(mapping: dict[TimeWindow, TimeWindow]) -> GenericMergingWindowSet[TimeWindow]:
    kept = KeptWindows(SESSIONS, window_serializer(TimeWindowSerializer()))
    return GenericMergingWindowSet(KEY, mapping, SESSIONS, kept)


@settings(max_examples=draws(60), deadline=None)
@given(st.lists(st.tuples(some_windows, st.booleans()), max_size=20), st.integers(0, 20))
def test_neighbours_in_time_are_all_that_the_assigner_would_merge(new: list[tuple[TimeWindow, bool]], cut: int) -> None:
    asked, found = Steps(asking({})), Steps(IntervalMergingWindowSet(KEY, {}))
    assert asked.run(new[:cut]) == found.run(new[:cut])
    stored = dict(asked.windows.mapping)
    assert Steps(asking({**stored})).run(new[cut:]) == Steps(IntervalMergingWindowSet(KEY, {**stored})).run(new[cut:])


class Apart(EventTimeSessionWindows):
    """Sessions of which none is merged with another one."""

    def merge_windows(self, windows: Any, callback: Any) -> None: ...


class Slow(EventTimeSessionWindows):
    """Sessions, by another method."""

    def merge_windows(self, windows: Any, callback: Any) -> None:
        super().merge_windows(windows, callback)


class Derived(Slow, ProcessingTimeSessionWindows):
    """Sessions whose method is that of a base."""


class WithoutNew(EventTimeSessionWindows):
    """Nothing is overridden."""


@pytest.mark.parametrize(
    ("assigner", "is_asked"),
    [(SESSIONS, False), (WithoutNew(5), False), (Apart(5), True), (Slow(5), True), (Derived(5), True)],
)
def test_who_overrides_how_windows_merge_is_asked(assigner: Any, is_asked: bool) -> None:
    assert assigner.merges_touching is not is_asked


@pytest.mark.parametrize(("assigner", "sums"), [(SESSIONS, [2, 1]), (Apart(5), [1, 1, 1])])
def test_sessions_of_one_key(assigner: Any, sums: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(windows: Any, callback: Any) -> None:
        raise AssertionError("all windows of the key were gone through")

    def job(harness: JobHarness) -> None:
        numbers = harness.add_source("numbers", Types.LONG()).key_by(lambda number: 0, key_type=Types.LONG())
        harness.add_sink("sums", numbers.window(assigner).reduce(lambda a, b: a + b).uid("windows"))

    monkeypatch.setattr(TimeWindow, "merge_windows", refuse)
    with JobHarness(job) as harness:
        harness.push_all("numbers", [1, 1, 1], [0, 4, 20])
        harness.finish()
        assert harness.results("sums") == sums


def test_state_of_sessions_that_grow_is_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that has grown is another window, with state of its own: none is looked up for each element."""
    reads: list[int] = []
    find = StateTable.find
    monkeypatch.setattr(StateTable, "find", lambda table, *given: reads.append(1) or find(table, *given))

    def job(harness: JobHarness) -> None:
        numbers = harness.add_source("numbers", Types.LONG()).key_by(lambda number: number % 2, key_type=Types.LONG())
        sessions = numbers.window(SESSIONS).trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(40)))
        harness.add_sink("sums", sessions.reduce(lambda a, b: a + b).uid("windows"))

    with JobHarness(job) as harness:
        harness.push_all("numbers", [1, 2], [0, 0])
        harness.run_epoch()
        reads.clear()
        harness.push_all("numbers", [1, 2] * 100, [time // 2 for time in range(200)])
        harness.finish()
        assert len(reads) < 20
        assert harness.results("sums") == [101, 202] * 4
