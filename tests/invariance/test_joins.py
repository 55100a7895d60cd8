"""Joins of two streams against all pairs in plain Python, however the input is cut, lost and read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import strategies as st

from headrace.common import Types
from headrace.datastream import ProcessFunction, ProcessJoinFunction
from headrace.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from headrace.expressions import left as left_field
from headrace.expressions import right as right_field
from headrace.operators.join import find_pairs
from headrace.state.runs import spilling
from tests.invariance.driver import EVENT, Cut, Event, Job, cuts, examples, multiset, run

DISORDER = 20
NOBODY = (None, None, None)


@pytest.fixture(autouse=True)
def a_few_pairs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_pairs, "PAIRS", 5)
    monkeypatch.setattr(spilling, "SPILLED_BYTES", 500)  # about ten records


Steps = list[tuple[str, int, int]]

a_split = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9), st.integers(0, DISORDER)), max_size=20)
a_stream = st.lists(a_split, min_size=1, max_size=2)
bounds = st.tuples(st.integers(-15, 15), st.integers(-15, 15)).map(sorted)


def events_of(split: Steps) -> list[Event]:
    """Times rise, but for a disorder that makes no record late."""
    return [(key, value, 7 * place + jitter) for place, (key, value, jitter) in enumerate(split)]


class Both(ProcessJoinFunction):
    """The key, a number of both values, and the time between the two."""

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Event]:
        yield left[0], 100 * left[1] + right[1], right[2] - left[2]


def pairs_of(left: Sequence[Event], right: Sequence[Event], lower: int, upper: int) -> list[tuple[Event, int]]:
    return [
        ((key, 100 * value + other_value, other_time - time), max(time, other_time))
        for key, value, time in left
        for other_key, other_value, other_time in right
        if key == other_key and lower <= other_time - time <= upper
    ]


@examples(20, left=a_stream, right=a_stream, interval=bounds, cut=cuts)
def test_interval_joins(left: list[Steps], right: list[Steps], interval: list[int], cut: Cut) -> None:
    """Two sources of several splits."""
    check_interval_join(left, right, interval, cut)


def test_tables_that_two_subtasks_have_shared_count_once() -> None:
    """At two subtasks both have the table of the first epoch; the one that comes after them has it twice."""
    one_key = [[("a", number, 0) for number in range(7)]]
    cut = Cut(shares=(3,), parallelism=(1, 2), restarts=frozenset({1, 2}), inline_threshold=0)
    check_interval_join(one_key, one_key, [-50, 50], cut)


def check_interval_join(left: list[Steps], right: list[Steps], interval: list[int], cut: Cut) -> None:
    """Runs the job, and compares its pairs with those of the model."""
    streams = [[events_of(split) for split in stream] for stream in (left, right)]

    def build(job: Job) -> None:
        first, second = (
            job.source(name, splits, DISORDER).key_by("f0")
            for name, splits in zip(("left", "right"), streams, strict=True)
        )
        joined = first.interval_join(second).between(*interval).process(Both(), output_type=EVENT)
        job.sink("out", job.keyed("join", joined))

    first, second = ([event for split in splits for event in split] for splits in streams)
    assert multiset(run(build, cut)["out"]) == multiset(pairs_of(first, second, *interval))


OUTER = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG()])
"""Key, and value and time of both; null where there is no record."""


def lonely_of(left: Sequence[Event], right: Sequence[Event], lower: int, upper: int, how: str) -> list[Any]:
    """The pairs of an outer join, and records without one with the times at which that is sure."""
    found = [(one, other) for one in left for other in right if _match(one, other, lower, upper)]
    shown = [((*one, *other[1:]), max(one[2], other[2])) for one, other in found]
    if how in ("left", "outer"):
        lonely = [one for one in left if not any(_match(one, other, lower, upper) for other in right)]
        shown += [((*one, None, None), one[2] + max(0, upper)) for one in lonely]
    if how in ("right", "outer"):
        lonely = [other for other in right if not any(_match(one, other, lower, upper) for one in left)]
        shown += [((other[0], None, None, *other[1:]), other[2] + max(0, -lower)) for other in lonely]
    return shown


def _match(left: Event, right: Event, lower: int, upper: int) -> bool:
    return left[0] == right[0] and lower <= right[2] - left[2] <= upper


class OnTime(ProcessFunction):
    """Whoever comes after a join finds none of its results late."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        assert ctx.timestamp() >= ctx.timer_service().current_watermark(), value
        yield value


