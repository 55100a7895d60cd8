"""A function with state and event-time timers: per key the same output, in the same order, however the job is cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from headrace.common.typeinfo import Types
from headrace.datastream.functions import KeyedProcessFunction, RuntimeContext
from headrace.datastream.state import ValueStateDescriptor
from tests.invariance.driver import Cut, Event, Job, cuts, examples, per_key, run
from tests.invariance.models import MAX, TimerModel, with_watermarks

RESULT = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])

events = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 9), st.integers(0, 40)), max_size=40)


class Alarms(KeyedProcessFunction):
    """Counts, sets timers (also for times that have passed), takes some of them back, sets timers in timers."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        timers = ctx.timer_service()
        timers.register_event_time_timer(value[2] + value[1] - 4)
        if value[1] % 3 == 0:
            timers.delete_event_time_timer(value[2] + 2)
        yield value[0], "element", count, timers.current_watermark()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        count = (self.count.value() or 0) + 100
        self.count.update(count)
        if timestamp % 4 == 0:
            ctx.timer_service().register_event_time_timer(timestamp + 3)
        yield ctx.get_current_key(), "timer", timestamp, count


def expected(split: list[Event], bound: int) -> dict[str, list[Any]]:
    model, counts = TimerModel(), dict[str, int]()
    results: dict[str, list[Any]] = defaultdict(list)

    def advance(watermark: int) -> None:
        for time, key in model.due(watermark):
            counts[key] += 100
            if time % 4 == 0:
                model.timers.add((time + 3, key))
            results[key].append((key, "timer", time, counts[key], time))

    for (key, value, time), watermark in with_watermarks(split, bound):
        advance(watermark)
        counts[key] = counts.get(key, 0) + 1
        model.timers.add((time + value - 4, key))
        if value % 3 == 0:
            model.timers.discard((time + 2, key))
        results[key].append((key, "element", counts[key], watermark, time))
    advance(MAX)
    return results


@examples(20, 600, split=events, bound=st.integers(0, 8), cut=cuts)
def test_state_and_timers(split: list[Event], bound: int, cut: Cut) -> None:
    def build(job: Job) -> None:
        keyed = job.source("events", [split], bound).key_by(lambda event: event[0])
        job.sink("out", job.keyed("alarms", keyed.process(Alarms(), RESULT)))

    assert per_key(run(build, cut)["out"]) == expected(split, bound)
