"""Jobs of several operators: unions, branches, two shuffles one after the other, several splits."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.datastream.aggregates import count, sum
from headrace.datastream.functions import KeyedProcessFunction, RuntimeContext
from headrace.datastream.state import MapStateDescriptor
from headrace.datastream.streams.data_stream import DataStream
from headrace.windowing.assigners import TumblingEventTimeWindows
from tests.invariance import test_rolling, test_timers
from tests.invariance.driver import EVENT, Cut, Event, Job, cuts, examples, multiset, per_key, run
from tests.invariance.models import WindowModel, with_watermarks

LATE = OutputTag("late", EVENT)

split = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 60)), max_size=25)
one_split = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 9), st.integers(0, 60)), max_size=40)

_ECHOES = MapStateDescriptor("echoes", Types.LONG(), Types.LIST(Types.LONG()))

ALL_ON_TIME = 60
"""A bound that no event is behind by more than."""


def summed(job: Job, stream: DataStream, uid: str = "windows") -> DataStream:
    windowed = stream.key_by(lambda event: event[0]).window(TumblingEventTimeWindows.of(10))
    return job.keyed(uid, windowed.side_output_late_data(LATE).aggregate(count(), sum("f1").alias("total")))


def model_of(events: list[Event]) -> list[Any]:
    """The windows when nothing is late: the order of events does not matter."""
    found = WindowModel(10, 10).run((event, -(2**63)) for event in events)
    return multiset([((k, s, e, len(v), _total(v)), e - 1) for k, s, e, v in found.on_time])


def _total(values: tuple[int, ...]) -> int:
    return builtins.sum(values)


@examples(20, 400, splits=st.lists(split, min_size=1, max_size=4), cut=cuts)
def test_several_splits(splits: list[list[Event]], cut: Cut) -> None:
    def build(job: Job) -> None:
        results = summed(job, job.source("events", splits, ALL_ON_TIME))
        job.sink("out", results)
        job.sink("late", results.get_side_output(LATE))

    outputs = run(build, cut)
    assert multiset(outputs["out"]) == model_of([event for events in splits for event in events])
    assert not outputs["late"]


@examples(20, 400, splits=st.lists(split, min_size=1, max_size=3), cut=cuts)
def test_splits_in_order_are_never_late(splits: list[list[Event]], cut: Cut) -> None:
    """Each split is in order, so with no bound at all nothing is late, however far the splits are apart."""
    splits = [sorted(events, key=lambda event: event[2]) for events in splits]

    def build(job: Job) -> None:
        results = summed(job, job.source("events", splits, 0))
        job.sink("out", results)
        job.sink("late", results.get_side_output(LATE))

    outputs = run(build, cut)
    assert multiset(outputs["out"]) == model_of([event for events in splits for event in events])
    assert not outputs["late"]


@examples(20, 400, left=split, right=split, third=split, cut=cuts)
def test_union(left: list[Event], right: list[Event], third: list[Event], cut: Cut) -> None:
    """Of two sources and of what a keyed operator makes of a third, which is one shuffle deeper."""
    left, right, third = (sorted(events, key=lambda event: event[2]) for events in (left, right, third))

    def build(job: Job) -> None:
        deeper = job.keyed("deeper", job.source("third", [third], 0).key_by("f0").process(Same(), EVENT))
        union = job.source("left", [left], 0).union(job.source("right", [right], 0).map(same, EVENT), deeper)
        results = summed(job, union)
        job.sink("out", results)
        job.sink("late", results.get_side_output(LATE))
        job.sink("union", union)

    outputs = run(build, cut)
    assert multiset(outputs["out"]) == model_of([*left, *right, *third])
    assert not outputs["late"]
    assert multiset(outputs["union"]) == multiset([(event, event[2]) for event in [*left, *right, *third]])


@examples(20, 400, events=one_split, bound=st.integers(0, 12), cut=cuts)
def test_window_behind_keyed_process(events: list[Event], bound: int, cut: Cut) -> None:
    """Two shuffles: late records stay late, and what timers emit is on time, whoever is read first."""

    def build(job: Job) -> None:
        echoed = job.source("events", [events], bound).key_by(lambda event: event[0]).process(Echo(), EVENT)
        results = summed(job, job.keyed("echo", echoed))
        job.sink("out", results)
        job.sink("late", results.get_side_output(LATE))

    outputs = run(build, cut)
    model = WindowModel(10, 10)
    on_time = []
    for event, watermark in with_watermarks(events, bound):
        model.advance(watermark)
        model.add(event, watermark)
        on_time.append((*event[:2], max(event[2], watermark) + 7))
    for key, value, time in on_time:
        model.contents[key, time - time % 10].append(1000 + value)
    windows = [((k, s, s + 10, len(v), _total(tuple(v))), s + 9) for (k, s), v in model.contents.items()]
    assert multiset(outputs["out"]) == multiset(windows)
    assert multiset(outputs["late"]) == multiset([(event, event[2]) for event in model.late])


@examples(20, 400, events=one_split, bound=st.integers(0, 8), cut=cuts)
def test_branches_of_different_parallelism(events: list[Event], bound: int, cut: Cut) -> None:
    """Three keyed operators in one stage, each with its own number of subtasks and its own state."""

    def build(job: Job) -> None:
        stream = job.source("events", [events], bound)
        keyed = stream.key_by(lambda event: event[0])
        job.sink("alarms", job.keyed("alarms", keyed.process(test_timers.Alarms(), test_timers.RESULT)))
        job.sink("rolling", job.keyed("rolling", keyed.reduce(test_rolling.combine)))
        results = summed(job, stream)
        job.sink("windows", results)
        job.sink("late", results.get_side_output(LATE))

    outputs = run(build, cut)
    assert per_key(outputs["alarms"]) == test_timers.expected(events, bound)
    assert per_key(outputs["rolling"]) == test_rolling.expected(events)
    model = WindowModel(10, 10).run(with_watermarks(events, bound))
    windows = [((k, s, e, len(v), _total(v)), e - 1) for k, s, e, v in model.on_time]
    assert multiset(outputs["windows"]) == multiset(windows)
    assert multiset(outputs["late"]) == multiset([(event, event[2]) for event in model.late])


def same(event: Event) -> Event:
    return event


class Same(KeyedProcessFunction):
    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Event]:
        yield value


class Echo(KeyedProcessFunction):
    """Every record once more from a timer, which is never in the past."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.echoes = runtime_context.get_map_state(_ECHOES)

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Event]:
        time = max(value[2], ctx.timer_service().current_watermark()) + 7
        self.echoes.put(time, [*(self.echoes.get(time) or []), value[1]])
        ctx.timer_service().register_event_time_timer(time)
        yield value

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Event]:
        for value in self.echoes.get(timestamp):
            yield ctx.get_current_key(), 1000 + value, timestamp
        self.echoes.remove(timestamp)
