"""Windows that share panes give what windows that share nothing give."""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_against_model import CODEC, COLUMNAR, columnar, drive, scenarios
from window_harness import INPUT, Driver
from window_model import Record

from headrace.common.typeinfo import Types
from headrace.datastream import aggregates as agg
from headrace.operators.window.columnar import pane_store, time_windows, windows_by_end
from headrace.operators.window.columnar.accumulators import Accumulators, ColumnarWindowLayout
from headrace.operators.window.columnar.columnar_operator import columnar_window
from headrace.operators.window.columnar.panes import Panes
from headrace.operators.window.columnar.time_windows import AlignedWindowOperator
from headrace.testing import JobHarness
from headrace.windowing.assigners import CumulatingEventTimeWindows
from headrace.windowing.intervals import AlignedWindows, GrowingWindows
from tests.draws import draws

sliding = st.tuples(st.integers(2, 30), st.integers(1, 30), st.integers(-9, 9)).map(
    lambda drawn: AlignedWindows(drawn[0], drawn[1], drawn[2] % drawn[1])
)


@pytest.mark.parametrize(
    ("size", "slide", "shares"),
    [
        (60, 60, False),  # tumbling
        (10, 60, False),  # with gaps
        (60, 10, True),
        (60, 8, True),  # panes of 4
        (60, 59, False),  # panes of 1
    ],
)
def test_which_windows_share(size: int, slide: int, shares: bool) -> None:
    assert (AlignedWindows(size, slide).pane is not None) is shares


@given(windows=sliding, timestamps=st.lists(st.integers(-100, 100), min_size=1))
def test_a_pane_stands_for_all_its_timestamps(windows: AlignedWindows, timestamps: list[int]) -> None:
    length = gcd(windows.size, windows.slide)
    panes, times = Panes(windows, AlignedWindows(length, length, windows.offset % length)), np.array(timestamps)
    ends = panes.assign(times).ends
    assert ((ends > times) & (ends - length <= times)).all()
    for time, end, first in zip(times, ends, windows.first_ends(times), strict=True):
        one = windows.assign(np.array([time]))
        assert panes.windows_of(np.array([end])).ends.tolist() == one.ends.tolist()
        if windows.size >= windows.slide:
            assert first == one.ends.min()


growing = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(-3, 3)).map(
    lambda drawn: GrowingWindows(drawn[0] * drawn[1], drawn[0], drawn[2] % (drawn[0] * drawn[1]))
)


@given(windows=growing, timestamps=st.lists(st.integers(-100, 100), min_size=1))
def test_windows_that_grow_are_those_of_the_assigner(windows: GrowingWindows, timestamps: list[int]) -> None:
    assigner = CumulatingEventTimeWindows.of(windows.size, windows.step, windows.offset)
    assert assigner.regular == windows
    times = np.array(timestamps)
    pairs = windows.assign(times)
    expected = [(row, *w) for row, time in enumerate(timestamps) for w in spans(assigner, time)]
    found = zip(pairs.records.tolist(), windows.starts_of(pairs.ends).tolist(), pairs.ends.tolist(), strict=True)
    assert list(found) == expected
    assert windows.pane is not None
    panes = Panes(windows, windows.pane)
    for time, end in zip(timestamps, panes.assign(times).ends.tolist(), strict=True):
        assert panes.end_above(time) == end == spans(assigner, time)[0][1]
        assert panes.windows_of(np.array([end])).ends.tolist() == [last for _, last in spans(assigner, time)]


def spans(assigner: CumulatingEventTimeWindows, time: int) -> list[tuple[int, int]]:
    """The windows of a timestamp, smallest first."""
    return [(window.start, window.end) for window in assigner.windows_at(time, None, None)]


@pytest.mark.parametrize("tag", [None, "late"])
@settings(max_examples=draws(20), deadline=None)
@given(scenario=scenarios(), windows=growing)
def test_windows_that_grow_by_pane_and_without(tag: str | None, scenario: Any, windows: GrowingWindows) -> None:
    _, lateness, records, cuts, kinds = scenario
    by_pane, alone = (
        Driver(lambda make=make: make(COLUMNAR, windows, lateness, tag))
        for make in (columnar_window, AlignedWindowOperator)
    )
    for driver in (by_pane, alone):
        drive(driver, records, cuts, kinds)
    assert by_pane.out.rows == alone.out.rows
    assert by_pane.counters == alone.counters
    if tag:
        assert by_pane.out.side(tag) == alone.out.side(tag)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("tag", "pending"), [("late", 1), (None, 7), ("late", 7), (None, 1 << 18)])
