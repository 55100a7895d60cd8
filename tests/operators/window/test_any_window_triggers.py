"""Triggers and evictors of one's own in the general window operator, however the job is cut into epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from any_window import ANY, LATE, TENS, Every, EveryFive, KeepTwo, at, cuts, drive, show

from headrace.common import Types
from headrace.common.errors import UserFunctionError
from headrace.datastream import ProcessWindowFunction
from headrace.datastream.state import ValueStateDescriptor
from headrace.windowing.trigger import PassiveTrigger, TriggerResult
from headrace.windowing.triggers import EventTimeTrigger


@cuts
def test_wi25_a_trigger_replaces_the_default(cut: int) -> None:
    results, _, _ = drive(TENS, lambda w: show(w.trigger(Every(2))), at(1, 2, 3, 4, 12, 5, 13), cut=cut)
    assert results == [
        ("hi", 0, 10, [1, 2], "early"),
        ("hi", 0, 10, [1, 2, 3, 4], "early"),
        ("hi", 10, 20, [12, 13], "early"),
    ]


@cuts
def test_wi17_a_purge_drops_what_was_shown_and_nothing_else(cut: int) -> None:
    trigger = Every(2, purges=True)
    results, _, _ = drive(TENS, lambda w: show(w.trigger(trigger)), at(1, 2, 3, 4, 5), cut=cut)
    assert [row[3] for row in results] == [[1, 2], [3, 4]]


@cuts
def test_wi16_timers_of_a_trigger_fire_between_records(cut: int) -> None:
    events = [*at(1, 3), 4, *at(6), 7, *at(4), 8, 30]
    results, _, _ = drive(TENS, lambda w: show(w.trigger(EveryFive())), events, cut=cut)
    assert results == [("hi", 0, 10, [1, 3, 6], "early"), ("hi", 0, 10, [1, 3, 6, 4], "on time")]


@cuts
def test_a_late_element_fires_alone_what_is_kept_for_it(cut: int) -> None:
    events = [*at(1), 15, *at(2), 17, *at(3), 19, *at(4)]
    results, late, _ = drive(
        TENS,
        lambda w: show(w.trigger(EveryFive()).allowed_lateness(10).side_output_late_data(LATE)),
        events,
        cut=cut,
    )
    assert [(values, firing) for *_, values, firing in results] == [
        ([1], "early"),
        ([1], "on time"),
        ([1, 2], "late"),
        ([1, 2, 3], "late"),
    ]
    assert late == at(4)


def test_a_trigger_has_to_answer() -> None:
    class Silent(PassiveTrigger[Any, Any]):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
            return None

    with pytest.raises(UserFunctionError, match=r"Silent\.on_element has to return a TriggerResult, not None"):
        drive(TENS, lambda w: show(w.trigger(Silent())), at(1))


@pytest.mark.parametrize("answer", [lambda elements: None, lambda elements: [element.value for element in elements]])
@pytest.mark.parametrize("method", ["evict_before", "evict_after"])
def test_an_evictor_has_to_say_what_stays(method: str, answer: Callable[[list[Any]], Any]) -> None:
    class Wrong(KeepTwo):
        pass

    setattr(Wrong, method, lambda self, elements, size, window, ctx: answer(elements))
    with pytest.raises(
        UserFunctionError, match=rf"Wrong\.{method} has to return the elements that stay, as it was given"
    ):
        drive(TENS, lambda w: show(w.evictor(Wrong())), at(1))


def test_state_of_a_trigger_is_apart_from_that_of_the_function() -> None:
    class Count(ProcessWindowFunction):
        def process(self, key: str, context: Any, elements: Any) -> Iterator[Any]:
            calls = context.window_state().get_state(ValueStateDescriptor("seen", Types.STRING()))
            calls.update((calls.value() or "") + "x")
            yield calls.value()

        def clear(self, context: Any) -> None:
            context.window_state().get_state(ValueStateDescriptor("seen", Types.STRING())).clear()

    results, _, _ = drive(TENS, lambda w: w.trigger(Every(1)).process(Count(), ANY), at(1, 2, 11, 3), cut=1)
    assert results == ["x", "xx", "x", "xxx"]


def test_a_failing_trigger_is_told_with_its_timer() -> None:
    class Broken(EventTimeTrigger):
        def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
            raise ValueError("no")

    with pytest.raises(UserFunctionError, match=r"timer: 9 in event time, of key 'hi' and TimeWindow\(start=0"):
        drive(TENS, lambda w: show(w.trigger(Broken())), at(1))
