"""What PyFlink's tests of windows ask: sessions, count windows, global windows, in every form of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from headrace.common import Time, Types
from headrace.datastream import (
    AggregateFunction,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowedStream,
    WindowFunction,
)
from headrace.datastream.window import (
    CountSlidingWindowAssigner,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tests.pyflink.jobs import BY_SECOND, INT, STRING, collected, environment

PAIR = Types.TUPLE([STRING, INT])
TIMES = [1, 2, 3, 4, 8, 9, 15]
FIVE = Time.milliseconds(5)
SESSIONS = EventTimeSessionWindows.with_gap(FIVE)


def over(assigner: WindowAssigner[Any, Any], times: Iterable[int]) -> WindowedStream:
    """Pairs of one key and a time, in windows."""
    env = environment()
    env.set_parallelism(1)
    pairs = env.from_collection([("hi", time) for time in times], type_info=PAIR)
    timed = pairs.assign_timestamps_and_watermarks(BY_SECOND)
    return timed.key_by(lambda pair: pair[0], key_type=STRING).window(assigner)


class Bounds(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Any:
        window = context.window()
        return [(key, window.start, window.end, len(list(elements)))]


class Sum(WindowFunction):
    def apply(self, key: str, window: Any, inputs: Iterable[Any]) -> Any:
        return [(key, sum(element[1] for element in inputs))]


class Shown(ProcessWindowFunction):
    """Key, bounds, and the one element that was folded before."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Any:
        (folded,) = elements
        return [(key, context.window().start, context.window().end, folded)]


class Largest(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return max(accumulator, value[1])

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return max(acc_a, acc_b)


class ByTime(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return element[1]


def added(left: Any, right: Any) -> Any:
    return left[0], left[1] + right[1]


ANY = Types.PICKLED_BYTE_ARRAY()


@pytest.mark.parametrize(
    ("define", "results"),
    [
        (lambda windows: windows.process(Bounds(), ANY), [("hi", 1, 14, 6), ("hi", 15, 20, 1)]),
        (lambda windows: windows.apply(Sum(), ANY), [("hi", 27), ("hi", 15)]),
        (lambda windows: windows.reduce(added), [("hi", 27), ("hi", 15)]),
        (
            lambda windows: windows.reduce(added, Shown(), ANY),
            [("hi", 1, 14, ("hi", 27)), ("hi", 15, 20, ("hi", 15))],
        ),
        (lambda windows: windows.aggregate(Largest(), output_type=INT), [9, 15]),
        (
            lambda windows: windows.aggregate(
                Largest(), window_function=Shown(), accumulator_type=INT, output_type=ANY
            ),
            [("hi", 1, 14, 9), ("hi", 15, 20, 15)],
        ),
        (
            lambda windows: windows.trigger(PurgingTrigger.of(EventTimeTrigger.create())).process(Bounds(), ANY),
            [("hi", 1, 14, 6), ("hi", 15, 20, 1)],
        ),
    ],
    ids=["process", "apply", "reduce", "reduce and process", "aggregate", "aggregate and process", "purging"],
)
def test_sessions(define: Callable[[WindowedStream], Any], results: list[Any]) -> None:
    assert collected(define(over(SESSIONS, TIMES))) == results


def test_sessions_that_a_late_element_merges() -> None:
    windows = over(SESSIONS, [0, 8, 4]).allowed_lateness(1000).side_output_late_data(OutputTag("late", PAIR))
    results = [("hi", 0, 5, 1), ("hi", 0, 13, 3)]
    assert collected(windows.process(Bounds(), ANY)) == results


def test_sessions_with_a_gap_for_each_element() -> None:
    windows = over(EventTimeSessionWindows.with_dynamic_gap(ByTime()), [1, 2, 3, 4, 9, 9, 15])
    assert collected(windows.process(Bounds(), ANY)) == [("hi", 1, 8, 4), ("hi", 9, 30, 3)]


def test_tumbling_count_windows() -> None:
    pairs = environment().from_collection(
        [(value, "hi") for value in (1, 3, 5, 7)], type_info=Types.TUPLE([INT, STRING])
    )
    windows = pairs.key_by(lambda pair: pair[1], key_type=STRING).count_window(3)
    assert collected(windows.reduce(lambda left, right: (left[0] + right[0], left[1]))) == [(9, "hi")]


class AllBounds(ProcessAllWindowFunction):
    """The bounds, and what the elements are."""

    def process(self, context: Any, elements: Iterable[Any]) -> Any:
        return [(context.window().start, context.window().end, list(elements))]


@pytest.mark.parametrize(
    ("define", "results"),
    [
        (lambda windows: windows.reduce(added), [("hi", 10), ("hi", 22), ("hi", 15)]),
        (
            lambda windows: windows.reduce(added, AllBounds(), ANY),
            [(0, 5, [("hi", 10)]), (5, 10, [("hi", 22)]), (15, 20, [("hi", 15)])],
        ),
        (lambda windows: windows.aggregate(Largest(), output_type=INT), [4, 9, 15]),
        (
            lambda windows: windows.aggregate(Largest(), AllBounds(), INT, ANY),
            [(0, 5, [4]), (5, 10, [9]), (15, 20, [15])],
        ),
        (
            lambda windows: windows.process(AllBounds(), ANY).map(lambda row: len(row[2]), INT),
            [4, 3, 1],
        ),
    ],
    ids=["reduce", "reduce and process", "aggregate", "aggregate and process", "process"],
)
def test_windows_of_all_records(define: Callable[[Any], Any], results: list[Any]) -> None:
    pairs = environment().from_collection([("hi", time) for time in [1, 2, 3, 4, 5, 8, 9, 15]], type_info=PAIR)
    windows = pairs.assign_timestamps_and_watermarks(BY_SECOND).window_all(TumblingEventTimeWindows.of(FIVE))
    assert collected(define(windows)) == results


def test_sliding_count_windows() -> None:
    assert collected(over(CountSlidingWindowAssigner(2, 1), [1, 3, 5]).apply(Sum(), ANY)) == [("hi", 4), ("hi", 8)]


def test_a_global_window_with_a_purging_trigger() -> None:
    windows = over(GlobalWindows.create(), TIMES).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    assert collected(windows.apply(Sum(), ANY)) == [("hi", 3), ("hi", 7), ("hi", 17)]
