"""Which windows an element belongs to, with every assigner, by the definition of its windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Duration, Time
from headrace.common.constants import MAX_WATERMARK, NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.windowing.assigners import (
    CumulatingEventTimeWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from headrace.windowing.count_assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner, GlobalWindows
from headrace.windowing.evictors import CountEvictor
from headrace.windowing.session_assigners import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from headrace.windowing.triggers import (
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
)
from headrace.windowing.windows import CountWindow, GlobalWindow, MergeCallback, TimeWindow
from tests.draws import draws
from tests.windowing.model import Context

TIMES = st.integers(-300, 300)


def assigned(assigner: Any, timestamp: int, element: Any = None, now: int = 0) -> list[Any]:
    context = Context()
    context.now = now
    return list(assigner.assign_windows(element, timestamp, context))


@settings(max_examples=draws(200), deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.data(), TIMES)
def test_wi02_sliding_windows_are_those_that_hold_the_time(size: int, slide: int, data: Any, time: int) -> None:
    offset = data.draw(st.integers(1 - slide, slide - 1))
    all_of_them = [
        TimeWindow(start, start + size) for start in range(time, time - size, -1) if (start - offset) % slide == 0
    ]
    assert assigned(SlidingEventTimeWindows.of(size, slide, offset), time) == all_of_them
    assert assigned(SlidingProcessingTimeWindows.of(size, slide, offset), 7, now=time) == all_of_them


@settings(max_examples=draws(200), deadline=None)
@given(st.integers(1, 40), st.data(), TIMES)
def test_wi01_tumbling_windows_are_those_that_hold_the_time(size: int, data: Any, time: int) -> None:
    offset = data.draw(st.integers(1 - size, size - 1))
    start = next(start for start in range(time, time - size, -1) if (start - offset) % size == 0)
    assert assigned(TumblingEventTimeWindows.of(size, offset), time) == [TimeWindow(start, start + size)]
    assert assigned(TumblingProcessingTimeWindows.of(size, offset), 7, now=time) == [TimeWindow(start, start + size)]


@settings(max_examples=draws(200), deadline=None)
@given(st.integers(1, 10), st.integers(1, 8), st.data(), TIMES)
def test_cumulating_windows_are_the_steps_that_have_not_ended(step: int, steps: int, data: Any, time: int) -> None:
    size = step * steps
    offset = data.draw(st.integers(1 - size, size - 1))
    start = next(start for start in range(time, time - size, -1) if (start - offset) % size == 0)
    ends = [start + step * (number + 1) for number in range(steps)]
    found = assigned(CumulatingEventTimeWindows.of(size, step, offset), time)
    assert found == [TimeWindow(start, end) for end in ends if end > time]


@settings(max_examples=draws(100), deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 40))
def test_wi06_count_windows_by_the_position_of_the_element(size: int, slide: int, position: int) -> None:
    tumbling, sliding = Context(), Context()
    for _ in range(position + 1):
        one = CountTumblingWindowAssigner.of(size).assign_windows(None, 0, tumbling)
        some = CountSlidingWindowAssigner.of(size, slide).assign_windows(None, 0, sliding)
    assert one == [CountWindow(position // size)]
    holding = [number for number in range(position + 1) if number * slide <= position < number * slide + size]
    assert some == [CountWindow(number) for number in reversed(holding)]


def test_wi06_each_key_counts_for_itself() -> None:
    context = Context()
    pairs = CountTumblingWindowAssigner.of(2)
    for key, window in [("a", 0), ("b", 0), ("a", 0), ("a", 1), ("b", 0)]:
        context.key = key
        assert pairs.assign_windows(None, 0, context) == [CountWindow(window)]


def test_wi03_sessions_begin_at_the_element() -> None:
    assert assigned(EventTimeSessionWindows.with_gap(Time.milliseconds(5)), -3) == [TimeWindow(-3, 2)]
    assert assigned(ProcessingTimeSessionWindows.with_gap(Duration.of_millis(5)), -3, now=8) == [TimeWindow(8, 13)]


class Stated(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return element


@pytest.mark.parametrize("extractor", [Stated(), lambda element: element], ids=["extractor", "function"])
def test_wi04_a_gap_for_each_element(extractor: Any) -> None:
    assert assigned(EventTimeSessionWindows.with_dynamic_gap(extractor), 10, 7) == [TimeWindow(10, 17)]
    assert assigned(DynamicEventTimeSessionWindows.with_dynamic_gap(extractor), 10, 7) == [TimeWindow(10, 17)]
    assert assigned(ProcessingTimeSessionWindows.with_dynamic_gap(extractor), 0, 7, now=3) == [TimeWindow(3, 10)]
    assert assigned(DynamicProcessingTimeSessionWindows.with_dynamic_gap(extractor), 0, 7, now=3) == [TimeWindow(3, 10)]


@pytest.mark.parametrize("gap", [0, -1, None, 1.5])
def test_wi04_a_gap_is_a_whole_number_above_zero(gap: Any) -> None:
    with pytest.raises(InvalidProgramError, match=f"DynamicEventTimeSessionWindows: the gap .* gave {gap}"):
        assigned(EventTimeSessionWindows.with_dynamic_gap(Stated()), 10, gap)


class Merged(MergeCallback[TimeWindow]):
    def __init__(self) -> None:
        self.groups: list[tuple[set[TimeWindow], TimeWindow]] = []

    def merge(self, to_be_merged: Any, merge_result: TimeWindow) -> None:
        self.groups.append((set(to_be_merged), merge_result))


@settings(max_examples=draws(200), deadline=None)
@given(st.lists(st.tuples(st.integers(-30, 30), st.integers(1, 8)), max_size=12))
def test_wi03_windows_that_touch_are_merged(given: list[tuple[int, int]]) -> None:
    windows = [TimeWindow(start, start + length) for start, length in given]
    found = Merged()
    EventTimeSessionWindows.with_gap(1).merge_windows(windows, found)
    groups: list[set[TimeWindow]] = []
    for window in windows:
        touching = [group for group in groups if any(window.intersects(other) for other in group)]
        groups = [group for group in groups if group not in touching] + [set().union({window}, *touching)]
    expected = {
        (frozenset(group), TimeWindow(min(each.start for each in group), max(each.end for each in group)))
        for group in groups
        if len(group) > 1
    }
    assert {(frozenset(group), result) for group, result in found.groups} == expected
    assert len(found.groups) == len(expected)


def test_wi05_one_window_for_all() -> None:
    assert assigned(GlobalWindows.create(), NO_TIMESTAMP) == [GlobalWindow.get()]
    assert GlobalWindow.get().max_timestamp() == CountWindow(1).max_timestamp() == MAX_WATERMARK


def test_wi08_natural_windows_start_with_the_first_element_of_the_key() -> None:
    context = Context()
    windows = TumblingProcessingTimeWindows.of(10, stagger=WindowStagger.NATURAL)
    for key, now, start in [("a", 13, 13), ("b", 27, 27), ("a", 22, 13), ("a", 23, 23), ("b", 40, 37)]:
        context.key, context.now = key, now
        assert windows.assign_windows(None, 0, context) == [TimeWindow(start, start + 10)]


def test_wi08_subtasks_have_shifts_of_their_own_that_stay() -> None:
    class Subtask(Context):
        def get_index_of_this_subtask(self) -> int:
            return self.key

    def start(subtask: int) -> int:
        context = Subtask()
        context.key, context.now = subtask, 10_000
        return (
            TumblingProcessingTimeWindows.of(1000, stagger=WindowStagger.RANDOM)
            .assign_windows(None, 0, context)[0]
            .start
        )

    starts = [start(subtask) for subtask in range(8)]
    assert starts == [start(subtask) for subtask in range(8)]
    assert len({each % 1000 for each in starts}) == 8
    assert all(9_000 < each <= 10_000 for each in starts)


EVENT_TIME = [
    TumblingEventTimeWindows.of(10),
    SlidingEventTimeWindows.of(10, 5),
    CumulatingEventTimeWindows.of(10, 5),
    EventTimeSessionWindows.with_gap(5),
    EventTimeSessionWindows.with_dynamic_gap(lambda _: 5),
]
PROCESSING_TIME = [
    TumblingProcessingTimeWindows.of(10),
    SlidingProcessingTimeWindows.of(10, 5),
    ProcessingTimeSessionWindows.with_gap(5),
    ProcessingTimeSessionWindows.with_dynamic_gap(lambda _: 5),
]


@pytest.mark.parametrize("assigner", EVENT_TIME, ids=str)
def test_windows_of_event_time_refuse_what_has_no_timestamp(assigner: Any) -> None:
    assert assigner.is_event_time()
    assert assigner.get_default_trigger(None) == EventTimeTrigger.create()
    with pytest.raises(InvalidProgramError, match=r"has no timestamp.*WatermarkStrategy"):
        assigned(assigner, NO_TIMESTAMP)


@pytest.mark.parametrize("assigner", PROCESSING_TIME, ids=str)
def test_windows_of_processing_time_need_no_timestamp(assigner: Any) -> None:
    assert not assigner.is_event_time()
    assert assigner.get_default_trigger(None) == ProcessingTimeTrigger.create()
    assert assigned(assigner, NO_TIMESTAMP)


def test_other_default_triggers() -> None:
    assert GlobalWindows.create().get_default_trigger(None) == NeverTrigger()
    assert GlobalWindows.create_with_end_of_stream_trigger().get_default_trigger(None) == EndOfStreamTrigger()
    assert CountTumblingWindowAssigner.of(3).get_default_trigger(None) == CountTrigger(3)
    assert CountSlidingWindowAssigner.of(3, 2).get_default_trigger(None) == CountTrigger(3)


MISUSE = {
    "size of 0": lambda: TumblingEventTimeWindows.of(0),
    "negative size": lambda: TumblingProcessingTimeWindows.of(-1),
    "offset of the size": lambda: TumblingEventTimeWindows.of(10, 10),
    "offset below the size": lambda: TumblingProcessingTimeWindows.of(10, -10),
    "stagger": lambda: TumblingProcessingTimeWindows.of(10, 0, "RANDOM"),  # type: ignore[arg-type]
    "slide of 0": lambda: SlidingEventTimeWindows.of(10, 0),
    "offset of the slide": lambda: SlidingEventTimeWindows.of(10, 5, 5),
    "no size": lambda: SlidingProcessingTimeWindows.of(0, 5),
    "no multiple": lambda: CumulatingEventTimeWindows.of(10, 4),
    "cumulating offset": lambda: CumulatingEventTimeWindows.of(10, 5, 10),
    "no step": lambda: CumulatingEventTimeWindows.of(10, 0),
    "gap of 0": lambda: EventTimeSessionWindows.with_gap(0),
    "negative gap": lambda: ProcessingTimeSessionWindows.with_gap(Time.milliseconds(-5)),
    "no extractor": lambda: EventTimeSessionWindows.with_dynamic_gap(5),  # type: ignore[arg-type]
    "class of an extractor": lambda: EventTimeSessionWindows.with_dynamic_gap(Stated),  # type: ignore[arg-type]
    "count of a float": lambda: CountTumblingWindowAssigner.of(2.0),  # type: ignore[arg-type]
    "count of 0": lambda: CountTumblingWindowAssigner.of(0),
    "count slide of 0": lambda: CountSlidingWindowAssigner.of(2, 0),
}


@pytest.mark.parametrize("make", MISUSE.values(), ids=MISUSE)
def test_misuse_names_the_line(make: Any) -> None:
    with pytest.raises(InvalidProgramError, match=r"(?s)not .*\n  at .*test_assigners\.py:\d+ in"):
        make()


@pytest.mark.parametrize("number", [2.5, "3", None, Time.seconds(1)], ids=repr)
@pytest.mark.parametrize(
    "make",
    [
        CountTumblingWindowAssigner.of,
        lambda number: CountSlidingWindowAssigner.of(3, number),
        TumblingEventTimeWindows,
        lambda number: TumblingProcessingTimeWindows(10, number),
        lambda number: SlidingEventTimeWindows(10, number),
        lambda number: SlidingProcessingTimeWindows(10, 5, number),
        lambda number: CumulatingEventTimeWindows(10, 5, number),
        EventTimeSessionWindows,
        CountTrigger.of,
        CountEvictor.of,
    ],
)
def test_what_is_no_whole_number_is_refused(make: Any, number: Any) -> None:
    """Windows of 2.5 records were never full, so their records were lost."""
    with pytest.raises(
        InvalidTypeError, match=r"takes a whole number as \w+, not .*\n  at .*test_assigners\.py:\d+ in"
    ):
        make(number)


@pytest.mark.parametrize("gap", [0, -1, 2.5, "5", None, 2**62 + 1, np.int64(-3)], ids=repr)
def test_gaps_of_elements_that_are_none_are_refused(gap: Any) -> None:
    assigner = EventTimeSessionWindows.with_dynamic_gap(lambda _: gap)
    with pytest.raises(InvalidProgramError, match="number of milliseconds above 0"):
        assigned(assigner, 7)


def test_gaps_of_elements_may_be_of_numpy() -> None:
    (window,) = assigned(EventTimeSessionWindows.with_dynamic_gap(lambda _: np.int16(300)), 2**40)
    assert (window, type(window.end)) == (TimeWindow(2**40, 2**40 + 300), int)


def test_lengths_of_other_types() -> None:
    with pytest.raises(InvalidTypeError, match="expected a Duration"):
        TumblingEventTimeWindows.of("1 minute")  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [2**62 + 1, 2**63 - 1, 2**63])
@pytest.mark.parametrize(
    "make",
    [
        TumblingEventTimeWindows.of,
        EventTimeSessionWindows.with_gap,
        lambda length: SlidingEventTimeWindows.of(length, 10),
        lambda length: CumulatingEventTimeWindows.of(length, length),
    ],
    ids=["tumbling", "sessions", "sliding", "cumulating"],
)
def test_windows_that_would_end_beyond_the_end_of_time_are_refused(make: Any, length: int) -> None:
    """Such an end has no 64 bits: sessions computed column by column had ends below zero."""
    with pytest.raises(InvalidProgramError, match=rf"<= 2\*\*62, not {length}"):
        make(length)
