"""The window operator for every assigner, trigger and evictor: Flink's rules, however the job is cut into epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from headrace.common import Time, Types
from headrace.common.errors import InvalidProgramError, UserFunctionError
from headrace.datastream import AggregateFunction, OutputTag, ProcessWindowFunction, WindowFunction
from headrace.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from headrace.datastream.streams.windowed_stream import WindowedStream
from headrace.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from headrace.testing import JobHarness
from headrace.windowing.assigner import MergingWindowAssigner, WindowAssigner
from headrace.windowing.evictor import Evictor
from headrace.windowing.serializers import TimeWindowSerializer
from headrace.windowing.trigger import PassiveTrigger, TriggerResult
from headrace.windowing.triggers.end_of_window import EventTimeTrigger, ProcessingTimeTrigger
from headrace.windowing.windows import TimeWindow

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


# --- triggers --------------------------------------------------------------------------------------------------------


@cuts
def test_wi25_a_trigger_replaces_the_default(cut: int) -> None:
    results, _, _ = drive(TENS, lambda w: show(w.trigger(Every(2))), at(1, 2, 3, 4, 12, 5, 13), cut=cut)
    assert results == [
        ("hi", 0, 10, [1, 2], "early"),
        ("hi", 0, 10, [1, 2, 3, 4], "early"),
        ("hi", 10, 20, [12, 13], "early"),
    ]


@cuts
def test_wi17_a_purge_drops_what_was_shown_and_nothing_else(cut: int) -> None:
    trigger = Every(2, purges=True)
    results, _, _ = drive(TENS, lambda w: show(w.trigger(trigger)), at(1, 2, 3, 4, 5), cut=cut)
    assert [row[3] for row in results] == [[1, 2], [3, 4]]


@cuts
def test_wi16_timers_of_a_trigger_fire_between_records(cut: int) -> None:
    events = [*at(1, 3), 4, *at(6), 7, *at(4), 8, 30]
    results, _, _ = drive(TENS, lambda w: show(w.trigger(EveryFive())), events, cut=cut)
    assert results == [("hi", 0, 10, [1, 3, 6], "early"), ("hi", 0, 10, [1, 3, 6, 4], "on time")]


@cuts
def test_a_late_element_fires_alone_what_is_kept_for_it(cut: int) -> None:
    events = [*at(1), 15, *at(2), 17, *at(3), 19, *at(4)]
    results, late, _ = drive(
        TENS,
        lambda w: show(w.trigger(EveryFive()).allowed_lateness(10).side_output_late_data(LATE)),
        events,
        cut=cut,
    )
    assert [(values, firing) for *_, values, firing in results] == [
        ([1], "early"),
        ([1], "on time"),
        ([1, 2], "late"),
        ([1, 2, 3], "late"),
    ]
    assert late == at(4)


def test_a_trigger_has_to_answer() -> None:
    class Silent(PassiveTrigger[Any, Any]):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
            return None

    with pytest.raises(UserFunctionError, match=r"Silent\.on_element has to return a TriggerResult, not None"):
        drive(TENS, lambda w: show(w.trigger(Silent())), at(1))


@pytest.mark.parametrize("answer", [lambda elements: None, lambda elements: [element.value for element in elements]])
@pytest.mark.parametrize("method", ["evict_before", "evict_after"])
def test_an_evictor_has_to_say_what_stays(method: str, answer: Callable[[list[Any]], Any]) -> None:
    class Wrong(KeepTwo):
        pass

    setattr(Wrong, method, lambda self, elements, size, window, ctx: answer(elements))
    with pytest.raises(
        UserFunctionError, match=rf"Wrong\.{method} has to return the elements that stay, as it was given"
    ):
        drive(TENS, lambda w: show(w.evictor(Wrong())), at(1))


def test_state_of_a_trigger_is_apart_from_that_of_the_function() -> None:
    class Count(ProcessWindowFunction):
        def process(self, key: str, context: Any, elements: Any) -> Iterator[Any]:
            calls = context.window_state().get_state(ValueStateDescriptor("seen", Types.STRING()))
            calls.update((calls.value() or "") + "x")
            yield calls.value()

        def clear(self, context: Any) -> None:
            context.window_state().get_state(ValueStateDescriptor("seen", Types.STRING())).clear()

    results, _, _ = drive(TENS, lambda w: w.trigger(Every(1)).process(Count(), ANY), at(1, 2, 11, 3), cut=1)
    assert results == ["x", "xx", "x", "xxx"]


def test_a_failing_trigger_is_told_with_its_timer() -> None:
    class Broken(EventTimeTrigger):
        def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
            raise ValueError("no")

    with pytest.raises(UserFunctionError, match=r"timer: 9 in event time, of key 'hi' and TimeWindow\(start=0"):
        drive(TENS, lambda w: show(w.trigger(Broken())), at(1))


# --- contents --------------------------------------------------------------------------------------------------------

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


@cuts
@pytest.mark.parametrize("kind", CONTENTS)
def test_what_a_window_holds(kind: str, cut: int) -> None:
    define, expected = CONTENTS[kind]
    results, _, _ = drive(TENS, lambda w: define(w.trigger(Every(2))), at(1, 2, 3, 4), cut=cut)
    assert [row[3] for row in results] == [expected([1, 2]), expected([1, 2, 3, 4])]


@cuts
@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("after", [False, True])
def test_wi26_an_evictor_removes_for_good(kind: str, after: bool, cut: int) -> None:
    define, expected = CONTENTS[kind]
    evictor = KeepTwo(after=after)
    results, _, _ = drive(TENS, lambda w: define(w.trigger(Every(3)).evictor(evictor)), at(1, 2, 3, 4, 5, 6), cut=cut)
    shown = [[1, 2, 3], [2, 3, 4, 5, 6]] if after else [[2, 3], [5, 6]]
    assert [row[3] for row in results] == [expected(values) for values in shown]


@pytest.mark.parametrize(("kind", "shown"), [("process", [[]]), ("reduce", []), ("aggregate", [[[]]])])
def test_an_evictor_may_leave_nothing(kind: str, shown: list[Any]) -> None:
    results, _, _ = drive(TENS, lambda w: CONTENTS[kind][0](w.evictor(KeepNone())), at(1, 2))
    assert [row[3] for row in results] == shown


@cuts
def test_reduce_alone_and_aggregate_alone(cut: int) -> None:
    def reduce(windows: WindowedStream) -> Any:
        return windows.reduce(lambda a, b: (a[0], a[1] + b[1], b[2]))

    reduced, _, _ = drive(OwnWindows(5), reduce, at(1, 4, 20), cut=cut, reads_late=False)
    assert reduced == [("hi", 5, 4), ("hi", 20, 20)]
    aggregated, _, _ = drive(
        OwnWindows(5), lambda w: w.aggregate(Values(), output_type=ANY), at(1, 4, 20), cut=cut, reads_late=False
    )
    assert aggregated == [[1, 4], [20]]


# --- windows that merge ----------------------------------------------------------------------------------------------


@cuts
def test_wi36_sessions(cut: int) -> None:
    results, _, _ = drive(OwnWindows(5), show, at(1, 2, 3, 4, 8, 9, 15), cut=cut)
    assert results == [("hi", 1, 14, [1, 2, 3, 4, 8, 9], "on time"), ("hi", 15, 20, [15], "on time")]


@cuts
@pytest.mark.parametrize("kind", CONTENTS)
def test_wi32_a_record_makes_one_of_two_windows(kind: str, cut: int) -> None:
    """Contents of the earlier one come first; other keys are not concerned."""
    define, expected = CONTENTS[kind]
    events: list[Event] = [("a", 1, 0), ("b", 2, 8), ("a", 3, 8), ("a", 4, 4), ("a", 5, 6)]
    results, _, _ = drive(OwnWindows(5), define, events, cut=cut)
    assert sorted(row[:4] for row in results) == [
        ("a", 0, 13, expected([1, 3, 4, 5])),
        ("b", 8, 13, expected([2])),
    ]


@cuts
def test_wi38_a_late_merge(cut: int) -> None:
    events = [*at(0), 2, *at(8), 3, *at(4)]
    results, _, dropped = drive(OwnWindows(5), show, events, cut=cut)
    assert [row[:4] for row in results] == [("hi", 0, 13, [0, 8, 4])]
    assert dropped == 0


@cuts
def test_wi32_a_record_that_is_late_by_itself_is_not_when_it_joins_a_window(cut: int) -> None:
    events = [*at(10), 12, *at(6), *at(3), *at(-3)]
    results, late, _ = drive(OwnWindows(5), lambda w: show(w.side_output_late_data(LATE)), events, cut=cut)
    assert [row[:4] for row in results] == [("hi", 3, 15, [10, 6, 3])]
    assert late == at(-3)


@cuts
def test_a_window_that_is_as_large_as_a_merged_one_joins_it(cut: int) -> None:
    events: list[Event] = [("hi", 5, 0), ("hi", 6, 4), ("hi", 10, 0)]
    results, _, _ = drive(OwnWindows(), show, events, cut=cut)
    assert [row[:4] for row in results] == [("hi", 0, 10, [5, 6, 10])]


@cuts
def test_state_of_a_trigger_is_merged(cut: int) -> None:
    results, _, _ = drive(OwnWindows(5), lambda w: show(w.trigger(Every(4))), at(0, 8, 9, 4), cut=cut)
    assert [row[:4] for row in results] == [("hi", 0, 14, [0, 8, 9, 4])]


MERGING = [
    (ListStateDescriptor("own", Types.LONG()), lambda state: sorted(state.get())),
    (AggregatingStateDescriptor("own", Values(), Types.LIST(Types.LONG())), lambda state: sorted(state.get())),
]


@cuts
@pytest.mark.parametrize(("descriptor", "read"), MERGING)
def test_lists_and_accumulators_of_a_trigger_are_merged(descriptor: Any, read: Any, cut: int) -> None:
    class Collect(Every):
        def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Any) -> TriggerResult:
            state = ctx.get_partitioned_state(descriptor)
            state.add(element[1] if descriptor.kind == "list" else element)
            full = len(read(state)) == self.count
            return TriggerResult.FIRE if full else TriggerResult.CONTINUE

        def on_merge(self, window: TimeWindow, ctx: Any) -> None:
            ctx.merge_partitioned_state(descriptor)

    results, _, _ = drive(OwnWindows(5), lambda w: show(w.trigger(Collect(4))), at(0, 8, 9, 4), cut=cut)
    assert [row[3] for row in results] == [[0, 8, 9, 4]]


def test_a_trigger_that_cannot_merge_is_refused_when_the_program_is_built() -> None:
    with pytest.raises(InvalidProgramError, match="cannot be used with windows that merge"):
        drive(OwnWindows(5), lambda w: w.trigger(PassiveTrigger()), [])


def test_window_state_of_windows_that_merge_is_refused() -> None:
    class Stateful(ProcessWindowFunction):
        def process(self, key: str, context: Any, elements: Any) -> Iterator[Any]:
            yield context.window_state().get_state(ValueStateDescriptor("calls", Types.LONG())).value()

    with pytest.raises(UserFunctionError, match=r"window_state\(\) cannot be used with windows that merge"):
        drive(OwnWindows(5), lambda w: w.process(Stateful(), ANY), at(1))


def test_a_merge_into_the_past_is_refused() -> None:
    class Shrinking(OwnWindows):
        def merge_windows(self, windows: Iterable[TimeWindow], callback: Any) -> None:
            if len(found := list(windows)) > 1:
                callback.merge(found, TimeWindow(0, 1))

    with pytest.raises(UserFunctionError, match="which is over already: the watermark is 7"):
        drive(Shrinking(100), show, [*at(1), 7, *at(20)])


@pytest.mark.parametrize("kind", ["process", "reduce", "aggregate"])
def test_windows_that_merge_go_on_at_another_parallelism(kind: str) -> None:
    """Contents, timers, the trigger's state, and what has been merged into what."""
    define, expected = CONTENTS[kind]

    def job(harness: JobHarness) -> None:
        keyed = harness.add_source("events", EVENT).key_by(lambda event: event[0], key_type=Types.STRING())
        windows = keyed.window(OwnWindows(5)).trigger(FourOrEnd())
        harness.add_sink("results", define(windows).uid("windows"))

    keys = [f"k{number}" for number in range(12)]
    results, checkpoint = [], None
    for times, parallelism in (((0, 8), 1), ((4,), 3), ((6, 20), 2)):
        with JobHarness(job, parallelism=parallelism, restore=checkpoint) as harness:
            for time in times:
                for key in keys:
                    harness.push("events", (key, time, time), time)
                harness.run_epoch()
            if 20 in times:
                harness.finish()
            else:
                checkpoint = harness.checkpoint()
            results += harness.results("results")
    shown = [(0, 13, expected([0, 8, 4, 6])), (0, 13, expected([0, 8, 4, 6])), (20, 25, expected([20]))]
    assert sorted(row[:4] for row in results) == sorted((key, *window) for key in keys for window in shown)


