"""Rolling folds: per key the same values in the same order; in batch mode the last one of each key."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from typing import Any

from hypothesis import strategies as st

from tests.invariance.driver import Cut, Event, Job, cuts, examples, multiset, per_key, run

events = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-9, 9), st.integers(0, 40)), max_size=40)


def combine(one: Event, other: Event) -> Event:
    """Not commutative."""
    return one[0], (3 * one[1] + other[1]) % 1000, other[2]


def expected(split: list[Event]) -> dict[str, list[Any]]:
    results: dict[str, list[Any]] = defaultdict(list)
    for event in split:
        earlier = results[event[0]]
        folded = combine(earlier[-1][:3], event) if earlier else event
        earlier.append((*folded, event[2]))
    return results


@examples(10, 300, split=events, cut=cuts)
def test_reduce(split: list[Event], cut: Cut) -> None:
    def build(job: Job) -> None:
        keyed = job.source("events", [split], 3).key_by(lambda event: event[0])
        job.sink("out", job.keyed("reduce", keyed.reduce(combine)))

    assert per_key(run(build, cut)["out"]) == expected(split)


def in_digits(one: int | None, other: int | None) -> int | None:
    """Not commutative; None often becomes, and comes of, a number."""
    together = (5 if one is None else one) * 3 + (2 if other is None else other)
    return None if together % 3 == 1 else together % 1000


@examples(10, 300, split=st.lists(st.none() | st.integers(0, 9), max_size=30), cut=cuts, is_batch=st.booleans())
def test_none_is_reduced_like_any_other_record(split: list[int | None], cut: Cut, is_batch: bool) -> None:
    def build(job: Job) -> None:
        records = [(key, number, time) for time, number in enumerate(split) for key in "ab"]
        values = job.source("events", [records], 3).map(lambda event: event[1])
        job.sink("out", job.keyed("reduce", values.key_by(lambda _: 0).reduce(in_digits)))

    results = list(accumulate((number for number in split for _ in "ab"), in_digits))
    found = [value for value, _ in run(build, cut, is_batch=is_batch)["out"]]
    assert found == (results[-1:] if is_batch else results)


@examples(10, 300, split=events, cut=cuts)
def test_reduce_in_batch_mode(split: list[Event], cut: Cut) -> None:
    def build(job: Job) -> None:
        keyed = job.source("events", [split], 3).key_by(lambda event: event[0])
        job.sink("out", job.keyed("reduce", keyed.reduce(combine)))

    last = [(values[-1][:3], values[-1][3]) for values in expected(split).values()]
    assert multiset(run(build, cut, is_batch=True)["out"]) == multiset(last)


@examples(20, split=events, cut=cuts, aggregation=st.sampled_from(["sum", "min", "max", "min_by", "max_by"]))
def test_built_in_aggregates(split: list[Event], cut: Cut, aggregation: str) -> None:
    def build(job: Job) -> None:
        keyed = job.source("events", [split], 3).key_by("f0")
        job.sink("out", job.keyed("rolling", getattr(keyed, aggregation)("f1")))

    folds: dict[str, Any] = {
        "sum": lambda held, event: (held[0], held[1] + event[1], held[2]),
        "min": lambda held, event: (held[0], min(held[1], event[1]), held[2]),
        "max": lambda held, event: (held[0], max(held[1], event[1]), held[2]),
        "min_by": lambda held, event: event if event[1] < held[1] else held,
        "max_by": lambda held, event: event if event[1] > held[1] else held,
    }
    held: dict[str, Event] = {}
    results: dict[str, list[Any]] = defaultdict(list)
    for event in split:
        held[event[0]] = folds[aggregation](held[event[0]], event) if event[0] in held else event
        results[event[0]].append((*held[event[0]], event[2]))
    assert per_key(run(build, cut)["out"]) == results
