"""What windows hold can be read only by windows of the same kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.common.errors import StateMigrationError
from headrace.common.typeinfo import Types
from headrace.datastream.aggregates import max, sum, top_n
from headrace.testing import JobHarness
from headrace.windowing.assigners import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from headrace.windowing.count_assigners import CountTumblingWindowAssigner, GlobalWindows
from headrace.windowing.definition import AccumulationMode
from headrace.windowing.session_assigners import EventTimeSessionWindows
from headrace.windowing.triggers import ContinuousEventTimeTrigger, CountTrigger, EventTimeTrigger
from tests.first_epochs import first_epoch

EVENT = Types.TUPLE([Types.STRING(), Types.LONG()])


def windows(stream: Any, size: int = 10, key: str = "f0") -> Any:
    return stream.key_by(key).window(TumblingEventTimeWindows.of(size))


def larger(one: Any, other: Any) -> Any:
    return one if one[1] > other[1] else other


DECLARATIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda stream: windows(stream).aggregate(sum("f1")),
    "max": lambda stream: windows(stream).aggregate(max("f1")),
    "both": lambda stream: windows(stream).aggregate(sum("f1"), max("f1")),
    "longer": lambda stream: windows(stream, 20).aggregate(sum("f1")),
    "another key": lambda stream: windows(stream, key="f1").aggregate(sum("f1")),
    "reduced": lambda stream: windows(stream).reduce(larger),
    "elements": lambda stream: windows(stream).apply(lambda key, window, rows: [len(list(rows))], Types.LONG()),
}


def job(name: str) -> Callable[[JobHarness], None]:
    def build(harness: JobHarness) -> None:
        harness.add_sink("out", DECLARATIONS[name](harness.add_source("events", EVENT)).uid("windows"))

    return build


@pytest.mark.sampled(2)
@pytest.mark.parametrize("before", DECLARATIONS)
def test_another_declaration_is_refused(before: str) -> None:
    with JobHarness(job(before)) as harness:
        harness.push("events", ("a", 7), 1)
        checkpoint = harness.checkpoint()
    for after in DECLARATIONS:
        if before != after:
            with pytest.raises(StateMigrationError, match="stored with"):
                first_epoch(job(after), checkpoint)
            continue
        with JobHarness(job(after), restore=checkpoint) as harness:
            harness.push("events", ("a", 7), 2)
            harness.finish()
            assert harness.results("out")


ASSIGNERS: dict[str, WindowAssigner] = {
    "tumbling": TumblingEventTimeWindows.of(10),
    "shifted": TumblingEventTimeWindows.of(10, 3),
    "sliding": SlidingEventTimeWindows.of(10, 5),
    "sliding otherwise": SlidingEventTimeWindows.of(10, 2),
    "sliding and shifted": SlidingEventTimeWindows.of(10, 5, 2),
    "with gaps": SlidingEventTimeWindows.of(10, 15),
}


def over(assigner: WindowAssigner, contents: str) -> Callable[[JobHarness], None]:
    def build(harness: JobHarness) -> None:
        stream = harness.add_source("events", EVENT).key_by("f0").window(assigner)
        made = stream.reduce(larger) if contents == "reduced" else stream.aggregate(sum("f1"))
        harness.add_sink("out", made.uid("windows"))

    return build


@pytest.mark.sampled(1)
@pytest.mark.parametrize("contents", ["summed", "reduced"])
@pytest.mark.parametrize("before", ASSIGNERS)
def test_another_slide_or_offset_is_refused_as_another_size_is(before: str, contents: str) -> None:
    """Windows of both declarations would fire, and records be counted in windows that nobody asked for."""
    with JobHarness(over(ASSIGNERS[before], contents)) as harness:
        harness.push("events", ("a", 7), 4)
        checkpoint = harness.checkpoint()
    for after, assigner in ASSIGNERS.items():
        if before != after:
            what = "slide" if assigner.aligned.slide != ASSIGNERS[before].aligned.slide else "offset"
            with pytest.raises(StateMigrationError, match=f"stored with another {what} in milliseconds"):
                first_epoch(over(assigner, contents), checkpoint)
            continue
        with JobHarness(over(assigner, contents), restore=checkpoint) as harness:
            harness.push("events", ("a", 7), 4)
            harness.finish()
            assert harness.results("out")


def test_an_offset_that_comes_to_the_same_may_be_written_otherwise() -> None:
    """Eight hours back and sixteen hours on are the same days."""
    with JobHarness(over(TumblingEventTimeWindows.of(24, -8), "summed")) as harness:
        harness.push("events", ("a", 7), 4)
        checkpoint = harness.checkpoint()
    with JobHarness(over(TumblingEventTimeWindows.of(24, 16), "summed"), restore=checkpoint) as harness:
        harness.push("events", ("a", 1), 4)
        harness.finish()
        assert [row[-1] for row in harness.results("out")] == [8]


def test_the_same_holds_for_what_was_merged_in_the_background() -> None:
    with JobHarness(over(ASSIGNERS["sliding"], "summed")) as harness:
        for number in range(40):
            harness.push("events", (f"key {number}", 7), 4)
            harness.run_epoch()
        checkpoint = harness.checkpoint()
    with pytest.raises(StateMigrationError, match="another slide"):
        first_epoch(over(ASSIGNERS["tumbling"], "summed"), checkpoint)


class OwnTrigger(EventTimeTrigger):
    """Another class, which the operator for all triggers takes."""


@pytest.mark.parametrize("before", [EventTimeTrigger(), OwnTrigger()])
@pytest.mark.parametrize("after", [EventTimeTrigger(), OwnTrigger()])
def test_what_windows_with_another_trigger_hold_is_not_forgotten_but_refused(before: Any, after: Any) -> None:
    def with_trigger(trigger: Any) -> Callable[[JobHarness], None]:
        def build(harness: JobHarness) -> None:
            windows = harness.add_source("events", EVENT).key_by("f0").window(TumblingEventTimeWindows.of(10))
            harness.add_sink("out", windows.trigger(trigger).reduce(larger).uid("windows"))

        return build

    with JobHarness(with_trigger(before)) as harness:
        harness.push("events", ("a", 7), 4)
        checkpoint = harness.checkpoint()
    if type(before) is not type(after):
        with pytest.raises(StateMigrationError, match="give it another uid, or restore the old declaration"):
            first_epoch(with_trigger(after), checkpoint)
        return
    with JobHarness(with_trigger(after), restore=checkpoint) as harness:
        harness.push("events", ("a", 1), 4)
        harness.finish()
        assert harness.results("out") == [("a", 7)]


KINDS: dict[str, Callable[[Any], Any]] = {
    "tumbling": lambda keyed: keyed.window(TumblingEventTimeWindows.of(10)),
    "overlapping": lambda keyed: keyed.window(SlidingEventTimeWindows.of(10, 5)),
    "sessions": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(10)),
    "with a trigger": lambda keyed: keyed.window(TumblingEventTimeWindows.of(10)).trigger(CountTrigger.of(9)),
    "sessions with a trigger": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(10)).trigger(
        CountTrigger.of(9)
    ),
    "shown at intervals": lambda keyed: keyed.window(TumblingEventTimeWindows.of(10)).trigger(
        ContinuousEventTimeTrigger.of(5)
    ),
    "of a count": lambda keyed: keyed.count_window(3, 2),
}


def of_kind(name: str) -> Callable[[JobHarness], None]:
    def build(harness: JobHarness) -> None:
        keyed = harness.add_source("events", EVENT).key_by("f0")
        harness.add_sink("out", KINDS[name](keyed).aggregate(sum("f1")).uid("windows"))

    return build


@pytest.mark.sampled(3)
@pytest.mark.parametrize("before", KINDS)
def test_built_in_aggregates_refuse_what_windows_of_another_kind_hold(before: str) -> None:
    with JobHarness(of_kind(before)) as harness:
        harness.push("events", ("a", 7), 4)
        checkpoint = harness.checkpoint()
    for after in KINDS:
        if before == after:
            first_epoch(of_kind(after), checkpoint)
        else:
            with pytest.raises(StateMigrationError, match=r"stored with another|stored for|give it another uid"):
                first_epoch(of_kind(after), checkpoint)


FOR_EACH_RECORD: dict[str, Callable[[Any], Any]] = {
    "at their ends": lambda keyed: keyed.window(TumblingEventTimeWindows.of(10)),
    "at each record": lambda keyed: keyed.window(TumblingEventTimeWindows.of(10)).trigger(CountTrigger.of(9)),
    "by the clock": lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(10)),
    "sessions": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(10)),
    "of so many": lambda keyed: keyed.window(CountTumblingWindowAssigner.of(9)),
    "without end": lambda keyed: keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(9)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("before", FOR_EACH_RECORD)
def test_functions_of_the_user_refuse_what_windows_of_another_kind_hold(before: str) -> None:
    """No timer would ever be due for it, or none that its new windows know."""

    def build(name: str) -> Callable[[JobHarness], None]:
        def job(harness: JobHarness) -> None:
            keyed = harness.add_source("events", EVENT).key_by("f0")
            harness.add_sink("out", FOR_EACH_RECORD[name](keyed).reduce(larger).uid("windows"))

        return job

    with JobHarness(build(before)) as harness:
        harness.push("events", ("a", 7), 4)
        checkpoint = harness.checkpoint()
    for after in FOR_EACH_RECORD:
        if before == after:
            first_epoch(build(after), checkpoint)
        else:
            with pytest.raises(StateMigrationError, match=r"give (it|the operator) another uid"):
                first_epoch(build(after), checkpoint)


def test_sessions_of_another_gap_or_other_aggregates_are_refused() -> None:
    def sessions(gap: int, *aggregates: Any) -> Callable[[JobHarness], None]:
        def build(harness: JobHarness) -> None:
            windows = harness.add_source("events", EVENT).key_by("f0").window(EventTimeSessionWindows.with_gap(gap))
            harness.add_sink("out", windows.aggregate(*aggregates).uid("windows"))

        return build

    with JobHarness(sessions(10, sum("f1"))) as harness:
        harness.push("events", ("a", 7), 4)
        checkpoint = harness.checkpoint()
    for declared, message in [
        (sessions(11, sum("f1")), "sessions were stored with another session gap in milliseconds: stored 10, decl"),
        (
            sessions(10, max("f1"), top_n("f1", 2)),
            r"set of aggregates: stored count rows and sum integers of f1, declared .* extreme of f1 \(is largest\)",
        ),
    ]:
        with pytest.raises(StateMigrationError, match=message):
            first_epoch(declared, checkpoint)


def test_sessions_that_have_discarded_what_they_held_cannot_accumulate() -> None:
    def sessions(mode: AccumulationMode) -> Callable[[JobHarness], None]:
        def build(harness: JobHarness) -> None:
            windows = harness.add_source("events", EVENT).key_by("f0").window(EventTimeSessionWindows.with_gap(10))
            windows.allowed_lateness(5).accumulation_mode(mode)
            harness.add_sink("out", windows.aggregate(sum("f1")).uid("windows"))

        return build

    with JobHarness(sessions(AccumulationMode.DISCARDING)) as harness:
        harness.push("events", ("a", 7), 4)
        checkpoint = harness.checkpoint()
    with pytest.raises(StateMigrationError, match="sessions were stored with another accumulation mode"):
        first_epoch(sessions(AccumulationMode.ACCUMULATING), checkpoint)


class DerivedTrigger(CountTrigger):
    """Another class, with which windows go record by record, as all count windows once did."""


def test_count_windows_do_not_take_what_was_kept_record_by_record() -> None:
    def counting(*triggers: Any) -> Callable[[JobHarness], None]:
        def build(harness: JobHarness) -> None:
            windows = harness.add_source("events", EVENT).key_by("f0").count_window(2)
            for trigger in triggers:
                windows = windows.trigger(trigger)
            harness.add_sink("out", windows.aggregate(sum("f1").alias("total")).uid("windows"))

        return build

    with JobHarness(counting(DerivedTrigger(2))) as harness:
        harness.push("events", ("a", 7), 4)
        checkpoint = harness.checkpoint()
    with pytest.raises(
        StateMigrationError,
        match="assigner or evictor of their own, and now they are of a count",
    ):
        first_epoch(counting(), checkpoint)
    with JobHarness(counting(DerivedTrigger(2)), restore=checkpoint) as harness:
        harness.push("events", ("a", 1), 4)
        harness.finish()
        assert [row[-1] for row in harness.results("out")] == [8]