# --- processing time -------------------------------------------------------------------------------------------------


def clocked(assigner: WindowAssigner[Any, Any], define: Define, steps: Iterable[int | Event]) -> list[Any]:
    """Results with an epoch for each step: an event, or a reading of the clock."""

    def job(harness: JobHarness) -> None:
        keyed = harness.add_source("events", EVENT).key_by(lambda event: event[0], key_type=Types.STRING())
        harness.add_sink("results", define(keyed.window(assigner)).uid("windows"))

    with JobHarness(job, processing_time=0) as harness:
        for step in steps:
            if isinstance(step, int):
                harness.set_processing_time(step)
            else:
                harness.push("events", step)
            harness.run_epoch()
        return harness.results("results")


def test_windows_of_processing_time_fire_by_the_clock() -> None:
    sessions = OwnWindows(10, is_event_time=False)
    steps: list[int | Event] = [("hi", 1, 0), 5, ("hi", 2, 0), 13, ("hi", 3, 0), 22, 23, ("hi", 4, 0), 40]
    results = clocked(sessions, show, steps)
    assert results == [("hi", 0, 23, [1, 2, 3], "on time"), ("hi", 23, 33, [4], "on time")]


def test_allowed_lateness_means_nothing_in_processing_time() -> None:
    sessions = OwnWindows(10, is_event_time=False)
    with pytest.warns(UserWarning, match="allowed_lateness has no effect"):
        results = clocked(sessions, lambda w: show(w.allowed_lateness(1000)), [("hi", 1, 0), 9, ("hi", 2, 0), 30])
    assert [row[:4] for row in results] == [("hi", 0, 10, [1]), ("hi", 9, 19, [2])]


