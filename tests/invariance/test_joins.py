"""Joins of two streams against all pairs in plain Python, however the input is cut, lost and read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

from headrace.datastream import ProcessJoinFunction
from tests.invariance.driver import EVENT, Cut, Event, Job, cuts, examples, multiset, run

DISORDER = 20

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


@examples(30, left=a_stream, right=a_stream, interval=bounds, cut=cuts)
def test_interval_joins(left: list[Steps], right: list[Steps], interval: list[int], cut: Cut) -> None:
    """Two sources of several splits."""
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


@examples(15, split=a_split, interval=bounds, cut=cuts)
def test_a_stream_with_itself_in_batch_mode(split: Steps, interval: list[int], cut: Cut) -> None:
    events = events_of(split)

    def build(job: Job) -> None:
        keyed = job.source("events", [events], 0).key_by("f0")  # without a disorder that it allows: nothing is late
        joined = keyed.interval_join(keyed).between(*interval).process(Both(), output_type=EVENT)
        job.sink("out", job.keyed("join", joined))

    assert multiset(run(build, cut, is_batch=True)["out"]) == multiset(pairs_of(events, events, *interval))
