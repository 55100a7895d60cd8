"""Known answers of Flink's windows, which the model gives: what it says is then asked of operators."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.common.constants import MAX_WATERMARK
from headrace.windowing.assigners import CumulatingEventTimeWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from headrace.windowing.count_assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner, GlobalWindows
from headrace.windowing.evictors import CountEvictor
from headrace.windowing.session_assigners import EventTimeSessionWindows
from headrace.windowing.triggers import CountTrigger, PurgingTrigger
from headrace.windowing.windows import TimeWindow
from tests.windowing.model import LateMergeError, WindowModel

MINUTE = 60_000


def counted(model: WindowModel) -> list[tuple[int, int, int]]:
    return [(each.window.start, each.window.end, len(each.values)) for each in model.fired]  # type: ignore[attr-defined]


def summed(model: WindowModel, unit: int = MINUTE) -> list[tuple[int, int, float]]:
    """Start, end and sum of each window that was fired."""
    return [
        (each.window.start // unit, each.window.end // unit, sum(each.values))  # type: ignore[attr-defined]
        for each in model.fired
    ]


def over(assigner: Any, timestamps: list[int], **options: Any) -> WindowModel:
    """All elements on time, then the end."""
    model = WindowModel(assigner, **options)
    for timestamp in timestamps:
        model.element("hi", 1, timestamp)
    model.advance_watermark(MAX_WATERMARK)
    return model


def each_at_its_time(assigner: Any, timestamps: list[int]) -> WindowModel:
    """The watermark follows every element."""
    model = WindowModel(assigner)
    for timestamp in timestamps:
        model.element("hi", timestamp, timestamp)
        model.advance_watermark(timestamp)
    model.advance_watermark(MAX_WATERMARK)
    return model


def test_wi35_sliding() -> None:
    assert counted(over(SlidingEventTimeWindows.of(5, 2), [1, 2, 3, 4, 5, 8, 9, 15])) == [
        *((-2, 3, 2), (0, 5, 4), (2, 7, 4), (4, 9, 3), (6, 11, 2), (8, 13, 2), (12, 17, 1), (14, 19, 1))
    ]


def test_wi36_sessions() -> None:
    assert counted(over(EventTimeSessionWindows.with_gap(5), [1, 2, 3, 4, 8, 9, 15])) == [(1, 14, 6), (15, 20, 1)]


def test_wi37_tumbling_with_late_data() -> None:
    model = each_at_its_time(TumblingEventTimeWindows.of(5), [0, 8, 4, 6])
    assert counted(model) == [(0, 5, 1), (5, 10, 2)]
    assert model.late == [4]


def test_wi38_a_late_merge_of_sessions() -> None:
    model = WindowModel(EventTimeSessionWindows.with_gap(5))
    for timestamp in (0, 8, 4):
        model.element("hi", timestamp, timestamp)
    model.advance_watermark(MAX_WATERMARK)
    assert counted(model) == [(0, 13, 3)]


BIDS = [(5, 4.0), (7, 2.0), (9, 5.0), (11, 3.0), (13, 1.0), (17, 6.0)]


@pytest.mark.parametrize(
    ("assigner", "sums"),
    [
        (TumblingEventTimeWindows.of(10 * MINUTE), [(0, 10, 11), (10, 20, 10)]),
        (
            SlidingEventTimeWindows.of(10 * MINUTE, 5 * MINUTE),
            [(0, 10, 11), (5, 15, 15), (10, 20, 10), (15, 25, 6)],
        ),
        (
            CumulatingEventTimeWindows.of(10 * MINUTE, 2 * MINUTE),
            [(0, 6, 4), (0, 8, 6), (0, 10, 11), (10, 12, 3), (10, 14, 4), (10, 16, 4), (10, 18, 10), (10, 20, 10)],
        ),
    ],
    ids=str,
)
def test_bids(assigner: Any, sums: list[Any]) -> None:
    model = WindowModel(assigner)
    for minute, price in BIDS:
        model.element("all", price, minute * MINUTE)
    model.advance_watermark(MAX_WATERMARK)
    assert summed(model) == sums


def test_bids_in_sessions() -> None:
    model = WindowModel(EventTimeSessionWindows.with_gap(5 * MINUTE))
    for item, minute, price in [("A", 7, 2), ("A", 6, 4), ("B", 9, 5), ("A", 8, 3), ("B", 17, 1)]:
        model.element(item, price, minute * MINUTE)
    model.advance_watermark(MAX_WATERMARK)
    assert summed(model) == [(6, 13, 9), (9, 14, 5), (17, 22, 1)]


def test_sessions_that_touch_are_one() -> None:
    model = WindowModel(EventTimeSessionWindows.with_gap(30 * MINUTE))
    for key, minute in [(1, 190), (3, 190), (2, 190), (1, 220), (1, 260), (2, 210)]:
        model.element(key, 1, minute * MINUTE)
    model.advance_watermark(MAX_WATERMARK)
    found = [(each.key, *rest) for each, rest in zip(model.fired, summed(model), strict=True)]
    assert sorted(found) == [(1, 190, 250, 2), (1, 260, 290, 1), (2, 190, 240, 2), (3, 190, 220, 1)]


def test_wi13_count_windows_of_pyflink() -> None:
    model = WindowModel(CountSlidingWindowAssigner.of(2, 1))
    for value in (1, 3, 5):
        model.element("hi", value, 0)
    assert [sum(each.values) for each in model.fired] == [4, 8]
    model = WindowModel(CountTumblingWindowAssigner.of(3))
    for value in range(7):
        model.element("hi", value, 0)
    assert [each.values for each in model.fired] == [(0, 1, 2), (3, 4, 5)]


def test_wi13_count_windows_of_java() -> None:
    sliding = WindowModel(GlobalWindows.create(), CountTrigger.of(2), CountEvictor.of(3))
    tumbling = WindowModel(GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(3)))
    for value in range(7):
        sliding.element("hi", value, 0)
        tumbling.element("hi", value, 0)
    assert [each.values for each in sliding.fired] == [(0, 1), (1, 2, 3), (3, 4, 5)]
    assert [each.values for each in tumbling.fired] == [(0, 1, 2), (3, 4, 5)]


def test_wi32_a_merge_into_what_is_late_is_an_error() -> None:
    class Shrinking(EventTimeSessionWindows):
        """Merges into a window that ends before those it is made of."""

        def merge_windows(self, windows: Any, callback: Any) -> None:
            merged = sorted(set(windows))
            if len(merged) > 1:
                callback.merge(merged, TimeWindow(merged[0].start, merged[0].start + 1))

    model = WindowModel(Shrinking(10))
    model.element("hi", 1, 5)
    model.advance_watermark(8)
    with pytest.raises(LateMergeError):
        model.element("hi", 1, 9)


def test_wi32_a_late_element_may_belong_to_a_session_that_is_still_open() -> None:
    model = WindowModel(EventTimeSessionWindows.with_gap(10))
    model.element("hi", "a", 10)
    model.advance_watermark(15)
    model.element("hi", "b", 2)  # alone its session would have ended at 12
    model.element("hi", "c", -20)
    model.advance_watermark(MAX_WATERMARK)
    assert [(each.window, each.values) for each in model.fired] == [(TimeWindow(2, 20), ("a", "b"))]
    assert model.late == ["c"]
    assert model.cleared == [("hi", TimeWindow(2, 20))]


def test_wi32_a_session_within_one_that_is_there_changes_nothing() -> None:
    gaps = {"a": 5, "b": 5, "whole": 13, "inner": 2}
    model = WindowModel(EventTimeSessionWindows.with_dynamic_gap(gaps.__getitem__))
    for value, timestamp in [("a", 0), ("b", 4), ("whole", 0), ("inner", 6)]:
        model.element("hi", value, timestamp)
    model.advance_watermark(MAX_WATERMARK)
    assert [(each.window, each.values) for each in model.fired] == [(TimeWindow(0, 13), ("a", "b", "whole", "inner"))]
