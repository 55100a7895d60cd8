"""Metrics by operator, subtask and name: rates over the time that a meter asks for, totals, and shown names."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.checkpoint.manifest import Manifest
from headrace.jobmanager.metrics import MetricKey, by_shown_name, counters_of
from headrace.metrics.registry import PARTS, Rate

SPAN = 60_000


def rate_of(events: list[tuple[int, int]]) -> Rate:
    rate = Rate(SPAN)
    for now, count in events:
        rate = rate.after(now, count)
    return rate


@pytest.mark.slow
def test_what_is_kept_does_not_grow_while_nobody_asks() -> None:
    """Ten epochs a second, each with four tasks, for an hour."""
    rate = rate_of([(epoch * 100, 5) for epoch in range(36_000) for _ in range(4)])
    assert len(rate.events) == SPAN / 100
    assert rate.per_second(36_000 * 100 - 1) == 200


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(-3, 100))), st.integers(0, 2 * SPAN))
def test_a_rate_is_exact_up_to_a_part_of_the_time(steps: list[tuple[int, int]], later: int) -> None:
    times = list(accumulate(step for step, _ in steps))
    events = [(time, count) for time, (_, count) in zip(times, steps, strict=True)]
    rate = rate_of(events)
    now = later + (times[-1] if times else 0)
    surely = sum(count for time, count in events if time > now - SPAN + SPAN / PARTS)
    in_doubt = [count for time, count in events if now - SPAN < time <= now - SPAN + SPAN / PARTS]
    told = rate.per_second(now) * SPAN / 1000 - surely
    assert sum(count for count in in_doubt if count < 0) - 1e-6 <= told
    assert told <= sum(count for count in in_doubt if count > 0) + 1e-6
    assert len(rate.events) <= PARTS + 1


@pytest.mark.parametrize("ago", [SPAN, SPAN + 1])
def test_what_is_past_has_no_rate(ago: int) -> None:
    assert rate_of([(1000, 7)]).per_second(1000 + ago) == 0


def test_totals_are_told_for_the_job_for_operators_and_for_subtasks() -> None:
    counters = {"left": {"numRecordsIn": (3, 0, 4)}, "gone": {"numRecordsIn": (1,)}}
    manifest = Manifest(1, 0, "id", "job", 128, 0, counters={"numEpochs": 2}, operator_counters=counters)
    found = counters_of(manifest)
    assert found[MetricKey("", None, "numEpochs")] == 2
    assert found[MetricKey("left", None, "numRecordsIn")] == 7
    assert [found[MetricKey("left", subtask, "numRecordsIn")] for subtask in range(3)] == [3, 0, 4]
    shown = by_shown_name(found, {"left": "Map (left)"})
    assert shown == {"numEpochs": 2, "Map (left).numRecordsIn": 7, "gone.numRecordsIn": 1}


def test_what_only_subtasks_have_is_shown_with_their_number() -> None:
    told = {MetricKey("parse", 0, "longest"): 3.0, MetricKey("parse", 1, "longest"): 5.0}
    assert by_shown_name(told, {}) == {"parse.0.longest": 3.0, "parse.1.longest": 5.0}
