"""Which elements evictors keep."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import InvalidProgramError
from headrace.windowing.evictors import CountEvictor, DeltaEvictor, OneSidedEvictor, TimeEvictor, TimestampedValue
from headrace.windowing.windows import TimeWindow
from tests.draws import draws
from tests.windowing.model import Context

WINDOW = TimeWindow(0, 100)
ELEMENTS = st.lists(st.builds(TimestampedValue, st.integers(-20, 20), st.integers(-50, 50)), max_size=12)


def distance(element: float, last: float) -> float:
    return abs(element - last)


EVICTORS: dict[str, tuple[OneSidedEvictor[Any], Any]] = {
    "count": (CountEvictor.of(3), lambda each, all_, at: at >= len(all_) - 3),
    "none": (CountEvictor.of(0), lambda each, all_, at: False),
    "time": (TimeEvictor.of(10), lambda each, all_, at: each.timestamp > max(x.timestamp for x in all_) - 10),
    "delta": (DeltaEvictor.of(5, distance), lambda each, all_, at: distance(each.value, all_[-1].value) < 5),
}


@pytest.mark.parametrize("name", EVICTORS)
def test_wi26_what_is_kept(name: str) -> None:
    evictor, rule = EVICTORS[name]

    @settings(max_examples=draws(100), deadline=None)
    @given(ELEMENTS)
    def check(elements: list[TimestampedValue[int]]) -> None:
        expected = [each for at, each in enumerate(elements) if rule(each, elements, at)]
        before = list(elements)
        assert list(evictor.evict_before(elements, len(elements), WINDOW, Context())) == expected
        assert list(evictor.evict_after(elements, len(elements), WINDOW, Context())) == elements == before

    check()


@pytest.mark.parametrize(
    "evictor", [CountEvictor.of(1, True), TimeEvictor.of(1, True), DeltaEvictor.of(1, distance, do_evict_after=True)]
)
def test_wi26_after_the_window_function(evictor: OneSidedEvictor[Any]) -> None:
    elements = [TimestampedValue(1, 10), TimestampedValue(5, 50)]
    assert list(evictor.evict_before(elements, 2, WINDOW, Context())) == elements
    assert list(evictor.evict_after(elements, 2, WINDOW, Context())) == elements[1:]


def test_wi26_elements_without_timestamps_stay() -> None:
    elements = [TimestampedValue("a"), TimestampedValue("b")]
    assert TimeEvictor.of(5).kept(elements) == elements


def test_wi26_a_distance_that_is_no_number_keeps_its_element() -> None:
    assert (
        len(DeltaEvictor.of(1, lambda element, last: float("nan")).kept([TimestampedValue(1), TimestampedValue(9)]))
        == 2
    )


MISUSE = {
    "negative count": lambda: CountEvictor.of(-1),
    "count of a float": lambda: CountEvictor.of(2.0),  # type: ignore[arg-type]
    "no time": lambda: TimeEvictor.of(0),
    "no function": lambda: DeltaEvictor.of(1, "distance"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("make", MISUSE.values(), ids=MISUSE)
def test_misuse_names_the_line(make: Any) -> None:
    with pytest.raises(InvalidProgramError, match=r"not .*\n  at .*test_evictors\.py:\d+ in"):
        make()