@settings(max_examples=draws(20), deadline=None)
@given(scenario=scenarios(), size=st.integers(1, 5), slide=st.integers(1, 4), copies=st.integers(1, 3))
def test_sharing_changes_nothing(
    tag: str | None, pending: int, scenario: Any, size: int, slide: int, copies: int
) -> None:
    """Late records, allowed lateness, batches and epochs included; and however few rows wait at a time."""
    _, lateness, records, cuts, kinds = scenario
    windows = AlignedWindows(3 * size * slide, 3 * slide, 1)
    records = [record for record in records for _ in range(copies)]
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows_by_end, "_WAITING_ROWS", pending)
        patch.setattr(time_windows, "_STEP_ROWS", pending)
        for shares in (True, False):
            if not shares:
                patch.setattr(AlignedWindows, "pane", None)
            driver = Driver(lambda: columnar(windows, lateness, tag))
            drive(driver, records, [cut * copies for cut in cuts], kinds)
            found.append((driver.out.rows, driver.out.side(tag) if tag else None, driver.counters))
    assert found[0] == found[1]


def test_records_are_added_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty windows, one pane: the records themselves are grouped as they are, not sixty times."""
    rows: list[int] = []
    original = Accumulators.of_chunk

    def of_chunk(aggregators: Any, chunk: Any, *known: Any) -> Accumulators:
        rows.append(len(chunk))
        return original(aggregators, chunk, *known)

    monkeypatch.setattr(Accumulators, "of_chunk", staticmethod(of_chunk))
    driver = Driver(lambda: columnar(AlignedWindows(60, 1), 0, None))
    driver.run([[Record(1, 1.0, 30)] * 100], upto=100)
    assert rows == [100]
    assert len(driver.out.rows) == 60
    assert COLUMNAR.codec is CODEC


def day_so_far(harness: JobHarness) -> None:
    events = harness.add_source("events", Types.TUPLE([Types.STRING(), Types.LONG()]))
    windows = events.key_by("f0").window(CumulatingEventTimeWindows.of(24, 8))
    harness.add_sink("sums", windows.aggregate(agg.count(), agg.sum("f1")).uid("windows"))


def test_a_day_so_far() -> None:
    with JobHarness(day_so_far) as harness:
        for value, timestamp in [(("a", 1), 2), (("b", 2), 9), (("a", 4), 21), (("a", 8), 25)]:
            harness.push("events", value, timestamp)
            harness.run_epoch()
        harness.finish()
        found = sorted(map(tuple, harness.results("sums")))
    first = [("a", 0, 8, 1, 1), ("a", 0, 16, 1, 1), ("a", 0, 24, 2, 5)]
    second = [("a", 24, 32, 1, 8), ("a", 24, 40, 1, 8), ("a", 24, 48, 1, 8)]
    assert found == [*first, *second, ("b", 0, 16, 1, 2), ("b", 0, 24, 1, 2)]


TOTALS = ColumnarWindowLayout.of(INPUT, CODEC, [agg.count(), agg.sum("value"), agg.avg("value")], ["key"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("tag", "ahead"), [("late", 0), (None, 2), ("late", 64)])
@settings(max_examples=draws(20), deadline=None)
@given(
    scenario=scenarios(), odd=st.sets(st.integers(0, 24), max_size=2), size=st.integers(1, 5), slide=st.integers(1, 4)
)
def test_panes_that_are_taken_back(
    tag: str | None, ahead: int, scenario: Any, odd: set[int], size: int, slide: int
) -> None:
    """Values that cannot be taken back come and go between others."""
    _, lateness, records, cuts, kinds = scenario
    windows = AlignedWindows(3 * size * slide, 3 * slide, 1)
    records = [
        replace(record, value=float("inf") if i in odd else record.value or 0.5) for i, record in enumerate(records)
    ]
    by_pane, alone = (
        Driver(lambda make=make: make(TOTALS, windows, lateness, tag))
        for make in (columnar_window, AlignedWindowOperator)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pane_store, "_PANES_AHEAD", ahead)
        for driver in (by_pane, alone):
            drive(driver, records, cuts, kinds)
    assert by_pane.out.rows == alone.out.rows
    assert by_pane.counters == alone.counters
    if tag:
        assert by_pane.out.side(tag) == alone.out.side(tag)
