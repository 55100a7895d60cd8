"""Windows that are shown at intervals before they end: in columns as record by record, however the input is cut."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_aggregating_operator import ELEMENT, MANY, driver, expected, layout
from test_any_window_against_model import RANKS, run_driver, run_model
from window_harness import Driver
from window_model import Record

from headrace.common.constants import MAX_WATERMARK, NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError, StateMigrationError
from headrace.common.typeinfo import Types
from headrace.datastream.aggregates import count, listagg
from headrace.operators.window.columnar import continuous_windows
from headrace.operators.window.columnar.continuous_windows import (
    ContinuousClockOperator,
    ContinuousEventTimeOperator,
)
from headrace.testing import JobHarness
from headrace.windowing.assigners import (
    CumulatingEventTimeWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from headrace.windowing.definition import AccumulationMode
from headrace.windowing.triggers import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger, EventTimeTrigger
from tests.draws import draws
from tests.first_epochs import first_epoch
from tests.windowing.scenarios import FIRST_CLOCK, Epoch, Windows, inputs

EVENT_WINDOWS = st.one_of(
    st.builds(TumblingEventTimeWindows.of, st.integers(1, 30), st.just(0)),
    st.builds(SlidingEventTimeWindows.of, st.integers(1, 20), st.integers(1, 9)),
    st.builds(
        lambda step, steps: CumulatingEventTimeWindows.of(step * steps, step), st.integers(1, 6), st.integers(1, 4)
    ),
)
CLOCK_WINDOWS = st.one_of(
    st.builds(TumblingProcessingTimeWindows.of, st.integers(1, 30), st.just(0)),
    st.builds(SlidingProcessingTimeWindows.of, st.integers(1, 20), st.integers(1, 9)),
)


def told(run: Driver) -> list[Any]:
    """Results: kind, watermark, timestamp and row."""
    return [
        (str(row.get_row_kind()), watermark, timestamp, tuple(row))
        for batch in run.out.batches
        for watermark, timestamp, row in zip(
            batch.watermarks.tolist(), batch.timestamps.tolist(), batch.rows, strict=True
        )
    ]


def by_records(windows: Windows, mode: AccumulationMode, tag: str | None) -> Driver:
    return driver(windows, MANY, tag, mode)


def by_columns(windows: Windows, mode: AccumulationMode, tag: str | None) -> Driver:
    regular: Any = windows.assigner.regular
    trigger: Any = windows.trigger
    is_by_event_time = isinstance(trigger, ContinuousEventTimeTrigger)
    operator = ContinuousEventTimeOperator if is_by_event_time else ContinuousClockOperator
    definition = windows.definition(tag, mode)
    return Driver(partial(operator, layout(windows, MANY), definition, regular, trigger.interval), type=ELEMENT)


def check(windows: Windows, mode: AccumulationMode, tag: str | None, epochs: list[Epoch]) -> None:
    one_by_one, columnar = by_records(windows, mode, tag), by_columns(windows, mode, tag)
    for run in (one_by_one, columnar):
        run_driver(run, epochs[:-1])
    assert sorted(map(repr, columnar.held())) == sorted(map(repr, one_by_one.held()))
    for run in (one_by_one, columnar):
        run_driver(run, epochs[-1:])
    assert told(columnar) == told(one_by_one)
    assert columnar.counters == one_by_one.counters
    if tag:
        assert columnar.out.side(tag) == one_by_one.out.side(tag)


MODES = pytest.mark.parametrize("mode", AccumulationMode)
LATENESS = st.sampled_from([0, 0, 1, 5, 30, MAX_WATERMARK])


@pytest.fixture(params=["all at once", "in small pieces"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How much is worked out at a time."""
    if request.param == "in small pieces":
        monkeypatch.setattr(continuous_windows, "_WAITING_ROWS", 2)
        monkeypatch.setattr(continuous_windows, "FIRED_ROWS", 3)
        monkeypatch.setattr(continuous_windows, "_FIRINGS", 1)
        monkeypatch.setattr(continuous_windows, "_FEWEST_WINDOWS", 1)


