"""Windows of all records, and windows of so many records, of a key or of all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from headrace.common import Row, Types
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.datastream import (
    AggregateFunction,
    AllWindowFunction,
    DataStream,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
)
from headrace.datastream.aggregates import count, sum
from headrace.datastream.state import ValueStateDescriptor
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.testing import JobHarness
from headrace.windowing.count_assigners import GlobalWindows
from headrace.windowing.triggers import CountTrigger

Event = tuple[str, int]
EVENT = Types.TUPLE([Types.STRING(), Types.LONG()])
ANY = Types.PICKLED_BYTE_ARRAY()
LATE = OutputTag("late", EVENT)
TENS = TumblingEventTimeWindows.of(10)
Define = Callable[[DataStream], DataStream]

cuts = pytest.mark.parametrize("cut", [1, 100])


def drive(define: Define, events: Iterable[Event | int], cut: int = 100, *, parallelism: int = 1) -> list[Any]:
    """Results; the second field of an event is its time, an int among the events is a watermark."""

    def job(harness: JobHarness) -> None:
        harness.add_sink("results", define(harness.add_source("events", EVENT)).uid("windows"))

    with JobHarness(job, parallelism=parallelism) as harness:
        for position, event in enumerate(events):
            if isinstance(event, int):
                harness.advance_watermark("events", event)
            else:
                harness.push("events", event, event[1])
            if position % cut == cut - 1:
                harness.run_epoch()
        harness.finish()
        return harness.results("results")


class ShowAll(ProcessAllWindowFunction):
    """Tells what it sees, and how often it was called for a window."""

    def open(self, runtime_context: Any) -> None:
        self.opened = True

    def process(self, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        assert self.opened
        calls = context.window_state().get_state(ValueStateDescriptor("calls", Types.LONG()))
        calls.update((calls.value() or 0) + 1)
        yield context.window().end, [element[1] for element in elements], calls.value()

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("calls", Types.LONG())).clear()


class ApplyAll(AllWindowFunction):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        yield window.end, [event[1] if isinstance(event, tuple) else event for event in inputs]


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Event, accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def add(a: Event, b: Event) -> Event:
    return a[0] + b[0], a[1] + b[1]


EVENTS: list[Event | int] = [("a", 1), ("b", 2), ("a", 12), ("c", 13), 11]

ALL: dict[str, tuple[Define, list[Any]]] = {
    "process": (lambda s: s.window_all(TENS).process(ShowAll(), ANY), [(10, [1, 2], 1), (20, [12, 13], 1)]),
    "apply": (lambda s: s.window_all(TENS).apply(ApplyAll(), ANY), [(10, [1, 2]), (20, [12, 13])]),
    "a function": (
        lambda s: s.window_all(TENS).apply(lambda window, inputs: [(window.end, len(list(inputs)))], ANY),
        [(10, 2), (20, 2)],
    ),
    "reduce": (lambda s: s.window_all(TENS).reduce(add), [("ab", 3), ("ac", 25)]),
    "reduce and apply": (lambda s: s.window_all(TENS).reduce(add, ApplyAll(), ANY), [(10, [3]), (20, [25])]),
    "aggregate": (lambda s: s.window_all(TENS).aggregate(Total(), output_type=ANY), [3, 25]),
    "aggregate and apply": (
        lambda s: s.window_all(TENS).aggregate(Total(), ApplyAll(), Types.LONG(), ANY),
        [(10, [3]), (20, [25])],
    ),
    "keys do not count": (
        lambda s: s.key_by(lambda event: event[0]).window_all(TENS).reduce(add),
        [("ab", 3), ("ac", 25)],
    ),
    "built-in aggregates": (
        lambda s: s.window_all(TENS).aggregate(count(), sum("f1").alias("total")),
        [
            Row(window_start=0, window_end=10, count=2, total=3),
            Row(window_start=10, window_end=20, count=2, total=25),
        ],
    ),
    "built-in aggregates of a count": (
        lambda s: s.count_window_all(3).aggregate(count(), sum("f1").alias("total")),
        [Row(window_id=0, count=3, total=15)],
    ),
    "built-in aggregates at the end": (
        lambda s: s.window_all(GlobalWindows.create_with_end_of_stream_trigger()).aggregate(count(), sum("f1")),
        [Row(count=4, sum_f1=28)],
    ),
    "a trigger": (
        lambda s: s.window_all(TENS).trigger(CountTrigger.of(1)).process(ShowAll(), ANY),
        [(10, [1], 1), (10, [1, 2], 2), (20, [12], 1), (20, [12, 13], 2)],
    ),
}


@pytest.mark.sampled(6)
@cuts
@pytest.mark.parametrize("kind", ALL)
def test_ds23_windows_of_all_records(kind: str, cut: int) -> None:
    define, expected = ALL[kind]
    assert drive(define, EVENTS, cut, parallelism=2) == expected


def test_late_records_of_all() -> None:
    def define(stream: DataStream) -> DataStream:
        windows = stream.window_all(TENS).allowed_lateness(5).side_output_late_data(LATE)
        return windows.reduce(add).get_side_output(LATE).map(lambda event: event, EVENT)

    assert drive(define, [("a", 1), 12, ("late but allowed", 2), 14, ("late", 3)]) == [("late", 3)]


def test_what_windows_of_all_records_refuse() -> None:
    windows: list[Any] = []

    def job(harness: JobHarness) -> None:
        stream = harness.add_source("events", EVENT)
        windows.append(stream.window_all(TENS))
        with pytest.raises(InvalidTypeError, match="window_function is an AllWindowFunction or a ProcessAllWindow"):
            windows[0].reduce(add, ProcessWindowFunction)
        with pytest.raises(InvalidTypeError, match="window takes TumblingEventTimeWindows"):
            stream.window_all(10)  # type: ignore[arg-type]
        harness.add_sink("results", stream)

    with JobHarness(job):
        assert windows[0].get_input_type() == EVENT


# --- windows of so many records --------------------------------------------------------------------------------------

HI: list[Event | int] = [("hi", value) for value in (1, 2, 3, 4, 5, 6, 7)]


class Values(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Iterable[Event]) -> Iterator[Any]:
        yield [event[1] for event in elements]


def by_key(stream: DataStream) -> Any:
    return stream.key_by(lambda event: event[0], key_type=Types.STRING())


COUNTS: dict[str, tuple[Define, list[Any]]] = {
    "tumbling": (lambda s: by_key(s).count_window(3).process(Values(), ANY), [[1, 2, 3], [4, 5, 6]]),
    "sliding": (
        lambda s: by_key(s).count_window(3, 2).process(Values(), ANY),
        [[1, 2, 3], [3, 4, 5], [5, 6, 7]],
    ),
    "with gaps": (lambda s: by_key(s).count_window(2, 3).process(Values(), ANY), [[1, 2], [4, 5]]),
    "trailing": (
        lambda s: by_key(s).trailing_count_window(3, 2).process(Values(), ANY),
        [[1, 2], [2, 3, 4], [4, 5, 6]],
    ),
    "of all": (
        lambda s: s.count_window_all(2).apply(lambda _, inputs: [[event[1] for event in inputs]], ANY),
        [[1, 2], [3, 4], [5, 6]],
    ),
    "of all, sliding": (lambda s: s.count_window_all(2, 1).reduce(add).map(lambda e: e[1], ANY), [3, 5, 7, 9, 11, 13]),
}


@pytest.mark.sampled(4)
@cuts
@pytest.mark.parametrize("kind", COUNTS)
def test_wi13_windows_of_so_many_records(kind: str, cut: int) -> None:
    define, expected = COUNTS[kind]
    assert drive(define, HI, cut) == expected


@cuts
def test_wi13_the_example_of_pyflink(cut: int) -> None:
    events: list[Event | int] = [("hi", value) for value in (1, 3, 5)]
    results = drive(lambda s: by_key(s).count_window(2, 1).reduce(add).map(lambda event: event[1], ANY), events, cut)
    assert results == [4, 8]


def test_windows_of_different_keys_are_full_by_themselves() -> None:
    events: list[Event | int] = [("a", 1), ("b", 2), ("a", 3), ("b", 4), ("b", 5)]
    results = drive(lambda s: by_key(s).count_window(2).process(Values(), ANY), events, parallelism=2)
    assert sorted(results) == [[1, 3], [2, 4]]


@pytest.mark.parametrize(("size", "slide"), [(0, 0), (-1, 0), (2, -1)])
def test_numbers_that_are_not_positive_are_refused(size: int, slide: int) -> None:
    with pytest.raises(InvalidProgramError, match="> 0"):
        drive(lambda s: by_key(s).count_window(size, slide).reduce(add), [])


@cuts
def test_wi05_global_windows_fire_by_their_trigger(cut: int) -> None:
    with pytest.warns(UserWarning, match=r"GlobalWindows show nothing by themselves: say when"):
        never = drive(lambda s: by_key(s).window(GlobalWindows.create()).reduce(add), HI, cut)
    assert never == []
    at_the_end = GlobalWindows.create_with_end_of_stream_trigger()
    assert drive(lambda s: by_key(s).window(at_the_end).reduce(add).map(lambda e: e[1], ANY), HI, cut) == [28]
