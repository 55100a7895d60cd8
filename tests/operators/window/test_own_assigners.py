"""What an assigner of the user's own gives: it may be any iterable; what is no window, or would be lost, is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from headrace.common.errors import InvalidTypeError, UserFunctionError
from headrace.common.serializer import TypeSerializer
from headrace.common.typeinfo import Types
from headrace.testing import JobHarness
from headrace.windowing.assigners import WindowAssigner
from headrace.windowing.triggers import EventTimeTrigger
from headrace.windowing.windows import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
)

Assign = Callable[[int], Any]


class Own(WindowAssigner[Any, Any]):
    """Windows by a function of the timestamp."""

    def __init__(self, assign: Assign, serializer: TypeSerializer[Any] | None) -> None:
        self.assign = assign
        self.serializer: Any = serializer

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return self.assign(timestamp)

    def get_default_trigger(self, env: Any) -> EventTimeTrigger:
        return EventTimeTrigger.create()

    def get_window_serializer(self) -> TypeSerializer[Any]:
        serializer: TypeSerializer[Any] = self.serializer
        return serializer

    def is_event_time(self) -> bool:
        return True


def tens(timestamp: int) -> list[TimeWindow]:
    return [TimeWindow(timestamp - timestamp % 10, timestamp - timestamp % 10 + 10)]


def total(key: Any, window: TimeWindow, elements: Iterable[int]) -> list[tuple[int, int]]:
    return [(window.end, sum(elements))]


def results(assign: Assign, serializer: TypeSerializer[Any] | None) -> list[Any]:
    def job(harness: JobHarness) -> None:
        numbers = harness.add_source("numbers", Types.LONG()).key_by(lambda number: number % 2)
        windows = numbers.window(Own(assign, serializer))
        harness.add_sink("out", windows.apply(total, Types.TUPLE([Types.LONG(), Types.LONG()])).uid("windows"))

    with JobHarness(job) as harness:
        for number in (2, 4, 12):
            harness.push("numbers", number, number)
        harness.finish()
        return harness.results("out")


@pytest.mark.parametrize("kind", [list, tuple, set, iter], ids=["list", "tuple", "set", "iterator"])
def test_windows_come_in_any_iterable(kind: Callable[[Any], Any]) -> None:
    """An iterator can be gone through only once: its elements would be in no window."""
    assert results(lambda timestamp: kind(tens(timestamp)), TimeWindowSerializer()) == [(10, 6), (20, 12)]


class Named(TimeWindow):
    """Windows of time that a program has given a class of its own."""


def test_windows_of_a_derived_class_are_kept_as_those_of_the_serializer() -> None:
    def named(timestamp: int) -> list[TimeWindow]:
        return [Named(0, 10), Named(10, 20)]

    assert results(named, TimeWindowSerializer()) == [(10, 18), (20, 18)]


WRONG: dict[str, tuple[Assign, TypeSerializer[Any] | None, str]] = {
    "None": (lambda timestamp: None, TimeWindowSerializer(), "has to return a list of windows, not None"),
    "one": (lambda timestamp: TimeWindow(0, 10), TimeWindowSerializer(), "has to return a list of windows, not Time"),
    "a pair": (lambda timestamp: [(0, 10)], TimeWindowSerializer(), r"has to give windows, not \(0, 10\)"),
    "another": (
        lambda timestamp: [CountWindow(3)],
        TimeWindowSerializer(),
        r"does not take it \(AttributeError: .*\): ",
    ),
    "by number": (tens, CountWindowSerializer(), "the CountWindowSerializer of .* does not take it"),
    "all as one": (tens, GlobalWindowSerializer(), r"the GlobalWindowSerializer of .* makes GlobalWindow\(\) of it"),
    "beyond": (
        lambda timestamp: [TimeWindow(0, 1 << 63)],
        TimeWindowSerializer(),
        "a window from 0 to 9223372036854775808",
    ),
    "halves": (lambda timestamp: [TimeWindow(0.5, 1.5)], TimeWindowSerializer(), r"namespace is \(0.5, 1.5\)"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_would_be_lost_is_refused(wrong: str) -> None:
    assign, serializer, message = WRONG[wrong]
    with pytest.raises(UserFunctionError, match=rf"\(uid windows.*\n.*{message}"):
        results(assign, serializer)


def test_a_default_trigger_that_is_none_is_refused_while_the_job_is_built() -> None:
    class WithoutTrigger(Own):
        def get_default_trigger(self, env: Any) -> Any:
            return None

    def job(harness: JobHarness) -> None:
        numbers = harness.add_source("numbers", Types.LONG()).key_by(lambda number: number % 2)
        numbers.window(WithoutTrigger(tens, TimeWindowSerializer())).apply(total, Types.TUPLE([Types.LONG()] * 2))

    with pytest.raises(InvalidTypeError, match=r"WithoutTrigger.get_default_trigger has to return a Trigger, not None"):
        JobHarness(job)