EXAMPLES = settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.sampled(2)
@MODES
@EXAMPLES
@given(
    assigner=EVENT_WINDOWS,
    interval=st.integers(1, 12),
    lateness=LATENESS,
    tag=st.sampled_from([None, "late"]),
    epochs=inputs(),
)
def test_event_time(
    pieces: None,
    mode: AccumulationMode,
    assigner: Any,
    interval: int,
    lateness: int,
    tag: str | None,
    epochs: list[Epoch],
) -> None:
    check(Windows(assigner, ContinuousEventTimeTrigger.of(interval), None, lateness), mode, tag, epochs)


@pytest.mark.sampled(2)
@MODES
@EXAMPLES
@given(assigner=CLOCK_WINDOWS, interval=st.integers(1, 12), epochs=inputs())
def test_windows_of_the_clock(
    pieces: None, mode: AccumulationMode, assigner: Any, interval: int, epochs: list[Epoch]
) -> None:
    check(Windows(assigner, ContinuousProcessingTimeTrigger.of(interval), None, 0), mode, None, epochs)


@pytest.mark.sampled(2)
@MODES
@EXAMPLES
@given(
    assigner=EVENT_WINDOWS,
    interval=st.integers(1, 12),
    lateness=LATENESS,
    clock=st.sampled_from([0, -FIRST_CLOCK - 10]),
    epochs=inputs(),
)
def test_windows_of_event_time_by_the_clock(
    pieces: None, mode: AccumulationMode, assigner: Any, interval: int, lateness: int, clock: int, epochs: list[Epoch]
) -> None:
    """The clock is far ahead of event time, or goes through the same times."""
    epochs = [replace(epoch, clock=epoch.clock + clock) for epoch in epochs]
    check(Windows(assigner, ContinuousProcessingTimeTrigger.of(interval), None, lateness), mode, "late", epochs)


@settings(max_examples=draws(30), deadline=None)
@given(assigner=EVENT_WINDOWS, interval=st.integers(1, 12), lateness=LATENESS, epochs=inputs())
def test_results_are_those_of_the_model(assigner: Any, interval: int, lateness: int, epochs: list[Epoch]) -> None:
    windows = Windows(assigner, ContinuousEventTimeTrigger.of(interval), None, lateness)
    model, run = windows.model(rank=RANKS.__getitem__), by_columns(windows, AccumulationMode.ACCUMULATING, "late")
    run_model(model, epochs)
    run_driver(run, epochs)
    serializer = assigner.get_window_serializer()
    assert [row[:8] for row in run.out.rows] == [expected(fired, serializer) for fired in model.fired]
    assert [row[-1] for row in run.out.side("late")] == [row["value"] for row in model.late]
    assert not run.held()


def build(
    job: JobHarness, trigger: Any = None, size: int = 30, mode: AccumulationMode = AccumulationMode.ACCUMULATING
) -> None:
    windows = job.add_source("visits", EVENT).key_by("f0").window(TumblingEventTimeWindows.of(size))
    windows.trigger(trigger or ContinuousEventTimeTrigger.of(10)).accumulation_mode(mode)
    job.add_sink("out", windows.aggregate(count(), listagg("f1")).uid("windows"))


EVENT = Types.TUPLE([Types.STRING(), Types.STRING()])


def test_a_job_goes_on_with_open_windows_at_another_parallelism() -> None:
    users = [f"user {number} ü" for number in range(50)]
    with JobHarness(build, parallelism=2) as job:
        for page, time in [("a", 1), ("b", 12)]:
            for user in users:
                job.push("visits", (user, page), time)
            job.advance_watermark("visits", time)
            job.run_epoch()
        early = [(user, 0, 30, 2, "a,b") for user in users]
        assert sorted(tuple(row) for row in job.results("out")) == sorted(early)
        checkpoint = job.checkpoint()
    with JobHarness(build, parallelism=3, restore=checkpoint) as job:
        for user in users[::2]:
            job.push("visits", (user, "c"), 18)
        job.run_epoch()
        job.finish()
        rows = [tuple(row) for row in job.results("out")]
    odd, even = [(user, 0, 30, 2, "a,b") for user in users[1::2]], [(user, 0, 30, 3, "a,b,c") for user in users[::2]]
    assert sorted(rows) == sorted([*odd, *odd, *even, *even]), "at 20, and at the end"


