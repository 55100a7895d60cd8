"""When windows fire, with every trigger, driven by the model of Flink's operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.common import Time
from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.windowing.assigners import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from headrace.windowing.count_assigners import GlobalWindows
from headrace.windowing.session_assigners import EventTimeSessionWindows, ProcessingTimeSessionWindows
from headrace.windowing.trigger import PassiveTrigger, Trigger, TriggerResult
from headrace.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from tests.windowing.model import WindowModel

TENS = TumblingEventTimeWindows.of(10)


def fired(model: WindowModel) -> list[str]:
    """What was fired since this was asked last: the values of each window in one word."""
    found = ["".join(each.values) for each in model.fired]
    model.fired.clear()
    return found


def feed(model: WindowModel, *elements: tuple[str, int]) -> list[str]:
    for value, timestamp in elements:
        model.element("key", value, timestamp)
    return fired(model)


def watermark(model: WindowModel, time: int) -> list[str]:
    model.advance_watermark(time)
    return fired(model)


def clock(model: WindowModel, time: int) -> list[str]:
    model.advance_processing_time(time)
    return fired(model)


def leftovers(model: WindowModel) -> tuple[Any, ...]:
    """What of a model should be gone when all its windows have: contents, states of windows, timers."""
    states = {name: held for name, held in model.context.states.items() if held}
    return model.contents, states, model.context.event.pending, model.context.processing.pending


NOTHING: tuple[Any, ...] = ({}, {}, set(), set())


def test_wi17_what_results_say() -> None:
    told = {result.name: (result.is_fire(), result.is_purge()) for result in TriggerResult}
    assert told == {
        "CONTINUE": (False, False),
        "FIRE": (True, False),
        "PURGE": (False, True),
        "FIRE_AND_PURGE": (True, True),
    }


def test_wi18_event_time() -> None:
    model = WindowModel(TENS, EventTimeTrigger.create(), lateness=5)
    assert feed(model, ("a", 1), ("b", 9)) == []
    assert watermark(model, 8) == []
    assert watermark(model, 9) == ["ab"]
    assert feed(model, ("c", 2), ("d", 3)) == ["abc", "abcd"]
    assert watermark(model, 14) == []
    assert feed(model, ("e", 2)) == []
    assert leftovers(model) == NOTHING


def test_wi19_processing_time() -> None:
    model = WindowModel(TumblingProcessingTimeWindows.of(10), ProcessingTimeTrigger.create())
    clock(model, 3)
    assert feed(model, ("a", 0), ("b", 99)) == []
    assert clock(model, 8) == []
    assert clock(model, 9) == ["ab"]
    assert feed(model, ("c", 0)) == []
    assert clock(model, 9) == ["c"], "the clock stands still at the last timestamp: the timer is due at once"
    assert leftovers(model) == NOTHING


def test_wi20_continuous_event_time() -> None:
    model = WindowModel(TENS, ContinuousEventTimeTrigger.of(Time.milliseconds(4)), lateness=3)
    assert feed(model, ("a", 1)) == []
    assert watermark(model, 3) == []
    assert watermark(model, 4) == ["a"]
    assert feed(model, ("b", 2)) == []
    assert watermark(model, 8) == ["ab"]
    assert watermark(model, 9) == ["ab"]
    assert feed(model, ("c", 2)) == ["abc"]
    assert watermark(model, 100) == []
    assert leftovers(model) == NOTHING


def test_wi20_the_next_time_follows_from_the_first_element_and_is_passed_one_by_one() -> None:
    model = WindowModel(TumblingEventTimeWindows.of(100), ContinuousEventTimeTrigger.of(10))
    assert feed(model, ("a", 25)) == []
    assert watermark(model, 55) == ["a", "a", "a"], "at 30, 40 and 50"
    assert watermark(model, 99) == ["a", "a", "a", "a", "a"], "at 60, 70, 80, 90, and at the end"


def test_wi20_negative_timestamps() -> None:
    model = WindowModel(TENS, ContinuousEventTimeTrigger.of(4))
    assert feed(model, ("a", -7)) == []
    assert watermark(model, -5) == []
    assert watermark(model, -4) == ["a"]


def test_wi20_sessions_that_merge_keep_the_earliest_time() -> None:
    model = WindowModel(EventTimeSessionWindows.with_gap(10), ContinuousEventTimeTrigger.of(4))
    feed(model, ("a", 1), ("b", 20), ("c", 11))
    assert watermark(model, 4) == ["abc"]
    assert watermark(model, 29) == ["abc"] * 7, "at 8, 12, 16, 20, 24, 28, and at the end"


def test_wi20_a_window_without_an_end_fires_after_its_elements_and_once_more_when_the_input_ends() -> None:
    model = WindowModel(GlobalWindows.create(), ContinuousEventTimeTrigger.of(4))
    feed(model, ("a", 1))
    assert watermark(model, 30) == ["a"], "at 4, and not at 8, 12, ..."
    feed(model, ("b", 99), ("c", 2))
    assert watermark(model, 31) == []
    assert watermark(model, 60) == ["abc"], "at 32, as it would have if it had been shown at 8, 12, ..."
    feed(model, ("d", 70))
    assert watermark(model, MAX_WATERMARK) == ["abcd"] * 2, "at 64, which was due next, and at the end"


def test_wi20_how_a_window_without_an_end_repeats_itself_does_not_depend_on_how_far_the_watermark_comes() -> None:
    for last in (3, 4, 5, 100, MAX_WATERMARK):
        model = WindowModel(GlobalWindows.create(), ContinuousEventTimeTrigger.of(4))
        feed(model, ("a", 1), ("b", 2))
        assert watermark(model, last) + watermark(model, MAX_WATERMARK) == ["ab"] * 2


def test_wi20_continuous_processing_time() -> None:
    model = WindowModel(TumblingProcessingTimeWindows.of(10), ContinuousProcessingTimeTrigger.of(Time.milliseconds(4)))
    clock(model, 1)
    assert feed(model, ("a", 0)) == []
    assert clock(model, 4) == ["a"]
    assert feed(model, ("b", 0)) == []
    assert clock(model, 8) == ["ab"]
    assert clock(model, 9) == ["ab"]
    assert leftovers(model) == NOTHING


def test_wi20_windows_of_event_time_that_the_clock_shows() -> None:
    model = WindowModel(TENS, ContinuousProcessingTimeTrigger.of(4))
    clock(model, 1001)
    feed(model, ("a", 1))
    assert clock(model, 1003) == []
    assert clock(model, 1009) == ["a", "a"], "at 1004 and 1008"
    assert watermark(model, 9) == []
    assert clock(model, 2000) == []
    assert leftovers(model) == NOTHING


def test_wi21_count() -> None:
    model = WindowModel(TENS, CountTrigger.of(2))
    assert feed(model, ("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)) == ["ab", "abcd"]
    assert watermark(model, MAX_WATERMARK) == [], "wi25: the default trigger is replaced"
    assert leftovers(model) == NOTHING


def test_wi21_counts_of_sessions_are_added_up() -> None:
    model = WindowModel(EventTimeSessionWindows.with_gap(5), CountTrigger.of(4))
    assert feed(model, ("a", 0), ("b", 1), ("c", 8)) == []
    assert feed(model, ("d", 4)) == ["abcd"]
    assert feed(model, ("e", 4), ("f", 4), ("g", 4), ("h", 4)) == ["abcdefgh"]


def test_wi22_purging() -> None:
    model = WindowModel(TENS, PurgingTrigger.of(CountTrigger.of(2)))
    assert feed(model, ("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)) == ["ab", "cd"]
    model = WindowModel(TENS, PurgingTrigger.of(EventTimeTrigger.create()), lateness=5)
    feed(model, ("a", 1))
    assert watermark(model, 9) == ["a"]
    assert feed(model, ("b", 2)) == ["b"]
    assert watermark(model, 14) == []
    assert leftovers(model) == NOTHING


def test_wi22_purging_passes_timers_of_processing_time_and_merges_on() -> None:
    model = WindowModel(ProcessingTimeSessionWindows.with_gap(5), PurgingTrigger.of(ProcessingTimeTrigger.create()))
    feed(model, ("a", 0))
    clock(model, 3)
    feed(model, ("b", 0))
    assert clock(model, 6) == []
    assert clock(model, 7) == ["ab"]


def test_wi23_never() -> None:
    model = WindowModel(GlobalWindows.create())
    assert feed(model, ("a", 1)) == watermark(model, MAX_WATERMARK) == clock(model, MAX_WATERMARK) == []
    assert not NeverTrigger().can_merge()


def test_wi24_end_of_stream() -> None:
    model = WindowModel(GlobalWindows.create_with_end_of_stream_trigger())
    assert feed(model, ("a", 1), ("b", 2)) == watermark(model, MAX_WATERMARK - 1) == []
    assert watermark(model, MAX_WATERMARK) == ["ab"]
    sessions = WindowModel(EventTimeSessionWindows.with_gap(5), EndOfStreamTrigger.create(), lateness=MAX_WATERMARK)
    feed(sessions, ("a", 1), ("b", 9), ("c", 5))
    assert watermark(sessions, MAX_WATERMARK) == ["abc"]


def test_wi24_delta() -> None:
    model = WindowModel(GlobalWindows.create(), DeltaTrigger.of(3, lambda last, now: ord(now) - ord(last), str))
    assert feed(model, ("a", 0), ("d", 0)) == []
    assert feed(model, ("e", 0)) == ["ade"], "4 above the first"
    assert feed(model, ("h", 0), ("a", 0)) == []
    assert feed(model, ("i", 0)) == ["adehai"], "4 above the one that fired"
    assert not model.trigger.can_merge()


def test_wi24_delta_is_cleared_with_the_window() -> None:
    model = WindowModel(TENS, DeltaTrigger.of(3, lambda last, now: ord(now) - ord(last)))
    feed(model, ("a", 0))
    watermark(model, 9)
    assert leftovers(model) == NOTHING


def test_wi24_timeout() -> None:
    model = WindowModel(GlobalWindows.create(), ProcessingTimeoutTrigger.of(CountTrigger.of(3), Time.milliseconds(10)))
    assert feed(model, ("a", 0)) == []
    clock(model, 5)
    assert feed(model, ("b", 0)) == []
    assert clock(model, 9) == []
    assert clock(model, 10) == ["ab"]
    assert feed(model, ("c", 0), ("d", 0)) == [], "the count began anew"
    assert feed(model, ("e", 0)) == ["abcde"]
    assert clock(model, 100) == [], "the time is taken back when the other trigger fires"


def test_wi24_timeout_from_the_newest_element() -> None:
    trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(9), 10, reset_timer_on_new_record=True)
    model = WindowModel(GlobalWindows.create(), trigger)
    feed(model, ("a", 0))
    clock(model, 5)
    feed(model, ("b", 0))
    assert clock(model, 14) == []
    assert clock(model, 15) == ["ab"]


def test_wi24_timeout_that_keeps_the_count() -> None:
    trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(3), 10, should_clear_on_timeout=False)
    model = WindowModel(GlobalWindows.create(), trigger)
    feed(model, ("a", 0), ("b", 0))
    assert clock(model, 10) == ["ab"]
    assert feed(model, ("c", 0)) == ["abc"]


def test_wi24_timeout_around_a_purging_trigger_does_not_purge_at_the_timeout() -> None:
    model = WindowModel(
        TENS, ProcessingTimeoutTrigger.of(PurgingTrigger.of(EventTimeTrigger.create()), 10), lateness=MAX_WATERMARK
    )
    feed(model, ("a", 0))
    assert clock(model, 10) == ["a"]
    feed(model, ("b", 0))
    assert watermark(model, 9) == ["ab"]
    assert model.contents == {}


MERGING = [
    EventTimeTrigger(),
    ProcessingTimeTrigger(),
    ContinuousEventTimeTrigger(5),
    ContinuousProcessingTimeTrigger(5),
    CountTrigger(5),
    EndOfStreamTrigger(),
    PurgingTrigger(CountTrigger(5)),
]
NOT_MERGING = [
    NeverTrigger(),
    PassiveTrigger(),
    PurgingTrigger(NeverTrigger()),
    ProcessingTimeoutTrigger(CountTrigger(5), 5),
    DeltaTrigger.of(1, lambda last, now: 0),
]


@pytest.mark.parametrize("trigger", MERGING, ids=lambda trigger: type(trigger).__name__)
def test_triggers_that_merge(trigger: Trigger[Any, Any]) -> None:
    assert trigger.can_merge()


@pytest.mark.parametrize("trigger", NOT_MERGING, ids=lambda trigger: type(trigger).__name__)
def test_triggers_that_do_not(trigger: Trigger[Any, Any]) -> None:
    assert not trigger.can_merge()


MISUSE = {
    "interval of 0": lambda: ContinuousEventTimeTrigger.of(0),
    "negative interval": lambda: ContinuousProcessingTimeTrigger.of(-1),
    "count of 0": lambda: CountTrigger.of(0),
    "no trigger inside": lambda: PurgingTrigger.of(CountTrigger),  # type: ignore[arg-type]
    "no trigger to wait for": lambda: ProcessingTimeoutTrigger.of(None, 5),  # type: ignore[arg-type]
    "no timeout": lambda: ProcessingTimeoutTrigger.of(NeverTrigger(), 0),
    "count in a text": lambda: CountTrigger.of("5"),  # type: ignore[arg-type]
    "no distance": lambda: DeltaTrigger.of(5, 5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("make", MISUSE.values(), ids=MISUSE)
def test_misuse_names_the_line(make: Any) -> None:
    with pytest.raises(InvalidProgramError, match=r"not .*\n  at .*test_triggers\.py:\d+ in"):
        make()


def test_a_class_instead_of_a_trigger_says_how_to_make_one() -> None:
    with pytest.raises(InvalidTypeError, match=r"make one, CountTrigger\(\.\.\.\)"):
        PurgingTrigger.of(CountTrigger)  # type: ignore[arg-type]


def test_counts_may_be_those_of_numpy() -> None:
    assert CountTrigger.of(np.int64(5)).window_size == 5
