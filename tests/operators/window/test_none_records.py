"""None as a record in windows of users' functions: it is an element like any other, whatever the windows are."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common.errors import FunctionRefusedError
from headrace.common.typeinfo import Types
from headrace.common.types import Row
from headrace.datastream import AggregateFunction
from headrace.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    PurgingTrigger,
    TumblingEventTimeWindows,
)
from headrace.testing import JobHarness

if TYPE_CHECKING:
    from collections.abc import Callable

TYPES = [Types.LONG(), Types.PICKLED_BYTE_ARRAY()]
ROW = Types.ROW_NAMED(["n"], [Types.LONG()])

KINDS: dict[str, Callable[[Any], Any]] = {
    "at the end": lambda keyed: keyed.window(TumblingEventTimeWindows.of(10)),
    "early": lambda keyed: keyed.window(TumblingEventTimeWindows.of(10)).trigger(PurgingTrigger.of(CountTrigger.of(4))),
    "evictor": lambda keyed: (
        keyed.window(TumblingEventTimeWindows.of(10)).trigger(CountTrigger.of(4)).evictor(CountEvictor.of(9))
    ),
    "session": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(3)),
}


def results(kind: str, type_: Any, epochs: list[list[Any]], call: Callable[[Any], Any]) -> list[Any]:
    """What the windows show of records at the times 0, 1, ..., a list of them in each epoch."""

    def job(harness: JobHarness) -> None:
        keyed = harness.add_source("records", type_).key_by(lambda _: 0, key_type=Types.LONG())
        harness.add_sink("results", call(KINDS[kind](keyed)).uid("window"))

    times = count()
    with JobHarness(job) as harness:
        for epoch in epochs:
            for record in epoch:
                harness.push("records", record, next(times))
            harness.run_epoch()
        harness.finish()
        return harness.take("results")


def shown(key: Any, window: Any, elements: Any) -> list[str]:
    return [repr(list(elements))]


CUTS = [[[None, 1, None, 2]], [[None], [1, None], [2]]]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("epochs", CUTS, ids=["one epoch", "three"])
@pytest.mark.parametrize("kind", KINDS)
def test_none_is_an_element_of_a_window(kind: str, epochs: list[list[Any]]) -> None:
    for type_ in TYPES:
        found = results(kind, type_, epochs, lambda windows: windows.apply(shown, Types.STRING()))
        assert found == ["[None, 1, None, 2]"]


def digits(a: Any, b: Any) -> Any:
    """The digits of both, 5 for None; None for 515."""
    together = (5 if a is None else a) * 10 + (5 if b is None else b)
    return None if together == 515 else together


@pytest.mark.sampled(3)
@pytest.mark.parametrize("epochs", CUTS, ids=["one epoch", "three"])
@pytest.mark.parametrize("kind", KINDS)
def test_none_is_reduced(kind: str, epochs: list[list[Any]]) -> None:
    for type_ in TYPES:
        assert results(kind, type_, epochs, lambda windows: windows.reduce(digits)) == [52]


@pytest.mark.parametrize("kind", KINDS)
def test_a_window_that_was_reduced_to_none_shows_it(kind: str) -> None:
    assert results(kind, Types.LONG(), [[1, 2], [3, None]], lambda windows: windows.reduce(lambda a, b: None)) == [None]


@pytest.mark.parametrize("kind", KINDS)
def test_a_reduce_function_that_returns_none_is_told_where_no_record_can_be_none(kind: str) -> None:
    def forgets(a: Row, b: Row) -> Any:
        return a if a[0] > 9 else None

    line = forgets.__code__.co_firstlineno
    with pytest.raises(FunctionRefusedError, match="reduce returned None, which is no record of type") as caught:
        results(kind, ROW, [[Row(1), Row(2), Row(3), Row(4)]], lambda windows: windows.reduce(forgets))
    assert f"returned by {__file__}:{line}" in str(caught.value)


def test_a_rolling_reduce_function_that_returns_none_is_told_likewise() -> None:
    def forgets(a: Row, b: Row) -> Any:
        return a if a[0] > 9 else None

    def job(harness: JobHarness) -> None:
        harness.add_sink("results", harness.add_source("records", ROW).key_by("n").reduce(forgets).uid("reduce"))

    with JobHarness(job) as harness:
        harness.push("records", Row(1))
        harness.push("records", Row(1))
        with pytest.raises(FunctionRefusedError, match="reduce returned None, which is no record of type"):
            harness.run_epoch()


class Sum(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return None if value is None else accumulator + value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


def test_an_accumulator_of_none_is_refused_where_windows_are_looked_at_before_their_ends() -> None:
    with pytest.raises(FunctionRefusedError, match="add returned None: return the accumulator"):
        results("early", Types.LONG(), [[1, None]], lambda windows: windows.aggregate(Sum(), output_type=Types.LONG()))


class SumOfSessions(Sum):
    """Forgets the sum of two sessions that become one."""

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return None


def test_an_accumulator_of_none_is_refused_where_sessions_become_one() -> None:
    def job(harness: JobHarness) -> None:
        keyed = harness.add_source("records", Types.LONG()).key_by(lambda _: 0, key_type=Types.LONG())
        sums = KINDS["session"](keyed).aggregate(SumOfSessions(), output_type=Types.LONG())
        harness.add_sink("results", sums.uid("window"))

    with JobHarness(job) as harness:
        for time in (0, 6, 3):
            harness.push("records", 1, time)
        with pytest.raises(FunctionRefusedError, match="merge returned None: return the accumulator") as caught:
            harness.run_epoch()
    assert f"returned by {__file__}:{SumOfSessions.merge.__code__.co_firstlineno}" in str(caught.value)
