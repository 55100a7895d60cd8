"""Streams that branch and come together again: each record meets what all branches had reached at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st

from headrace.common.output_tag import OutputTag
from headrace.datastream.aggregates import count, sum
from headrace.datastream.functions import KeyedProcessFunction, ProcessFunction
from headrace.datastream.streams.data_stream import DataStream
from headrace.time.watermark_strategy import WatermarkStrategy
from headrace.windowing.assigners import TumblingEventTimeWindows
from tests.invariance import test_rolling
from tests.invariance.driver import EVENT, Cut, Event, Job, cuts, examples, multiset, per_key, run
from tests.invariance.models import MIN, WindowModel, with_watermarks

LATE = OutputTag("late", EVENT)
ODD = OutputTag("odd", EVENT)

one_split = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 9), st.integers(0, 60)), max_size=40)
bounds = st.integers(0, 30)

Clock = Callable[[Event], int]


@dataclass
class Maker:
    """A watermark generator: what it has reached, and how an event moves it."""

    bound: int
    newest: int | None = None

    @property
    def watermark(self) -> int:
        return MIN if self.newest is None else self.newest - self.bound - 1

    def see(self, time: int) -> None:
        self.newest = time if self.newest is None else max(time, self.newest)


@dataclass(frozen=True)
class Branch:
    """One way from the source to the union.

    Attributes:
        bound: of its own watermarks; None when it goes by those of the source.
        clock: gives the timestamps, where it has its own watermarks.
        keeps: which events come by it.
        copies: how often each event comes by it.
        keeps_after: which of these are left behind the watermarks.
    """

    bound: int | None = None
    clock: Clock = lambda event: event[2]
    keeps: Callable[[Event], bool] = lambda event: True
    copies: int = 1
    keeps_after: Callable[[Event], bool] = lambda event: True

    def keeps_all(self, event: Event) -> bool:
        """Whether an event comes to the end of the branch."""
        return self.keeps(event) and self.keeps_after(event)

    def build(self, stream: DataStream) -> DataStream:
        stream = stream.filter(self.keeps)
        if self.copies > 1:
            stream = stream.flat_map(_Copies(self.copies), EVENT)
        if self.bound is not None:
            strategy = WatermarkStrategy.for_bounded_out_of_orderness(self.bound)
            clock = self.clock
            strategy = strategy.with_timestamp_assigner(lambda event, _: clock(event))
            stream = stream.assign_timestamps_and_watermarks(strategy)
        return stream.filter(self.keeps_after)


branches = st.builds(
    Branch,
    bound=st.none() | bounds,
    clock=st.sampled_from([lambda event: event[2], lambda event: 60 - event[2], lambda event: 7 * event[1]]),
    keeps=st.sampled_from([lambda event: True, lambda event: event[1] % 2 == 0]),
    copies=st.integers(1, 2),
    keeps_after=st.sampled_from([lambda event: True, lambda event: event[1] % 3 == 0]),
)


def model_of(events: Sequence[Event], bound: int, ways: Sequence[Branch]) -> WindowModel:
    """The windows over the union, with event time as far as the slowest branch had come before each event."""
    source = Maker(bound)
    makers = [Maker(way.bound) if way.bound is not None else source for way in ways]
    model = WindowModel(10, 10)
    for event in events:
        reached = min(maker.watermark for maker in makers)
        model.advance(reached)
        for way, maker in zip(ways, makers, strict=True):
            if not way.keeps(event):
                continue
            time = event[2] if way.bound is None else way.clock(event)
            if way.keeps_after(event):
                for _ in range(way.copies):
                    model.add((*event[:2], time), reached)
            if way.bound is not None:
                maker.see(time)
        source.see(event[2])
    model.advance(2**63 - 1)
    return model


def windows_of(model: WindowModel) -> list[Any]:
    """What fired, as the job gives it."""
    return multiset([((k, s, e, len(v), _total(v)), e - 1) for k, s, e, v in model.on_time])


def _total(values: Sequence[int]) -> int:
    total = 0
    for value in values:
        total += value
    return total


def windows(job: Job, stream: DataStream, *, is_late_wanted: bool) -> DataStream:
    """Windows that are summed up behind the shuffle, or before it as well."""
    windowed = stream.key_by(lambda event: event[0]).window(TumblingEventTimeWindows.of(10))
    if is_late_wanted:
        windowed = windowed.side_output_late_data(LATE)
    return job.keyed("windows", windowed.aggregate(count(), sum("f1").alias("total")))


@examples(
    50,
    1500,
    events=one_split,
    bound=bounds,
    ways=st.lists(branches, min_size=2, max_size=3),
    is_chained=st.booleans(),
    is_late_wanted=st.booleans(),
    cut=cuts,
)
def test_branches(
    events: list[Event], bound: int, ways: list[Branch], is_chained: bool, is_late_wanted: bool, cut: Cut
) -> None:
    """Branches with and without watermarks of their own, united before the shuffle or by it."""

    def build(job: Job) -> None:
        stream = job.source("events", [events], bound)
        first, *others = (way.build(stream) for way in ways)
        union = first.union(*others)
        results = windows(job, union.map(same, EVENT) if is_chained else union, is_late_wanted=is_late_wanted)
        job.sink("out", results)
        if is_late_wanted:
            job.sink("late", results.get_side_output(LATE))

    outputs = run(build, cut)
    model = model_of(events, bound, ways)
    assert multiset(outputs["out"]) == windows_of(model)
    if is_late_wanted:
        late = sorted((key, value, time) for key, value, time in model.late)
        assert sorted((record[0], record[1], timestamp) for record, timestamp in outputs["late"]) == late


@examples(
    20, 600, events=one_split, bound=bounds, inner=st.lists(branches, min_size=2, max_size=2), outer=branches, cut=cuts
)
def test_a_union_within_a_union(events: list[Event], bound: int, inner: list[Branch], outer: Branch, cut: Cut) -> None:
    """What comes together early comes together with a third branch later."""

    def build(job: Job) -> None:
        stream = job.source("events", [events], bound)
        early = inner[0].build(stream).union(inner[1].build(stream)).map(same, EVENT)
        job.sink("out", windows(job, early.union(outer.build(stream)), is_late_wanted=True))

    assert multiset(run(build, cut)["out"]) == windows_of(model_of(events, bound, [*inner, outer]))


@examples(
    20, 600, events=one_split, bound=bounds, again=bounds, ways=st.lists(branches, min_size=2, max_size=3), cut=cuts
)
def test_watermarks_made_of_a_union(events: list[Event], bound: int, again: int, ways: list[Branch], cut: Cut) -> None:
    """The order in which branches come together decides over these: it is that in which the records set out."""

    def build(job: Job) -> None:
        stream = job.source("events", [events], bound)
        first, *others = (way.build(stream) for way in ways)
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(again)
        union = first.union(*others).assign_timestamps_and_watermarks(strategy)
        job.sink("out", windows(job, union, is_late_wanted=True))

    maker, model = Maker(again), WindowModel(10, 10)
    for event in events:
        for way in ways:
            if way.keeps_all(event):
                time = event[2] if way.bound is None else way.clock(event)
                for _ in range(way.copies):
                    model.advance(maker.watermark)
                    model.add((*event[:2], time), maker.watermark)
                    maker.see(time)
    model.advance(2**63 - 1)
    assert multiset(run(build, cut)["out"]) == windows_of(model)


@examples(20, 600, events=one_split, bound=bounds, ways=st.lists(branches, min_size=2, max_size=3), cut=cuts)
def test_the_order_of_records(events: list[Event], bound: int, ways: list[Branch], cut: Cut) -> None:
    """A key has the records of all branches in the order in which they set out."""

    def build(job: Job) -> None:
        stream = job.source("events", [events], bound)
        first, *others = (way.build(stream) for way in ways)
        keyed = first.union(*others).key_by(lambda event: event[0])
        job.sink("out", job.keyed("reduce", keyed.reduce(test_rolling.combine)))

    copies = [event for event in events for way in ways if way.keeps_all(event) for _ in range(way.copies)]
    found = {key: [row[:3] for row in rows] for key, rows in per_key(run(build, cut)["out"]).items()}
    assert found == {key: [row[:3] for row in rows] for key, rows in test_rolling.expected(copies).items()}


@examples(20, 600, events=one_split, bound=bounds, ways=st.lists(branches, min_size=2, max_size=3), cut=cuts)
def test_branches_behind_a_shuffle(events: list[Event], bound: int, ways: list[Branch], cut: Cut) -> None:
    """One task sees all records there, in the order of the split, so the same holds."""

    def build(job: Job) -> None:
        stream = job.source("events", [events], bound).key_by("f0").process(Same(), EVENT).uid("same")
        first, *others = (way.build(stream.set_parallelism(1)) for way in ways)
        job.sink("out", windows(job, first.union(*others), is_late_wanted=True))

    assert multiset(run(build, cut)["out"]) == windows_of(model_of(events, bound, ways))


@examples(
    20,
    600,
    events=one_split,
    bound=bounds,
    united=st.sampled_from(["two operators", "two outputs", "two depths"]),
    is_chained=st.booleans(),
    cut=cuts,
)
def test_unions_behind_a_shuffle(events: list[Event], bound: int, united: str, is_chained: bool, cut: Cut) -> None:
    """What does not set out together is merged by watermark, so each record meets its own; late ones included."""

    def build(job: Job) -> None:
        stream = job.source("events", [events], bound)
        keyed = stream.key_by("f0")
        twice = job.keyed("twice", keyed.process(Twice(), EVENT))
        other = {
            "two operators": lambda: job.keyed("same", keyed.process(Same(), EVENT)),
            "two outputs": lambda: twice.get_side_output(ODD),
            "two depths": lambda: stream,
        }[united]()
        union = twice.union(other)
        job.sink("out", windows(job, union.map(same, EVENT) if is_chained else union, is_late_wanted=True))

    model = WindowModel(10, 10).run(pair for pair in with_watermarks(events, bound) for _ in range(2))
    assert multiset(run(build, cut)["out"]) == windows_of(model)


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_pieces_of_a_stream_that_meets_itself_behind_a_shuffle(pieces: int) -> None:
    """What has passed a shuffle has no pieces any more, so the late record must not come before its watermark."""
    events = [("a", 1, 0), ("a", 2, 5), ("a", 3, 30), ("a", 4, 12), ("a", 5, 31), ("a", 6, 15)]

    def build(job: Job) -> None:
        stream = job.source("events", [events], 0)
        deeper = job.keyed("same", stream.key_by("f0").process(Same(), EVENT))
        job.sink("out", windows(job, deeper.union(stream), is_late_wanted=True))

    model = WindowModel(10, 10).run(pair for pair in with_watermarks(events, 0) for _ in range(2))
    assert multiset(run(build, Cut(pieces=(pieces,)))["out"]) == windows_of(model)


@examples(20, 600, events=one_split, own=bounds, is_chained=st.booleans(), cut=cuts)
def test_a_branch_behind_a_shuffle_and_one_before_it(events: list[Event], own: int, is_chained: bool, cut: Cut) -> None:
    """Nothing is late that is on time in its own branch, whichever branch is ahead."""
    events = sorted(events, key=lambda event: event[2])

    def build(job: Job) -> None:
        stream = job.source("events", [events], 0)
        behind = job.keyed("same", stream.key_by("f0").process(Same(), EVENT))
        union = stream.union(Branch(bound=own).build(behind))
        results = windows(job, union.map(same, EVENT) if is_chained else union, is_late_wanted=True)
        job.sink("out", results)
        job.sink("late", results.get_side_output(LATE))

    outputs = run(build, cut)
    assert multiset(outputs["out"]) == windows_of(WindowModel(10, 10).run((event, MIN) for event in events * 2))
    assert not outputs["late"]


@examples(15, 400, events=one_split, bound=bounds, cut=cuts)
def test_a_stream_with_its_own_side_output(events: list[Event], bound: int, cut: Cut) -> None:
    """With a part of itself, which comes through a side output, and with all of itself once more."""

    def build(job: Job) -> None:
        stream = job.source("events", [events], bound)
        split = stream.process(Odd(), EVENT)
        union = split.union(split.get_side_output(ODD), stream).map(same, EVENT)
        job.sink("out", windows(job, union, is_late_wanted=True))

    assert multiset(run(build, cut)["out"]) == windows_of(model_of(events, bound, [Branch(), Branch()]))


@examples(15, 400, left=one_split, right=one_split, bound=bounds, cut=cuts)
def test_branches_of_a_union_of_sources(left: list[Event], right: list[Event], bound: int, cut: Cut) -> None:
    """Nothing is late, whoever is ahead."""
    left, right = (sorted(events, key=lambda event: event[2]) for events in (left, right))

    def build(job: Job) -> None:
        stream = job.source("left", [left], 0).union(job.source("right", [right], 0)).map(same, EVENT)
        own = Branch(bound=bound).build(stream)
        results = windows(job, stream.union(own).map(same, EVENT), is_late_wanted=True)
        job.sink("out", results)
        job.sink("late", results.get_side_output(LATE))

    outputs = run(build, cut)
    model = WindowModel(10, 10).run((event, MIN) for event in [*left, *right] * 2)
    assert multiset(outputs["out"]) == windows_of(model)
    assert not outputs["late"]


class _Copies:
    """Every record so many times."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __call__(self, event: Event) -> list[Event]:
        return [event] * self._number


def same(event: Event) -> Event:
    return event


class Same(KeyedProcessFunction):
    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Event]:
        yield value


class Twice(KeyedProcessFunction):
    """Every record by the main output, and once more by the side output."""

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value
        yield ODD, value


class Odd(ProcessFunction):
    """Odd values leave by the side output."""

    def process_element(self, value: Event, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield (ODD, value) if value[1] % 2 else value