@examples(
    20,
    left=a_stream,
    right=a_stream,
    interval=bounds,
    how=st.sampled_from(["left", "right", "outer"]),
    cut=cuts,
    is_batch=st.booleans(),
)
def test_outer_interval_joins(
    left: list[Steps], right: list[Steps], interval: list[int], how: str, cut: Cut, is_batch: bool
) -> None:
    """Records without a partner come once, and late for nobody; with functions and with expressions."""
    streams = [[events_of(split) for split in stream] for stream in (left, right)]

    def build(job: Job) -> None:
        first, second = (
            job.source(name, splits, DISORDER).key_by("f0")
            for name, splits in zip(("left", "right"), streams, strict=True)
        )
        joined = first.interval_join(second, how).between(*interval)
        out = job.keyed("join", joined.process(BothOrOne(), output_type=OUTER))
        job.sink("out", out.process(OnTime(), output_type=OUTER))
        fields = (left_field(field).alias(f"l{field}") for field in range(3))
        job.sink("columns", job.keyed("select", joined.select(*fields, right_field(2).alias("r2"))))

    first, second = ([event for split in splits for event in split] for splits in streams)
    found, expected = run(build, cut, is_batch=is_batch), lonely_of(first, second, *interval, how)
    assert multiset(found["out"]) == multiset(expected)
    columns = [((None if row[2] is None else row[0], row[1], row[2], row[4]), time) for row, time in expected]
    assert multiset(found["columns"]) == multiset(columns)


class BothOrOne(ProcessJoinFunction):
    """The key, and value and time of each."""

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield ((left or right)[0], *(left or NOBODY)[1:], *(right or NOBODY)[1:])


def windows_of(kind: str, events: Sequence[Event]) -> Iterator[tuple[int, int]]:
    """The windows that events of one key are in, of 10 ms, of 12 every 4, or as long as gaps of 6."""
    times = sorted(time for _, _, time in events)
    if kind != "sessions":
        size, slide = {"tumbling": (10, 10), "sliding": (12, 4)}[kind]
        found = {time - time % slide - back for time in times for back in range(0, size, slide)}
        yield from ((start, start + size) for start in found if any(start <= time < start + size for time in times))
        return
    while times:
        start = end = times[0]
        while times and times[0] <= end + 6:
            end = times.pop(0)
        yield start, end + 6


ASSIGNERS = {
    "tumbling": TumblingEventTimeWindows.of(10),
    "sliding": SlidingEventTimeWindows.of(12, 4),
    "sessions": EventTimeSessionWindows.with_gap(6),
}


Pair = tuple[Event | None, Event | None]


def joined(kind: str, how: str, lefts: Sequence[Event], rights: Sequence[Event]) -> Iterator[tuple[Pair, int]]:
    """The pairs of a join of windows with their times, in any order."""
    for key in {event[0] for event in [*lefts, *rights]}:
        of_key = [[event for event in events if event[0] == key] for events in (lefts, rights)]
        for start, end in windows_of(kind, [*of_key[0], *of_key[1]]):
            left, right = ([event for event in events if start <= event[2] < end] for events in of_key)
            lonely_left = left if not right and how in ("left", "outer") else []
            lonely_right = right if not left and how in ("right", "outer") else []
            pairs = [*((a, b) for a in left for b in right), *((a, None) for a in lonely_left)]
            yield from ((pair, end - 1) for pair in [*pairs, *((None, b) for b in lonely_right)])


def both(left: Event | None, right: Event | None) -> Event:
    """The key, and the values and times of both."""
    shown = left or right
    assert shown is not None
    values = [-1 if event is None else event[1] for event in (left, right)]
    return shown[0], 100 * values[0] + values[1], sum(0 if event is None else event[2] for event in (left, right))


@examples(
    15,
    left=a_stream,
    right=a_stream,
    kind=st.sampled_from(sorted(ASSIGNERS)),
    how=st.sampled_from(["inner", "left", "right", "outer"]),
    cut=cuts,
    is_batch=st.booleans(),
)
def test_window_joins(left: list[Steps], right: list[Steps], kind: str, how: str, cut: Cut, is_batch: bool) -> None:
    """Windows of two streams, sessions over both included."""
    streams = [[events_of(split) for split in stream] for stream in (left, right)]

    def build(job: Job) -> None:
        first, second = (
            job.source(name, splits, DISORDER) for name, splits in zip(("left", "right"), streams, strict=True)
        )
        windows = first.join(second, how).where("f0").equal_to("f0").window(ASSIGNERS[kind])
        job.sink("out", job.keyed("join", windows.apply(both, output_type=EVENT)))
        fields = (
            side(field).alias(f"{side.__name__}{field}") for side in (left_field, right_field) for field in range(3)
        )
        selected = windows.select(*fields)
        job.sink("columns", job.keyed("select", selected) if kind != "sessions" else selected)

    first, second = ([event for split in splits for event in split] for splits in streams)
    found, expected = run(build, cut, is_batch=is_batch), [*joined(kind, how, first, second)]
    assert multiset(found["out"]) == multiset([(both(*pair), time) for pair, time in expected])
    nobody = (None, None, None)
    assert multiset(found["columns"]) == multiset(
        [((*(one or nobody), *(other or nobody)), time) for (one, other), time in expected]
    )


@examples(15, split=a_split, interval=bounds, cut=cuts)
def test_a_stream_with_itself_in_batch_mode(split: Steps, interval: list[int], cut: Cut) -> None:
    events = events_of(split)

    def build(job: Job) -> None:
        keyed = job.source("events", [events], 0).key_by("f0")  # without a disorder that it allows: nothing is late
        joined = keyed.interval_join(keyed).between(*interval).process(Both(), output_type=EVENT)
        job.sink("out", job.keyed("join", joined))

    assert multiset(run(build, cut, is_batch=True)["out"]) == multiset(pairs_of(events, events, *interval))
