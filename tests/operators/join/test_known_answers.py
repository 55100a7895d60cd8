"""Joins give what Flink's documentation shows, and what its own tests ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from headrace.common import Types
from headrace.datastream import DataStream, ProcessJoinFunction
from headrace.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from headrace.testing import JobHarness

RECORD = Types.TUPLE([Types.STRING(), Types.LONG()])
"""A key and a time, which tells a record from others."""

SOURCES = ("left", "right")


class Times(ProcessJoinFunction):
    """The times of both, which the context tells as well."""

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[tuple[int, int]]:
        assert (ctx.get_left_timestamp(), ctx.get_right_timestamp()) == (left[1], right[1])
        yield left[1], right[1]


def sources(job: JobHarness) -> tuple[DataStream, DataStream]:
    left, right = (job.add_source(name, RECORD) for name in SOURCES)
    return left, right


def push(job: JobHarness, name: str, *times: int, key: str = "key") -> None:
    for time in times:
        job.push(name, (key, time), time)


def advance(job: JobHarness, watermark: int) -> None:
    for name in SOURCES:
        job.advance_watermark(name, watermark)


def interval_join(lower: int, upper: int, *, is_exclusive: tuple[bool, bool] = (False, False)) -> Any:
    """A job that joins two streams; ``is_exclusive`` says it of the lower bound and of the upper one."""

    def build(job: JobHarness) -> None:
        left, right = (stream.key_by(0) for stream in sources(job))
        joined = left.interval_join(right).between(lower, upper)
        if is_exclusive[0]:
            joined.lower_bound_exclusive()
        if is_exclusive[1]:
            joined.upper_bound_exclusive()
        job.add_sink("pairs", joined.process(Times()).uid("join"))

    return build


def pairs(job: JobHarness) -> list[tuple[int, int]]:
    """The pairs so far; each has the later time of both."""
    found = job.results_with_timestamps("pairs")
    assert all(time == max(pair) for pair, time in found)
    return sorted(pair for pair, _ in found)


def test_the_interval_join_of_the_documentation() -> None:
    with JobHarness(interval_join(-2, 1)) as job:
        push(job, "left", 0, 2, 3, 4, 5, 7)
        push(job, "right", 0, 1, 6, 7)
        job.finish()
        assert pairs(job) == [(0, 0), (0, 1), (2, 0), (2, 1), (3, 1), (5, 6), (7, 6), (7, 7)]


NEAR = [(1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]
"""What is one or two later."""

BOUNDS = [
    (1, 3, (False, True), NEAR),
    (-3, -1, (True, False), [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3)]),
    (-2, -1, (False, False), [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3)]),
    (-1, 1, (False, False), [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3), (3, 4), (4, 3), (4, 4)]),
    (1, 2, (False, False), NEAR),
    (-3, -1, (True, True), [(3, 1), (4, 2)]),
    (-1, 1, (True, True), [(1, 1), (2, 2), (3, 3), (4, 4)]),
    (1, 3, (True, True), [(1, 3), (2, 4)]),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("faster", SOURCES)
@pytest.mark.parametrize(("lower", "upper", "is_exclusive", "expected"), BOUNDS)
def test_bounds(
    lower: int, upper: int, is_exclusive: tuple[bool, bool], expected: list[tuple[int, int]], faster: str
) -> None:
    """All of one stream, with its watermarks, comes before all of the other one."""
    with JobHarness(interval_join(lower, upper, is_exclusive=is_exclusive)) as job:
        for name in sorted(SOURCES, key=lambda name: name != faster):
            for time in range(1, 5):
                push(job, name, time)
                job.advance_watermark(name, time)
            job.run_epoch()
        assert pairs(job) == expected


def test_records_of_several_keys() -> None:
    with JobHarness(interval_join(0, 1)) as job:
        for name in SOURCES:
            push(job, name, 0, 2, 4, key="key1")
            push(job, name, 1, 3, 5, key="key2")
        job.finish()
        assert pairs(job) == [(time, time) for time in range(6)]


def test_records_in_disorder() -> None:
    """Those before the watermark are matched with those after it."""
    with JobHarness(interval_join(-1, 1)) as job:
        push(job, "left", 5, 1, 4, 3, 2)
        push(job, "right", 2, 1, 3, 4, 5)
        advance(job, 5)
        push(job, "left", 9, 8, 7, 6)
        push(job, "right", 8, 7, 9, 6)
        job.finish()
        times = range(1, 10)
        assert pairs(job) == [(one, other) for one in times for other in times if abs(one - other) <= 1]


def test_late_records_are_not_joined() -> None:
    with JobHarness(interval_join(-1, 1)) as job:
        for time in (1, 2, 3):
            push(job, "left", time)
            push(job, "right", time)
        advance(job, 3)
        push(job, "left", 1, 4, 5)
        push(job, "right", 4, 5)
        job.run_epoch()
        times = range(1, 6)
        assert pairs(job) == [(one, other) for one in times for other in times if abs(one - other) <= 1]
        assert job.counters()["numLateRecordsDropped"] == 1


def test_a_join_goes_on_after_a_restart() -> None:
    with JobHarness(interval_join(-1, 1)) as job:
        for time in (1, 2, 3):
            for name in SOURCES:
                push(job, name, time)
                job.advance_watermark(name, time)
        job.run_epoch()
        assert pairs(job) == [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3)]
        held = job.checkpoint()
    with JobHarness(interval_join(-1, 1), restore=held) as job:
        for name in SOURCES:
            push(job, name, 4)
            job.advance_watermark(name, 4)
        job.run_epoch()
        assert pairs(job) == [(3, 4), (4, 3), (4, 4)]


def window_join(assigner: Any, left: Iterable[int], right: Iterable[int]) -> list[Any]:
    """The times of the pairs of a window join, with that of each pair."""

    def build(job: JobHarness) -> None:
        first, second = sources(job)
        windows = first.join(second).where(0).equal_to(0).window(assigner)
        job.add_sink("pairs", windows.apply(lambda one, other: (one[1], other[1])))

    with JobHarness(build) as job:
        push(job, "left", *left)
        push(job, "right", *right)
        job.finish()
        return sorted(job.results_with_timestamps("pairs"))


def test_the_tumbling_join_of_the_documentation() -> None:
    """Nothing comes of the last window, which has records of one stream alone."""
    found = window_join(TumblingEventTimeWindows.of(2), range(8), (0, 1, 3, 4))
    assert found == [
        *(((one, other), 1) for one in (0, 1) for other in (0, 1)),
        *(((one, 3), 3) for one in (2, 3)),
        *(((one, 4), 5) for one in (4, 5)),
    ]


def test_the_sliding_join_of_the_documentation() -> None:
    """2 is joined with 3 in the window of both, and with nothing in the one before it."""
    assert window_join(SlidingEventTimeWindows.of(2, 1), [2], [3]) == [((2, 3), 3)]


def test_the_session_join_of_the_documentation() -> None:
    """The last of three sessions has records of one stream alone."""
    found = window_join(EventTimeSessionWindows.with_gap(1), (1, 2, 5, 6, 8, 9), (0, 4, 5))
    assert found == [((1, 0), 2), ((2, 0), 2), *(((one, other), 6) for one in (5, 6) for other in (4, 5))]


NAMED = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])
FIRST = [("a", "x", 0), ("a", "y", 1), ("a", "z", 2), ("b", "u", 3), ("b", "w", 5)]
FIRST += [("a", "i", 6), ("a", "j", 7), ("a", "k", 8)]
SECOND = [("a", "u", 0), ("a", "w", 1), ("b", "i", 3), ("b", "k", 5), ("a", "x", 6), ("a", "z", 8)]


@pytest.mark.parametrize("is_self_join", [False, True])
def test_a_join_in_windows(is_self_join: bool) -> None:
    def build(job: JobHarness) -> None:
        first = job.add_source("first", NAMED)
        second = first if is_self_join else job.add_source("second", NAMED)
        windows = first.join(second).where(0).equal_to(0).window(TumblingEventTimeWindows.of(3))
        job.add_sink("pairs", windows.apply(lambda one, other: (one, other)))

    with JobHarness(build) as job:
        for name, records in (("first", FIRST),) if is_self_join else (("first", FIRST), ("second", SECOND)):
            job.push_all(name, records, [record[2] for record in records])
        job.finish()
        expected = [
            (one, other)
            for one in FIRST
            for other in (FIRST if is_self_join else SECOND)
            if one[0] == other[0] and one[2] // 3 == other[2] // 3
        ]
        assert sorted(job.results("pairs")) == sorted(expected)
        assert len(expected) == (22 if is_self_join else 16)


def test_a_co_group_in_windows() -> None:
    def told(first: list[Any], second: list[Any]) -> Iterator[str]:
        yield f"F:{''.join(f'{key}{time}' for key, time in first)} S:{''.join(f'{key}{time}' for key, time in second)}"

    def build(job: JobHarness) -> None:
        first, second = sources(job)
        windows = first.co_group(second).where(0).equal_to(0).window(TumblingEventTimeWindows.of(3))
        job.add_sink("told", windows.apply(told, Types.STRING()))

    with JobHarness(build) as job:
        for name, records in (("left", "a0 a1 a2 b3 b4 b5 a6 a7 a8"), ("right", "a0 a1 b3 c6 c7 c8")):
            for key, time in records.split():
                push(job, name, int(time), key=key)
        job.finish()
        assert sorted(job.results("told")) == ["F: S:c6c7c8", "F:a0a1a2 S:a0a1", "F:a6a7a8 S:", "F:b3b4b5 S:b3"]
