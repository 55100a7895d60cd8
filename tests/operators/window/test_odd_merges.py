"""What ``merge_windows`` of the user's own says that makes no sense is told with operator, assigner and line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common.errors import UserFunctionError
from headrace.common.typeinfo import Types
from headrace.testing import JobHarness
from headrace.windowing.assigners import MergingWindowAssigner
from headrace.windowing.triggers import EventTimeTrigger
from headrace.windowing.windows import CountWindow, TimeWindow, TimeWindowSerializer

if TYPE_CHECKING:
    from collections.abc import Callable


class Own(MergingWindowAssigner[int, TimeWindow]):
    """Windows of 10 from each timestamp on, merged by a function of all windows, in order, and the callback."""

    def __init__(self, merge: Callable[[list[TimeWindow], Any], None]) -> None:
        self.merge = merge

    def assign_windows(self, element: int, timestamp: int, context: Any) -> list[TimeWindow]:
        return [TimeWindow(timestamp, timestamp + 10)]

    def merge_windows(self, windows: Any, callback: Any) -> None:
        found = sorted(windows)
        if len(found) > 1:
            self.merge(found, callback)

    def get_default_trigger(self, env: Any) -> EventTimeTrigger:
        return EventTimeTrigger.create()

    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


def results(merge: Callable[[list[TimeWindow], Any], Any], timestamps: list[int]) -> list[int]:
    def job(harness: JobHarness) -> None:
        numbers = harness.add_source("numbers", Types.LONG()).key_by(lambda number: 0, key_type=Types.LONG())
        windows = numbers.window(Own(merge)).reduce(lambda a, b: a + b)
        harness.add_sink("sums", windows.uid("windows"))

    with JobHarness(job) as harness:
        for timestamp in timestamps:
            harness.push("numbers", 1, timestamp)
        harness.finish()
        return harness.results("sums")


ALL = TimeWindow(0, 99)

ODD: dict[str, tuple[Callable[[list[TimeWindow], Any], Any], str]] = {
    "unknown": (
        lambda found, callback: callback.merge([*found, TimeWindow(70, 80)], ALL),
        r"makes TimeWindow\(start=70, end=80\) become TimeWindow\(.*\), and the key has no such window",
    ),
    "of another class": (
        lambda found, callback: callback.merge([*found, None], ALL),
        "makes None become TimeWindow",
    ),
    "in two groups": (
        lambda found, callback: [callback.merge(found, ALL), callback.merge(found[:1], TimeWindow(0, 50))],
        r"makes TimeWindow\(start=0, end=10\) part of two windows",
    ),
    "two groups become one": (
        lambda found, callback: [callback.merge([window], ALL) for window in found],
        r"makes two groups of windows TimeWindow\(start=0, end=99\): it is one group",
    ),
    "others become one that is there": (
        lambda found, callback: callback.merge(found[1:], found[0]),
        r"makes other windows TimeWindow\(start=0, end=10\), which the key has",
    ),
    "no window": (lambda found, callback: callback.merge(found, "all"), "has to give windows, not 'all'"),
    "the wrong windows": (
        lambda found, callback: callback.merge(found, CountWindow(1)),
        "gives CountWindow.*the TimeWindowSerializer of .* does not take it",
    ),
}


@pytest.mark.parametrize("odd", ODD)
def test_a_merge_that_makes_no_sense_is_told(odd: str) -> None:
    merge, said = ODD[odd]
    with pytest.raises(UserFunctionError) as caught:
        results(merge, [0, 5])
    text = str(caught.value)
    assert "operator 'Window' (uid windows, subtask 0) failed" in text
    _, error, returned, record, *_ = text.splitlines()
    assert re.search(f"Own.merge_windows {said}", error), error
    assert f"returned by {__file__}:{Own.merge_windows.__code__.co_firstlineno} in merge_windows" in returned
    assert "record: 1" in record


def test_what_is_not_many_windows_is_told_at_the_line_that_says_it() -> None:
    with pytest.raises(UserFunctionError, match=r"merge takes the windows that become one, not None\n.*at .*<lambda>"):
        results(lambda found, callback: callback.merge(None, ALL), [0, 5])


def test_windows_that_no_callback_is_told_of_stay_apart() -> None:
    assert results(lambda found, callback: None, [0, 5, 5]) == [1, 2]


def test_a_window_alone_may_become_another_one() -> None:
    assert results(lambda found, callback: callback.merge(found[-1:], TimeWindow(50, 60)), [0, 5]) == [1, 1]
