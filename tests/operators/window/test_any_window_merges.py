"""Windows that merge, in the general window operator: Flink's rules, however the job is cut into epochs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from any_window import ANY, CONTENTS, EVENT, LATE, Event, Every, FourOrEnd, OwnWindows, Values, at, cuts, drive, show

from headrace.common import Types
from headrace.common.errors import InvalidProgramError, UserFunctionError
from headrace.datastream import ProcessWindowFunction
from headrace.datastream.state import AggregatingStateDescriptor, ListStateDescriptor, ValueStateDescriptor
from headrace.testing import JobHarness
from headrace.windowing.trigger import PassiveTrigger, TriggerResult
from headrace.windowing.windows import TimeWindow


@cuts
def test_wi36_sessions(cut: int) -> None:
    results, _, _ = drive(OwnWindows(5), show, at(1, 2, 3, 4, 8, 9, 15), cut=cut)
    assert results == [("hi", 1, 14, [1, 2, 3, 4, 8, 9], "on time"), ("hi", 15, 20, [15], "on time")]


@pytest.mark.sampled(4)
@cuts
@pytest.mark.parametrize("kind", CONTENTS)
def test_wi32_a_record_makes_one_of_two_windows(kind: str, cut: int) -> None:
    """Contents of the earlier one come first; other keys are not concerned."""
    define, expected = CONTENTS[kind]
    events: list[Event] = [("a", 1, 0), ("b", 2, 8), ("a", 3, 8), ("a", 4, 4), ("a", 5, 6)]
    results, _, _ = drive(OwnWindows(5), define, events, cut=cut)
    assert sorted(row[:4] for row in results) == [
        ("a", 0, 13, expected([1, 3, 4, 5])),
        ("b", 8, 13, expected([2])),
    ]


@cuts
def test_wi38_a_late_merge(cut: int) -> None:
    events = [*at(0), 2, *at(8), 3, *at(4)]
    results, _, dropped = drive(OwnWindows(5), show, events, cut=cut)
    assert [row[:4] for row in results] == [("hi", 0, 13, [0, 8, 4])]
    assert dropped == 0


@cuts
def test_wi32_a_record_that_is_late_by_itself_is_not_when_it_joins_a_window(cut: int) -> None:
    events = [*at(10), 12, *at(6), *at(3), *at(-3)]
    results, late, _ = drive(OwnWindows(5), lambda w: show(w.side_output_late_data(LATE)), events, cut=cut)
    assert [row[:4] for row in results] == [("hi", 3, 15, [10, 6, 3])]
    assert late == at(-3)


@cuts
def test_a_window_that_is_as_large_as_a_merged_one_joins_it(cut: int) -> None:
    events: list[Event] = [("hi", 5, 0), ("hi", 6, 4), ("hi", 10, 0)]
    results, _, _ = drive(OwnWindows(), show, events, cut=cut)
    assert [row[:4] for row in results] == [("hi", 0, 10, [5, 6, 10])]


@cuts
def test_state_of_a_trigger_is_merged(cut: int) -> None:
    results, _, _ = drive(OwnWindows(5), lambda w: show(w.trigger(Every(4))), at(0, 8, 9, 4), cut=cut)
    assert [row[:4] for row in results] == [("hi", 0, 14, [0, 8, 9, 4])]


MERGING = [
    (ListStateDescriptor("own", Types.LONG()), lambda state: sorted(state.get())),
    (AggregatingStateDescriptor("own", Values(), Types.LIST(Types.LONG())), lambda state: sorted(state.get())),
]


@cuts
@pytest.mark.parametrize(("descriptor", "read"), MERGING)
def test_lists_and_accumulators_of_a_trigger_are_merged(descriptor: Any, read: Any, cut: int) -> None:
    class Collect(Every):
        def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Any) -> TriggerResult:
            state = ctx.get_partitioned_state(descriptor)
            state.add(element[1] if descriptor.kind == "list" else element)
            full = len(read(state)) == self.count
            return TriggerResult.FIRE if full else TriggerResult.CONTINUE

        def on_merge(self, window: TimeWindow, ctx: Any) -> None:
            ctx.merge_partitioned_state(descriptor)

    results, _, _ = drive(OwnWindows(5), lambda w: show(w.trigger(Collect(4))), at(0, 8, 9, 4), cut=cut)
    assert [row[3] for row in results] == [[0, 8, 9, 4]]


def test_a_trigger_that_cannot_merge_is_refused_when_the_program_is_built() -> None:
    with pytest.raises(InvalidProgramError, match="cannot be used with windows that merge"):
        drive(OwnWindows(5), lambda w: w.trigger(PassiveTrigger()), [])


def test_window_state_of_windows_that_merge_is_refused() -> None:
    class Stateful(ProcessWindowFunction):
        def process(self, key: str, context: Any, elements: Any) -> Iterator[Any]:
            yield context.window_state().get_state(ValueStateDescriptor("calls", Types.LONG())).value()

    with pytest.raises(UserFunctionError, match=r"window_state\(\) cannot be used with windows that merge"):
        drive(OwnWindows(5), lambda w: w.process(Stateful(), ANY), at(1))


def test_a_merge_into_the_past_is_refused() -> None:
    class Shrinking(OwnWindows):
        def merge_windows(self, windows: Iterable[TimeWindow], callback: Any) -> None:
            if len(found := list(windows)) > 1:
                callback.merge(found, TimeWindow(0, 1))

    with pytest.raises(UserFunctionError, match="which is over already: the event time is 6"):
        drive(Shrinking(100), show, [*at(1), 7, *at(20)])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["process", "reduce", "aggregate"])
def test_windows_that_merge_go_on_at_another_parallelism(kind: str) -> None:
    """Contents, timers, the trigger's state, and what has been merged into what."""
    define, expected = CONTENTS[kind]

    def job(harness: JobHarness) -> None:
        keyed = harness.add_source("events", EVENT).key_by(lambda event: event[0], key_type=Types.STRING())
        windows = keyed.window(OwnWindows(5)).trigger(FourOrEnd())
        harness.add_sink("results", define(windows).uid("windows"))

    keys = [f"k{number}" for number in range(12)]
    results, checkpoint = [], None
    for times, parallelism in (((0, 8), 1), ((4,), 3), ((6, 20), 2)):
        with JobHarness(job, parallelism=parallelism, restore=checkpoint) as harness:
            for time in times:
                for key in keys:
                    harness.push("events", (key, time, time), time)
                harness.run_epoch()
            if 20 in times:
                harness.finish()
            else:
                checkpoint = harness.checkpoint()
            results += harness.results("results")
    shown = [(0, 13, expected([0, 8, 4, 6])), (0, 13, expected([0, 8, 4, 6])), (20, 25, expected([20]))]
    assert sorted(row[:4] for row in results) == sorted((key, *window) for key in keys for window in shown)
