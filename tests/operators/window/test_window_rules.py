"""Flink's rules one by one, on both operators; the numbers are those of the list of features."""

from __future__ import annotations

from typing import Any

import pytest
from window_harness import Driver
from window_model import MAX, MIN, Record

from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.datastream import aggregates as agg
from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout
from headrace.operators.window.columnar.columnar_operator import columnar_window
from headrace.operators.window.columnar.time_windows import AlignedWindowOperator
from headrace.operators.window.general.ordered_operator import window_operator
from headrace.operators.window.general.window_operator import CalledWindows, FunctionWindowOperator
from headrace.state.keys import KeyCodec
from headrace.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from headrace.windowing.definition import WindowDefinition, WindowFunctions
from headrace.windowing.intervals import AlignedWindows
from headrace.windowing.triggers import EventTimeTrigger

STRINGS = KeyCodec.for_type(Types.STRING())
TYPE = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.DOUBLE()])
LAYOUT = ColumnarWindowLayout.of(TYPE, STRINGS, [agg.count()], ["key"])
LATE = "late"
DROPPED = "numLateRecordsDropped"


class CountElements:
    def apply(self, key: str, window: Any, elements: Any) -> list[Any]:
        from headrace.common.types import Row

        return [Row(key=key, window_start=window.start, window_end=window.end, count=len(list(elements)))]


def columnar(windows: AlignedWindows, lateness: int = 0, tag: str | None = None) -> AlignedWindowOperator:
    return columnar_window(LAYOUT, windows, lateness, tag)


def by_row(windows: AlignedWindows, lateness: int = 0, tag: str | None = None) -> FunctionWindowOperator:
    assigner = SlidingEventTimeWindows(windows.size, windows.slide, windows.offset)
    late_tag = None if tag is None else OutputTag(tag)
    definition = WindowDefinition(assigner, EventTimeTrigger(), None, lateness, late_tag)
    functions = WindowFunctions(window_function=CountElements())
    return window_operator(CalledWindows(definition, functions, TYPE, LAYOUT.output_type, {}))


@pytest.fixture(params=[columnar, by_row])
def make(request: pytest.FixtureRequest) -> Any:
    return request.param


class Run:
    """Records given as (timestamp, watermark in force), all of key ``hi`` unless it says otherwise."""

    def __init__(self, make: Any, windows: AlignedWindows, lateness: int = 0, tag: str | None = None) -> None:
        self.driver = Driver(lambda: make(windows, lateness, tag), TYPE, STRINGS)

    def feed(self, *records: tuple[int, int] | tuple[int, int, str], upto: int | None = None) -> Run:
        given = [Record(r[2] if len(r) > 2 else "hi", 1.0, r[0], r[1]) for r in records]
        self.driver.run([given], upto)
        return self

    @property
    def results(self) -> list[tuple]:
        """(key, start, end, count)."""
        return [row[2:] for row in self.driver.out.rows]

    @property
    def stamped(self) -> list[tuple]:
        """(output watermark, timestamp, end, count)."""
        return [(row[0], row[1], row[4], row[5]) for row in self.driver.out.rows]

    @property
    def dropped(self) -> int:
        return self.driver.counters.get(DROPPED, 0)


def test_wi35_sliding_windows_with_a_negative_start(make: Any) -> None:
    run = Run(make, SlidingEventTimeWindows.of(5, 2).aligned)
    run.feed(*((t, MIN) for t in (1, 2, 3, 4, 5, 8, 9, 15)), upto=MAX)
    assert run.results == [
        ("hi", -2, 3, 2),
        ("hi", 0, 5, 4),
        ("hi", 2, 7, 4),
        ("hi", 4, 9, 3),
        ("hi", 6, 11, 2),
        ("hi", 8, 13, 2),
        ("hi", 12, 17, 1),
        ("hi", 14, 19, 1),
    ]


def test_wi37_tumbling_windows_with_late_data(make: Any) -> None:
    run = Run(make, TumblingEventTimeWindows.of(5).aligned, tag=LATE)
    # The watermark is the last timestamp, in force from the next record on.
    run.feed((0, MIN), (8, 0), (4, 8), (6, 8), upto=MAX)
    assert run.results == [("hi", 0, 5, 1), ("hi", 5, 10, 2)]
    assert run.driver.out.side(LATE) == [(8, 4, "hi", 1.0)]
    assert run.dropped == 0


