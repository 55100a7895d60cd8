"""Keys that are equal are one key, and look alike in every result: the last bits of the first record do not matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from math import nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.typeinfo import Types
from headrace.datastream import KeyedProcessFunction
from headrace.datastream.aggregates import count
from headrace.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CumulatingEventTimeWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from headrace.testing import JobHarness
from tests.draws import draws

PICKLED = Types.PICKLED_BYTE_ARRAY()
PAIR = Types.TUPLE([Types.DOUBLE(), Types.STRING()])

KEYS: dict[str, tuple[Any, dict[str, list[Any]]]] = {
    "double": (Types.DOUBLE(), {"0.0": [0.0, -0.0], "nan": [nan, -nan], "1.5": [1.5]}),
    "float": (Types.FLOAT(), {"0.0": [0.0, -0.0], "nan": [nan, -nan], "1.5": [1.5]}),
    "decimal": (
        Types.BIG_DEC(),
        {"Decimal('0')": [Decimal("0.0"), Decimal("-0")], "Decimal('1')": [Decimal("1.00"), Decimal("1E0")]},
    ),
    "nested": (PAIR, {"(0.0, 'a')": [(0.0, "a"), (-0.0, "a")], "(nan, 'b')": [(nan, "b"), (-nan, "b")]}),
    "pickled": (PICKLED, {"0": [0.0, -0.0, 0, False], "1": [1, True, 1.0], "'a'": ["a"]}),
}
"""For each type of keys: how each key is shown, and what is equal to it."""


class Counted(KeyedProcessFunction):
    """Shows each record as one of its key."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield ctx.get_current_key(), 1


def counted(key: Any, window: Any, elements: Any) -> list[Any]:
    return [(key, len(list(elements)))]


def built_in(windows: Any) -> Any:
    return windows.aggregate(count())


SESSIONS = EventTimeSessionWindows.with_gap(50)
TUMBLING = TumblingEventTimeWindows.of(50)
PATHS: dict[str, Callable[[Any], Any]] = {
    "tumbling": lambda keyed: built_in(keyed.window(TUMBLING)),
    "late records": lambda keyed: built_in(keyed.window(TUMBLING).allowed_lateness(9)),
    "sliding": lambda keyed: built_in(keyed.window(SlidingEventTimeWindows.of(50, 50))),
    "cumulating": lambda keyed: built_in(keyed.window(CumulatingEventTimeWindows.of(50, 50))),
    "sessions": lambda keyed: built_in(keyed.window(SESSIONS)),
    "late sessions": lambda keyed: built_in(keyed.window(SESSIONS).allowed_lateness(9)),
    "counts": lambda keyed: built_in(keyed.count_window(1)),
    "the end": lambda keyed: built_in(keyed.window(GlobalWindows.create_with_end_of_stream_trigger())),
    "intervals": lambda keyed: built_in(keyed.window(TUMBLING).trigger(ContinuousEventTimeTrigger.of(1000))),
    "evictor": lambda keyed: built_in(keyed.window(TUMBLING).evictor(CountEvictor.of(999))),
    "a function": lambda keyed: keyed.window(TUMBLING).apply(counted),
    "a function of sessions": lambda keyed: keyed.window(SESSIONS).trigger(EventTimeTrigger()).apply(counted),
    "no window": lambda keyed: keyed.process(Counted()),
}


def shown(path: str, type_: Any, parts: list[list[Any]], *, is_of_field: bool) -> Counter[str]:
    """How often each key is counted, by how it is shown; each part is an epoch, and of one of two splits."""

    def job(harness: JobHarness) -> None:
        events = harness.add_source("events", Types.TUPLE([type_, Types.LONG()]), splits=2)
        keyed = events.key_by("f0") if is_of_field else events.key_by(lambda event: event[0], key_type=type_)
        harness.add_sink("out", PATHS[path](keyed).uid("counted"))

    with JobHarness(job) as harness:
        for i, part in enumerate(parts):
            for key in part:
                harness.push("events", (key, 1), 1, split=i % 2)
            harness.run_epoch()
        harness.finish()
        found: Counter[str] = Counter()
        for row in harness.results("out"):
            found[repr(row[0])] += row[-1]
        return found


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, str, list[list[tuple[str, Any]]], bool]:
    """A way to compute, a type of keys, what each epoch has and how it is shown, and whether a field has the keys."""
    type_ = draw(st.sampled_from(list(KEYS)))
    looks = [(told, look) for told, equal in KEYS[type_][1].items() for look in equal]
    parts = draw(st.lists(st.lists(st.sampled_from(looks), max_size=5), min_size=1, max_size=3))
    return draw(st.sampled_from(list(PATHS))), type_, parts, draw(st.booleans())


@settings(deadline=None, max_examples=draws(30))
@given(programs())
def test_equal_keys_are_one_key_that_looks_the_same(
    program: tuple[str, str, list[list[tuple[str, Any]]], bool],
) -> None:
    path, type_, parts, is_of_field = program
    found = shown(path, KEYS[type_][0], [[look for _, look in part] for part in parts], is_of_field=is_of_field)
    assert found == Counter(told for part in parts for told, _ in part)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("type_", KEYS)
def test_the_first_record_does_not_matter_where_keys_are_remembered_by_their_fields(type_: str) -> None:
    for told, equal in KEYS[type_][1].items():
        for first in equal:
            assert shown("tumbling", KEYS[type_][0], [[first, *equal]], is_of_field=True) == {told: 1 + len(equal)}
