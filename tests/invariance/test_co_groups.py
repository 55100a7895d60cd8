"""Co-groups and flat joins of two streams against plain Python, however the input is cut, lost and read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

from headrace.common import Types
from headrace.datastream import CoGroupFunction, FlatJoinFunction
from tests.invariance.driver import EVENT, Cut, Event, Job, deaths, examples, multiset, run
from tests.invariance.test_joins import ASSIGNERS, DISORDER, Steps, a_stream, events_of, joined, windows_of

GROUP = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING()])
"""A key, and the values and times of both streams."""

kinds = st.sampled_from(sorted(ASSIGNERS))


class Group(CoGroupFunction):
    """All that a key and a window has of both streams."""

    def co_group(self, first: Sequence[Event], second: Sequence[Event]) -> Iterator[Any]:
        yield group_of(first, second)


def group_of(first: Sequence[Event], second: Sequence[Event]) -> tuple[str, str, str]:
    key = [*first, *second][0][0]
    left, right = (str(sorted(event[1:] for event in events)) for events in (first, second))
    return key, left, right


def groups_of(kind: str, lefts: Sequence[Event], rights: Sequence[Event]) -> Iterator[tuple[Any, int]]:
    """What the model says of each key and window, with its time."""
    for key in {event[0] for event in [*lefts, *rights]}:
        of_key = [[event for event in events if event[0] == key] for events in (lefts, rights)]
        for start, end in windows_of(kind, [*of_key[0], *of_key[1]]):
            left, right = ([event for event in events if start <= event[2] < end] for events in of_key)
            yield group_of(left, right), end - 1


@examples(15, left=a_stream, right=a_stream, kind=kinds, cut=deaths, is_batch=st.booleans())
def test_co_groups(left: list[Steps], right: list[Steps], kind: str, cut: Cut, is_batch: bool) -> None:
    """Every key and window that has a record of either stream comes once, with all of both."""
    streams = [[events_of(split) for split in stream] for stream in (left, right)]

    def build(job: Job) -> None:
        first, second = (
            job.source(name, splits, DISORDER) for name, splits in zip(("left", "right"), streams, strict=True)
        )
        windows = first.co_group(second).where("f0").equal_to("f0").window(ASSIGNERS[kind])
        job.sink("out", job.keyed("group", windows.apply(Group(), output_type=GROUP)))

    first, second = ([event for split in splits for event in split] for splits in streams)
    assert multiset(run(build, cut, is_batch=is_batch)["out"]) == multiset([*groups_of(kind, first, second)])


class Nearer(FlatJoinFunction):
    """As many records of a pair as its values are apart: none where they are equal."""

    def join(self, first: Event, second: Event) -> Iterator[Event]:
        yield from nearer(first, second)


def nearer(first: Event, second: Event) -> list[Event]:
    return [(first[0], number, first[2] - second[2]) for number in range(abs(first[1] - second[1]))]


@examples(10, left=a_stream, right=a_stream, kind=kinds, cut=deaths, is_batch=st.booleans())
def test_flat_joins(left: list[Steps], right: list[Steps], kind: str, cut: Cut, is_batch: bool) -> None:
    streams = [[events_of(split) for split in stream] for stream in (left, right)]

    def build(job: Job) -> None:
        first, second = (
            job.source(name, splits, DISORDER) for name, splits in zip(("left", "right"), streams, strict=True)
        )
        windows = first.join(second).where("f0").equal_to("f0").window(ASSIGNERS[kind])
        job.sink("out", job.keyed("join", windows.apply(Nearer(), output_type=EVENT)))

    first, second = ([event for split in splits for event in split] for splits in streams)
    expected = [
        (row, time)
        for (one, other), time in joined(kind, "inner", first, second)
        if one is not None and other is not None
        for row in nearer(one, other)
    ]
    assert multiset(run(build, cut, is_batch=is_batch)["out"]) == multiset(expected)