@pytest.mark.parametrize(
    ("size", "offset", "timestamp", "start"),
    [(5, 0, 0, 0), (5, 0, 4, 0), (5, 0, 5, 5), (5, 0, -1, -5), (5, 0, -5, -5), (5, 2, 1, -3), (5, -2, 4, 3)],
)
def test_wi01_tumbling_start_is_a_floor_mod(make: Any, size: int, offset: int, timestamp: int, start: int) -> None:
    run = Run(make, TumblingEventTimeWindows.of(size, offset).aligned).feed((timestamp, MIN), upto=MAX)
    assert run.results == [("hi", start, start + size, 1)]


@pytest.mark.parametrize(
    ("size", "slide", "offset", "timestamp", "starts"),
    [
        (10, 5, 0, 7, [0, 5]),
        (10, 5, 0, -1, [-10, -5]),
        (7, 3, 0, 6, [0, 3, 6]),
        (7, 3, 0, 8, [3, 6]),
        (7, 3, 1, 6, [1, 4]),
        (2, 5, 0, 1, [0]),
        (2, 5, 0, 2, []),
        (2, 5, 1, 2, [1]),
    ],
)
def test_wi02_sliding_starts(make: Any, size: int, slide: int, offset: int, timestamp: int, starts: list[int]) -> None:
    run = Run(make, SlidingEventTimeWindows.of(size, slide, offset).aligned).feed((timestamp, MIN), upto=MAX)
    assert [row[1] for row in run.results] == starts
    assert run.dropped == 0


def test_wi02_late_firings_come_newest_first(make: Any) -> None:
    run = Run(make, SlidingEventTimeWindows.of(6, 2).aligned, lateness=100)
    run.feed((5, 50))
    assert [row[2] for row in run.results] == [10, 8, 6]


def test_wi11_lateness_is_zero_by_default(make: Any) -> None:
    run = Run(make, TumblingEventTimeWindows.of(5).aligned).feed((1, MIN), (2, 4), upto=MAX)
    assert run.results == [("hi", 0, 5, 1)]
    assert run.dropped == 1


def test_wi18_a_window_fires_when_the_watermark_reaches_its_largest_timestamp(make: Any) -> None:
    run = Run(make, TumblingEventTimeWindows.of(5).aligned)
    run.feed((1, MIN), upto=3)
    assert run.results == []
    run.feed(upto=4)
    assert run.results == [("hi", 0, 5, 1)]


def test_wi18_a_late_element_fires_at_once_even_alone(make: Any) -> None:
    run = Run(make, TumblingEventTimeWindows.of(5).aligned, lateness=10).feed((1, 7))
    assert run.stamped == [(7, 4, 5, 1)]


def test_wi27_a_window_is_late_by_itself(make: Any) -> None:
    """At watermark 9 the window [0, 10) is over, [5, 15) is not: the element counts there, and is not late data."""
    run = Run(make, SlidingEventTimeWindows.of(10, 5).aligned, tag=LATE).feed((7, 9), upto=MAX)
    assert run.results == [("hi", 5, 15, 1)]
    assert run.driver.out.sides == {}


@pytest.mark.parametrize(("watermark", "fired"), [(8, 1), (9, 0), (10, 0)])
def test_wi28_contents_go_at_the_largest_timestamp_and_lateness(make: Any, watermark: int, fired: int) -> None:
    run = Run(make, TumblingEventTimeWindows.of(5).aligned, lateness=5).feed((0, MIN), upto=4)
    before = len(run.results)
    run.feed((1, watermark))
    assert len(run.results) - before == fired
    assert run.dropped == 1 - fired
    assert fired == 0 or run.results[-1] == ("hi", 0, 5, 2)


def test_wi28_lateness_beyond_the_end_of_time_keeps_for_ever(make: Any) -> None:
    run = Run(make, TumblingEventTimeWindows.of(5).aligned, lateness=MAX).feed((0, MIN), upto=10**15)
    run.feed((1, 10**15))
    assert [row[3] for row in run.results] == [1, 2]
    run.feed(upto=MAX)
    run.feed((1, MAX))
    assert run.dropped == 1


