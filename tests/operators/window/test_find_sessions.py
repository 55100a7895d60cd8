"""Which records are of one session, for many at once: as a plain program finds it, one record after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.constants import MIN_WATERMARK
from headrace.operators.window.columnar.sessions import (
    NO_SESSION,
    ArrivedTimes,
    Spans,
    find_sessions,
    sorted_by,
)
from tests.draws import draws

FAR = 2**61
"""So far apart that the numbers of a key, a time and a row do not fit into one integer."""


@dataclass
class PerElementProcessor:
    """Sessions of which the members are known."""

    gap: int
    live: dict[int, list[tuple[int, int, frozenset[Any]]]] = field(default_factory=dict)
    fired: set[tuple[int, int, int, frozenset[Any]]] = field(default_factory=set)
    refused: list[int] = field(default_factory=list)

    def add(self, key: int, start: int, end: int, name: Any, watermark: int) -> None:
        """A record, or an open session, comes."""
        self.advance(watermark)
        live = self.live.setdefault(key, [])
        touched = [other for other in live if other[0] <= end and other[1] >= start]
        if not touched and end - 1 <= watermark:
            self.refused.append(name)
            return
        parts = [*touched, (start, end, frozenset([name]))]
        merged = min(p[0] for p in parts), max(p[1] for p in parts), frozenset[Any]().union(*(p[2] for p in parts))
        self.live[key] = [other for other in live if other not in touched] + [merged]

    def advance(self, watermark: int | None) -> None:
        """What is due fires; with None everything does."""
        for key, live in self.live.items():
            due = [each for each in live if watermark is None or each[1] - 1 <= watermark]
            self.fired |= {(key, *each) for each in due}
            self.live[key] = [each for each in live if each not in due]


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """A gap, records (key, timestamp, watermark), and open sessions (key, start, end)."""
    gap, times = draw(st.integers(1, 8)), st.integers(-10, 30)
    first = watermark = draw(st.one_of(st.just(MIN_WATERMARK), times))
    records = []
    for _ in range(draw(st.integers(0, 14))):
        watermark = max(watermark, draw(st.one_of(st.just(watermark), times)))
        records.append((draw(st.integers(0, 1)), draw(times), watermark))
    opened = []
    for key in (0, 1):
        time = draw(times)
        for length, pause in draw(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 5)), max_size=4)):
            if time + length + gap - 1 > first:
                opened.append((key, time, time + length + gap))
            time += length + gap + pause
    return gap, records, opened


def columns(rows: list[tuple[int, int, int]]) -> Any:
    return np.array(rows, np.int64).reshape(-1, 3).T


@settings(max_examples=draws(80), deadline=None)
@given(arrived=arrivals())
def test_many_at_once_are_as_one_by_one(arrived: Any) -> None:
    gap, records, opened = arrived
    model = PerElementProcessor(gap)
    for number, (key, start, end) in enumerate(opened):
        model.add(key, start, end, ("open", number), MIN_WATERMARK)
    for number, (key, timestamp, watermark) in enumerate(records):
        model.add(key, timestamp, timestamp + gap, number, watermark)
    model.advance(None)
    found = find_sessions(gap, ArrivedTimes(*columns(records)), Spans(*columns(opened)))
    members: list[list[Any]] = [[] for _ in range(len(found.sessions))]
    for number, session in enumerate(found.of_open.tolist()):
        members[session].append(("open", number))
    for number, session in enumerate(found.of_records.tolist()):
        if session != NO_SESSION:
            members[session].append(number)
    spans = zip(found.sessions.keys.tolist(), found.sessions.starts.tolist(), found.sessions.ends.tolist(), strict=True)
    rows = [(*span, frozenset(names)) for span, names in zip(spans, members, strict=True)]
    assert len(rows) == len(model.fired)
    assert set(rows) == model.fired
    assert np.flatnonzero(found.of_records == NO_SESSION).tolist() == model.refused
    assert rows == sorted(rows, key=lambda row: (row[0], row[2]))


@given(rows=st.lists(st.tuples(st.integers(0, 5), st.sampled_from([-FAR, -1, 0, 1, 7, FAR]))))
def test_rows_are_sorted_however_far_apart_they_are(rows: list[tuple[int, int]]) -> None:
    numbers, values = np.array(rows, np.int64).reshape(-1, 2).T
    expected = sorted(range(len(rows)), key=lambda row: (rows[row], row))
    assert sorted_by(numbers, values).tolist() == expected


def test_records_that_are_late_lead_on_to_one_another() -> None:
    """Each reaches the session only once the one before it is part of it."""
    late = [(0, 10 - 2 * number, 11) for number in range(50)]
    records = [(0, 12, 5), *late, (0, -100, 11)]
    found = find_sessions(2, ArrivedTimes(*columns(records)), Spans(*columns([])))
    assert found.of_records.tolist() == [0] * 51 + [NO_SESSION]
    assert (found.sessions.starts.tolist(), found.sessions.ends.tolist()) == ([-88], [14])


@pytest.mark.parametrize(("watermark", "sessions"), [(13, 1), (14, 2)])
def test_a_session_that_has_fired_takes_no_more(watermark: int, sessions: int) -> None:
    """The watermark of the second record has reached the last millisecond of the first one's session, or not."""
    found = find_sessions(5, ArrivedTimes(*columns([(0, 10, 0), (0, 13, watermark)])), Spans(*columns([])))
    assert len(found.sessions) == sessions
