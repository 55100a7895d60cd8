"""Batch mode gives of each key and window what streaming mode gives last, had the records come in the order of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import strategies as st

from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.datastream.aggregates import count, max, min, sum
from headrace.datastream.functions import KeyedProcessFunction, ProcessWindowFunction
from headrace.datastream.streams.windowed_stream import WindowedStream
from headrace.windowing.assigners import (
    CumulatingEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from headrace.windowing.count_assigners import GlobalWindows
from headrace.windowing.session_assigners import EventTimeSessionWindows
from headrace.windowing.trigger import Trigger
from headrace.windowing.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
)
from tests.invariance.driver import EVENT, WHOLE, Cut, Event, Job, Outputs, cuts, examples, multiset, run

CONTENTS = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.STRING()])
LATE = OutputTag("late", EVENT)
NO_END = 2**63 - 1

events = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 9), st.integers(-10, 40)), max_size=30)
splits = st.lists(events, min_size=1, max_size=3)

regular: st.SearchStrategy[WindowAssigner[Any, Any]] = st.sampled_from(
    [
        TumblingEventTimeWindows.of(10, 3),
        SlidingEventTimeWindows.of(10, 5),
        SlidingEventTimeWindows.of(7, 3),
        CumulatingEventTimeWindows.of(12, 4),
    ]
)
AssignerAndTrigger = tuple[WindowAssigner[Any, Any], Trigger[Any, Any] | None]
assigners: st.SearchStrategy[AssignerAndTrigger] = st.one_of(
    st.tuples(regular, st.sampled_from([None, ContinuousEventTimeTrigger.of(3)])),
    # Shown before its end a session is another window, which may still grow.
    st.just((EventTimeSessionWindows.with_gap(4), None)),
    st.just((GlobalWindows.create_with_end_of_stream_trigger(), None)),
)


class Contents(ProcessWindowFunction):
    """What a window holds, whatever the order."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[Event]
    ) -> Iterator[tuple[str, int, int, str]]:
        window = context.window()
        start, end = getattr(window, "start", 0), getattr(window, "end", NO_END)
        yield key, start, end, ",".join(map(str, sorted(element[1] for element in elements)))


def windows(
    job: Job, given: list[list[Event]], assigner: WindowAssigner[Any, Any], trigger: Trigger[Any, Any] | None
) -> WindowedStream:
    windowed = job.source("events", given, 0).key_by("f0").window(assigner)
    return windowed if trigger is None else windowed.trigger(trigger)


def in_order(given: list[list[Event]]) -> list[list[Event]]:
    return [sorted((event for split in given for event in split), key=lambda event: event[2])]


def last_of_each_window(records: list[Any]) -> list[Any]:
    """The last results of keys and windows, which are the first three fields."""
    return multiset(list({tuple(record)[:3]: (record, time) for record, time in records}.values()))


@examples(12, given=splits, assigner=regular, lateness=st.sampled_from([0, 5]), keeps_late=st.booleans(), cut=cuts)
def test_built_in_aggregates(
    given: list[list[Event]], assigner: WindowAssigner[Any, Any], lateness: int, keeps_late: bool, cut: Cut
) -> None:
    def build(job: Job, given: list[list[Event]]) -> None:
        windowed = windows(job, given, assigner, None).allowed_lateness(lateness).side_output_late_data(LATE)
        found = windowed.aggregate(count(), sum("f1").alias("total"), min("f1").alias("low"), max("f1").alias("high"))
        job.sink("out", job.keyed("windows", found))
        if keeps_late:
            job.sink("late", found.get_side_output(LATE))

    batch = run(lambda job: build(job, given), cut, is_batch=True)
    streamed = run(lambda job: build(job, in_order(given)), WHOLE)
    assert multiset(batch["out"]) == last_of_each_window(streamed["out"])
    assert batch["late"] == []


@pytest.mark.filterwarnings("ignore:allowed_lateness has no effect")  # in global windows
@examples(15, given=splits, shape=assigners, cut=cuts)
def test_functions(given: list[list[Event]], shape: AssignerAndTrigger, cut: Cut) -> None:
    def build(job: Job, given: list[list[Event]]) -> None:
        found = windows(job, given, *shape).allowed_lateness(2).process(Contents(), CONTENTS)
        job.sink("out", job.keyed("windows", found))

    batch = run(lambda job: build(job, given), cut, is_batch=True)
    streamed = run(lambda job: build(job, in_order(given)), WHOLE)
    assert multiset(batch["out"]) == last_of_each_window(streamed["out"])


class Alarms(KeyedProcessFunction):
    """Timers in both times, some of which register others."""

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> None:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + value[1])
        timers.register_event_time_timer(value[2])
        assert timers.current_watermark() == -(2**63)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[tuple[str, str]]:
        timers = ctx.timer_service()
        assert timers.current_watermark() == NO_END
        timers.register_processing_time_timer(timers.current_processing_time() + 1_000_000)
        yield ctx.get_current_key(), ctx.time_domain().name


def domains(outputs: Outputs) -> list[str]:
    return [name for (_, name), _ in outputs["out"]]


@examples(5, given=splits, cut=cuts)
def test_timers_fire_when_the_input_has_ended(given: list[list[Event]], cut: Cut) -> None:
    def build(job: Job) -> None:
        alarms = job.source("events", given, 0).key_by("f0").process(Alarms(), Types.TUPLE([Types.STRING()] * 2))
        job.sink("out", job.keyed("alarms", alarms))

    by_key: dict[str, list[str]] = {}
    for (key, domain), _ in run(build, cut, is_batch=True)["out"]:
        by_key.setdefault(key, []).append(domain)
    everything = [event for split in given for event in split]
    assert by_key.keys() == {event[0] for event in everything}
    for key, fired in by_key.items():
        times = {event[2] for event in everything if event[0] == key}
        assert fired == ["EVENT_TIME"] * len(times) + ["PROCESSING_TIME"] * (len(fired) - len(times))
        assert len(fired) > len(times)  # those that on_timer registers for event time's end are among the last


def test_a_timeout_shows_the_rest_when_the_input_has_ended() -> None:
    trigger = PurgingTrigger.of(ProcessingTimeoutTrigger.of(CountTrigger.of(2), 1_000))

    def build(job: Job) -> None:
        given = [[("a", value, 0) for value in range(5)] + [("b", 7, 0)]]
        found = windows(job, given, GlobalWindows.create(), trigger).process(Contents(), CONTENTS)
        job.sink("out", job.keyed("windows", found))

    shown = [(key, contents) for (key, _, _, contents), _ in run(build, is_batch=True)["out"]]
    assert sorted(shown) == [("a", "0,1"), ("a", "2,3"), ("a", "4"), ("b", "7")]
