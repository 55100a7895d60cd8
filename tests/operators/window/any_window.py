"""Windows, triggers, evictors and functions of one's own, and a job that runs them, to test the general operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from headrace.common import Types
from headrace.datastream import AggregateFunction, OutputTag, ProcessWindowFunction
from headrace.datastream.state import ReducingStateDescriptor
from headrace.datastream.streams.windowed_stream import WindowedStream
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.testing import JobHarness
from headrace.windowing.assigners import MergingWindowAssigner, WindowAssigner
from headrace.windowing.evictors import Evictor
from headrace.windowing.trigger import PassiveTrigger, TriggerResult
from headrace.windowing.triggers import EventTimeTrigger, ProcessingTimeTrigger
from headrace.windowing.windows import TimeWindow, TimeWindowSerializer

Event = tuple[str, int, int]
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
ANY = Types.PICKLED_BYTE_ARRAY()
LATE = OutputTag("late", EVENT)
TENS = TumblingEventTimeWindows.of(10)


class OwnWindows(MergingWindowAssigner[Event, TimeWindow]):
    """Sessions whose gap an element says in its second field, or the assigner."""

    def __init__(self, gap: int | None = None, *, is_event_time: bool = True) -> None:
        self.gap = gap
        self.event_time = is_event_time

    def assign_windows(
        self, element: Event, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        start = timestamp if self.event_time else context.get_current_processing_time()
        return [TimeWindow(start, start + (element[1] if self.gap is None else self.gap))]

    def merge_windows(self, windows: Iterable[TimeWindow], callback: Any) -> None:
        TimeWindow.merge_windows(windows, callback)

    def get_default_trigger(self, env: Any) -> Any:
        return EventTimeTrigger.create() if self.event_time else ProcessingTimeTrigger.create()

    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return self.event_time


class Every(PassiveTrigger[Any, TimeWindow]):
    """Fires for every so many elements of a window, and remembers how many there were."""

    def __init__(self, count: int, *, purges: bool = False) -> None:
        self.count = count
        self.result = TriggerResult.FIRE_AND_PURGE if purges else TriggerResult.FIRE
        self.seen = ReducingStateDescriptor("seen", lambda a, b: a + b, Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        seen = ctx.get_partitioned_state(self.seen)
        seen.add(1)
        if seen.get() < self.count:
            return TriggerResult.CONTINUE
        seen.clear()
        return self.result

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Any) -> None:
        ctx.merge_partitioned_state(self.seen)

    def clear(self, window: TimeWindow, ctx: Any) -> None:
        ctx.get_partitioned_state(self.seen).clear()


class FourOrEnd(Every):
    """Fires for four elements, and at the end of the window."""

    def __init__(self) -> None:
        super().__init__(4)

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        ctx.register_event_time_timer(window.max_timestamp())
        return super().on_element(element, timestamp, window, ctx)

    def on_event_time(self, time: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def clear(self, window: TimeWindow, ctx: Any) -> None:
        super().clear(window, ctx)
        ctx.delete_event_time_timer(window.max_timestamp())


class EveryFive(EventTimeTrigger):
    """Fires every five milliseconds of event time, and at the end."""

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        next_five = timestamp - timestamp % 5 + 5
        if ctx.get_current_watermark() < next_five < window.max_timestamp():
            ctx.register_event_time_timer(next_five)
        return super().on_element(element, timestamp, window, ctx)

    def on_event_time(self, time: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        is_cleanup = time > window.max_timestamp()
        return TriggerResult.CONTINUE if is_cleanup else TriggerResult.FIRE


class KeepTwo(Evictor[Event, TimeWindow]):
    """Leaves two elements, before or after the function is called."""

    def __init__(self, *, after: bool = False) -> None:
        self.after = after

    def evict_before(self, elements: list[Any], size: int, window: TimeWindow, ctx: Any) -> list[Any]:
        assert size == len(elements)
        return elements if self.after else elements[-2:]

    def evict_after(self, elements: list[Any], size: int, window: TimeWindow, ctx: Any) -> list[Any]:
        assert size == len(elements)
        return elements[-2:] if self.after else elements


class KeepNone(KeepTwo):
    """Leaves nothing."""

    def evict_before(self, elements: list[Any], size: int, window: TimeWindow, ctx: Any) -> list[Any]:
        return []


class Show(ProcessWindowFunction[Any, Any, str, TimeWindow]):
    """Tells what it sees."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        window = context.window()
        values = [element[1] if isinstance(element, tuple) else element for element in elements]
        yield key, window.start, window.end, values, context.firing().value


class Values(AggregateFunction):
    """The values in a list that is changed in place."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Event, accumulator: list[int]) -> list[int]:
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        acc_a.extend(acc_b)
        return acc_a


Define = Callable[[WindowedStream], Any]


def drive(
    assigner: WindowAssigner[Any, Any],
    define: Define,
    events: Iterable[Event | int],
    *,
    cut: int = 100,
    reads_late: bool = True,
) -> tuple[list[Any], list[Any], int]:
    """Results, late events and dropped ones; an int among the events is a watermark; ``cut`` pushes make an epoch."""

    def job(harness: JobHarness) -> None:
        keyed = harness.add_source("events", EVENT).key_by(lambda event: event[0], key_type=Types.STRING())
        results = define(keyed.window(assigner))
        harness.add_sink("results", results.uid("windows"))
        harness.add_sink(
            "late", (results.get_side_output(LATE) if reads_late else results).filter(lambda _: reads_late)
        )

    with JobHarness(job) as harness:
        for position, event in enumerate(events):
            if isinstance(event, int):
                harness.advance_watermark("events", event)
            else:
                harness.push("events", event, event[2])
            if position % cut == cut - 1:
                harness.run_epoch()
        harness.finish()
        dropped = harness.counters().get("numLateRecordsDropped", 0)
        return harness.results("results"), harness.results("late"), dropped


def show(windows: WindowedStream) -> Any:
    return windows.process(Show(), ANY)


cuts = pytest.mark.parametrize("cut", [1, 100])


def at(*times: int) -> list[Event]:
    """An event of one key at each time, with the time as its value."""
    return [("hi", time, time) for time in times]


CONTENTS: dict[str, tuple[Define, Any]] = {
    "process": (show, lambda values: values),
    "apply": (
        lambda w: w.apply(
            lambda key, window, inputs: [(key, window.start, window.end, [event[1] for event in inputs], "")],
            ANY,
        ),
        lambda values: values,
    ),
    "reduce": (
        lambda w: w.reduce(lambda a, b: (a[0], a[1] + b[1], 0), Show(), ANY),
        lambda values: [sum(values)],
    ),
    "aggregate": (lambda w: w.aggregate(Values(), Show(), Types.LIST(Types.LONG()), ANY), lambda values: [values]),
    "aggregate, pickled": (lambda w: w.aggregate(Values(), Show(), output_type=ANY), lambda values: [values]),
}