class Derived(ContinuousEventTimeTrigger):
    """The same, of which nobody knows: windows go record by record."""


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({"trigger": Derived(10)}, {}, "of their own, and now they fire at intervals before their end"),
        ({}, {"trigger": Derived(10)}, "fire at intervals before their end, computed column by column"),
        ({}, {"trigger": EventTimeTrigger()}, "fire at intervals before their end, computed column by column"),
        ({}, {"trigger": ContinuousProcessingTimeTrigger.of(10)}, "another time that early results follow"),
        ({}, {"mode": AccumulationMode.ACCUMULATING_AND_RETRACTING}, "another accumulation mode"),
        ({}, {"size": 60}, "another size in milliseconds: stored 30, declared 60"),
    ],
)
def test_what_others_have_stored_is_refused(before: Any, after: Any, message: str) -> None:
    with JobHarness(partial(build, **before)) as job:
        job.push("visits", ("a", "b"), 1)
        checkpoint = job.checkpoint()
    with pytest.raises(StateMigrationError, match=message):
        first_epoch(partial(build, **after), checkpoint)


def test_another_interval_takes_over_what_is_stored() -> None:
    with JobHarness(build) as job:
        job.push("visits", ("a", "b"), 1)
        checkpoint = job.checkpoint()
    with JobHarness(partial(build, trigger=ContinuousEventTimeTrigger.of(4)), restore=checkpoint) as job:
        job.advance_watermark("visits", 15)
        job.run_epoch()
        assert len(job.results("out")) == 2, "at 10, as was foreseen, and 4 ms later"


def test_windows_that_the_clock_shows_wake_the_job_up() -> None:
    windows = Windows(TumblingProcessingTimeWindows.of(100), ContinuousProcessingTimeTrigger.of(30), None, 0)
    run = by_columns(windows, AccumulationMode.ACCUMULATING, None)
    wanted = []
    for clock, records in ((5, [Record(1, 7, 0)]), (20, []), (21, [Record(1, 8, 0)]), (100, []), (101, [])):
        run.epoch = clock  # after 1000
        run.run([records])
        assert run.operator is not None
        wanted.append(run.operator.wake_up_time())
    assert wanted == [1020, 1050, 1050, None, None]
    assert [row[5] for row in run.out.rows] == [[7], [7, 8], [7, 8], [7, 8]]


def test_a_record_without_timestamp_is_an_error() -> None:
    run = by_columns(
        Windows(TumblingEventTimeWindows.of(10), ContinuousEventTimeTrigger.of(5), None, 0),
        AccumulationMode.ACCUMULATING,
        None,
    )
    with pytest.raises(InvalidProgramError, match=r"a record without timestamp.*timer of processing time"):
        run.run([[Record(1, 1, NO_TIMESTAMP)]])


def test_only_what_is_touched_is_written() -> None:
    windows = Windows(TumblingEventTimeWindows.of(1000), ContinuousEventTimeTrigger.of(100), None, 0)
    run = by_columns(windows, AccumulationMode.ACCUMULATING, None)
    run.run([[Record(key, 1, key % 7) for key in range(5000)]], upto=0)
    run.run([[Record(3, 1, 50), Record(4, 1, 50)]], upto=60)
    assert [r.rows for r in run.state.stores["continuous-windows"].runs] == [5000, 2]
    assert not run.out.rows
    run.run([], upto=10_000)
    assert len(run.out.rows) == 10 * 5000
    assert not run.held()