@pytest.mark.parametrize("tag", [None, LATE])
def test_wi29_late_for_all_windows(make: Any, tag: str | None) -> None:
    run = Run(make, SlidingEventTimeWindows.of(10, 5).aligned, lateness=2, tag=tag)
    run.feed((3, 15), (3, 16), (12, 16), upto=16)
    # [0, 10) and [-5, 5) are cleaned up at 11 and 6; 12 is in [5, 15), cleaned up at 16, and in [10, 20).
    assert run.results == []
    expected = [(15, 3, "hi", 1.0), (16, 3, "hi", 1.0)]
    assert run.driver.out.side(LATE) == (expected if tag else [])
    assert run.dropped == (0 if tag else 2)


@pytest.mark.parametrize(("timestamp", "watermark", "late"), [(3, 2, 0), (3, 3, 1), (3, 50, 1)])
def test_wi29_an_element_between_windows_is_late_only_by_itself(
    make: Any, timestamp: int, watermark: int, late: int
) -> None:
    run = Run(make, SlidingEventTimeWindows.of(2, 5).aligned).feed((timestamp, watermark), upto=MAX)
    assert run.results == []
    assert run.dropped == late


def test_wi29_lateness_counts_for_elements_between_windows(make: Any) -> None:
    run = Run(make, SlidingEventTimeWindows.of(2, 5).aligned, lateness=4).feed((3, 6), (3, 7), upto=MAX)
    assert run.dropped == 1


def test_wi30_at_the_largest_timestamp_the_window_fires_and_elements_are_late(make: Any) -> None:
    run = Run(make, TumblingEventTimeWindows.of(5).aligned).feed((0, 3), (1, 4))
    assert run.stamped == [(3, 4, 5, 1)]
    assert run.dropped == 1


def test_wi31_every_late_element_fires_the_whole_contents_again(make: Any) -> None:
    run = Run(make, TumblingEventTimeWindows.of(5).aligned, lateness=100)
    run.feed((0, MIN), (1, MIN), upto=10)
    run.feed((2, 10), (3, 11), (4, 11), (0, 11, "other"), (0, 12))
    counts = [(row[0], row[3]) for row in run.results]
    assert counts == [("hi", 2), ("hi", 3), ("hi", 4), ("hi", 5), ("other", 1), ("hi", 6)]
    assert [row[0] for row in run.stamped] == [MIN, 10, 11, 11, 11, 12]


def test_wi33_windows_of_different_keys_do_not_touch_each_other(make: Any) -> None:
    run = Run(make, TumblingEventTimeWindows.of(5).aligned).feed((0, MIN, "a"), (1, MIN, "b"), (2, MIN, "a"), upto=MAX)
    assert sorted(run.results) == [("a", 0, 5, 2), ("b", 0, 5, 1)]


def test_wi34_empty_windows_do_not_exist(make: Any) -> None:
    run = Run(make, SlidingEventTimeWindows.of(10, 5).aligned).feed((0, MIN), (100, MIN), upto=MAX)
    assert [row[1] for row in run.results] == [-5, 0, 95, 100]


def test_firings_between_records_are_stamped_with_the_watermark_before(make: Any) -> None:
    """One advance passes two windows, another one; what is emitted meets the watermark that was in force until then."""
    run = Run(make, TumblingEventTimeWindows.of(5).aligned)
    run.feed((1, MIN), (6, 2), (30, 20), (31, 40), upto=50)
    assert run.stamped == [(2, 4, 5, 1), (2, 9, 10, 1), (20, 34, 35, 1)]
    assert run.dropped == 1


def test_results_carry_the_largest_timestamp_of_their_window(make: Any) -> None:
    run = Run(make, TumblingEventTimeWindows.of(5).aligned).feed((1, MIN), (8, MIN), upto=MAX)
    assert [row[1] for row in run.stamped] == [4, 9]


def test_a_watermark_that_falls_changes_nothing(make: Any) -> None:
    run = Run(make, TumblingEventTimeWindows.of(5).aligned).feed((7, MIN), upto=6)
    driver = run.driver
    operator = driver._begin()
    operator.advance_watermark(3)
    driver._end(operator)
    run.feed(upto=9)
    assert run.results == [("hi", 5, 10, 1)]


def test_empty_batches_and_epochs(make: Any) -> None:
    run = Run(make, TumblingEventTimeWindows.of(5).aligned).feed().feed((1, MIN)).feed().feed(upto=4)
    assert run.results == [("hi", 0, 5, 1)]