# --- agreement with the operator for aligned windows -----------------------------------------------------------------


@cuts
@pytest.mark.parametrize("lateness", [0, 7])
@pytest.mark.parametrize("assigner", [TENS, SlidingEventTimeWindows.of(10, 4), SlidingEventTimeWindows.of(3, 5)])
def test_windows_that_fire_at_their_ends_are_the_same_in_both_operators(assigner: Any, lateness: int, cut: int) -> None:
    class SameTrigger(EventTimeTrigger):
        """Another class, so another operator."""

    class Report(WindowFunction):
        def apply(self, key: str, window: TimeWindow, inputs: Iterable[Event]) -> Iterator[Any]:
            yield key, window.start, window.end, [event[1] for event in inputs]

    events: list[Event | int] = []
    for number in range(60):
        events.append((f"k{number * 7 % 4}", number, number * 11 % 40 + number // 2))
        if number % 5 == 4:
            events.append(number // 2 + 8)

    def define(own: bool) -> Define:
        def windows(w: WindowedStream) -> Any:
            w = w.allowed_lateness(Time.milliseconds(lateness)).side_output_late_data(LATE)
            return (w.trigger(SameTrigger()) if own else w).apply(Report(), ANY)

        return windows

    assert drive(assigner, define(True), events, cut=cut) == drive(assigner, define(False), events, cut=cut)
