"""Session windows with built-in aggregates give what Flink's rules give record by record, however the input is cut."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_against_model import COLUMNAR, described
from test_aggregating_operator import MANY, layout
from test_aggregating_operator import driver as one_by_one
from test_any_window_against_model import ELEMENT, RANKS, run_driver, run_model
from window_harness import Driver
from window_model import Record

from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import StateMigrationError
from headrace.common.typeinfo import Types
from headrace.datastream.aggregates import count, listagg, sum
from headrace.operators.window.columnar import session_windows
from headrace.operators.window.columnar.session_windows import SessionWindowOperator
from headrace.state.key_sorted_table import newest_of_keys
from headrace.state.runs import ALL_HASHES, Run
from headrace.state.runs.merging import merge_runs
from headrace.state.runs.sections import Section
from headrace.testing import JobHarness
from headrace.windowing.session_assigners import EventTimeSessionWindows
from headrace.windowing.triggers import EventTimeTrigger, PurgingTrigger
from tests.draws import draws
from tests.first_epochs import first_epoch
from tests.windowing.model import Fired, WindowModel
from tests.windowing.scenarios import Epoch, Windows, inputs


def numbered(epochs: list[Epoch]) -> list[Epoch]:
    """The same elements, each with the number of its arrival for a value."""
    count = iter(range(10**6))
    return [
        replace(epoch, batches=tuple(tuple(replace(e, value=next(count)) for e in batch) for batch in epoch.batches))
        for epoch in epochs
    ]


def expected(fired: Fired) -> tuple[Any, ...]:
    values = sorted(float(row["value"]) for row in fired.values)
    row = described(fired.key, fired.window.start, fired.window.end, values)
    return (fired.stamp, fired.window.max_timestamp(), *row)


def driver(gap: int, tag: str | None = "late") -> Driver:
    return Driver(partial(SessionWindowOperator, COLUMNAR, gap, tag))


def is_empty(run: Driver) -> bool:
    """Whether no session is open: runs may say so of keys of which older ones hold sessions."""
    sessions, ends = (run.state.stores[name].runs for name in ("sessions", "sessions-due"))
    held = newest_of_keys({}, [each.batch for each in sessions]).column("live").to_pylist() if sessions else []
    return not ends and not any(held)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("pending", "due"), [(1, 1 << 19), (3, 1), (1 << 19, 2), (1 << 19, 1 << 19)])
@settings(max_examples=draws(20), deadline=None)
@given(gap=st.integers(1, 12), epochs=inputs())
def test_operator_equals_model(pending: int, due: int, gap: int, epochs: list[Epoch]) -> None:
    epochs = numbered(epochs)
    model = WindowModel(EventTimeSessionWindows.with_gap(gap), rank=RANKS.__getitem__)
    run_model(model, epochs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_windows, "_WAITING_ROWS", pending)
        patch.setattr(session_windows, "_DUE_ROWS", due)
        run, counting = driver(gap), driver(gap, None)
        run_driver(run, epochs)
        run_driver(counting, epochs)
    assert run.out.rows == counting.out.rows == [expected(fired) for fired in model.fired]
    assert [row[-1] for row in run.out.side("late")] == [row["value"] for row in model.late]
    assert counting.counters.get("numLateRecordsDropped", 0) == len(model.late)
    assert is_empty(run), "what has fired is not kept"


LATENESS = st.sampled_from([1, 3, 8, 30, MAX_WATERMARK])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("pending", "due"), [(1, 1), (3, 2), (1 << 19, 1 << 19)])
@settings(max_examples=draws(15), deadline=None)
@given(gap=st.integers(1, 12), lateness=LATENESS, discards=st.booleans(), epochs=inputs())
def test_sessions_that_stay_for_late_records(
    pending: int, due: int, gap: int, lateness: int, discards: bool, epochs: list[Epoch]
) -> None:
    """As the model has it; and what is held, as the operator has it that goes record by record."""
    epochs = numbered(epochs)
    trigger = PurgingTrigger.of(EventTimeTrigger()) if discards else EventTimeTrigger()
    sessions = EventTimeSessionWindows.with_gap(gap)
    model = WindowModel(sessions, trigger, lateness=lateness, rank=RANKS.__getitem__)
    run_model(model, epochs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_windows, "_WAITING_ROWS", pending)
        patch.setattr(session_windows, "_DUE_ROWS", due)
        run = Driver(partial(SessionWindowOperator, COLUMNAR, gap, "late", lateness, discards=discards))
        run_driver(run, epochs[:-1])
        run_driver(run, epochs[-1:])
    assert run.out.rows == [expected(fired) for fired in model.fired]
    assert [row[-1] for row in run.out.side("late")] == [row["value"] for row in model.late]
    assert is_empty(run)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tag", [None, "late"])
@settings(max_examples=draws(10), deadline=None)
@given(gap=st.integers(1, 12), lateness=LATENESS, discards=st.booleans(), epochs=inputs())
def test_columns_of_sessions_that_stay_give_what_records_give(
    tag: str | None, gap: int, lateness: int, discards: bool, epochs: list[Epoch]
) -> None:
    trigger = PurgingTrigger.of(EventTimeTrigger()) if discards else None
    given = Windows(EventTimeSessionWindows.with_gap(gap), trigger, None, lateness)
    by_records = one_by_one(given, MANY, tag)
    columns = layout(given, MANY)
    by_columns = Driver(partial(SessionWindowOperator, columns, gap, tag, lateness, discards=discards), type=ELEMENT)
    for run in (by_records, by_columns):
        run_driver(run, numbered(epochs)[:-1])
    assert sorted(map(repr, by_columns.held())) == sorted(map(repr, by_records.held()))
    for run in (by_records, by_columns):
        run_driver(run, epochs[-1:])
    assert by_columns.out.rows == by_records.out.rows
    assert by_columns.counters == by_records.counters
    if tag:
        assert by_columns.out.side(tag) == by_records.out.side(tag)


@pytest.mark.parametrize("tag", [None, "late"])
@settings(max_examples=draws(12), deadline=None)
@given(gap=st.integers(1, 12), epochs=inputs())
def test_columns_give_what_records_give(tag: str | None, gap: int, epochs: list[Epoch]) -> None:
    given = Windows(EventTimeSessionWindows.with_gap(gap), None, None, 0)
    by_records = one_by_one(given, MANY, tag)
    columns = layout(given, MANY)
    by_columns = Driver(partial(SessionWindowOperator, columns, gap, tag), type=ELEMENT)
    for run in (by_records, by_columns):
        run_driver(run, numbered(epochs))
    assert by_columns.out.rows == by_records.out.rows
    assert by_columns.counters == by_records.counters
    if tag:
        assert by_columns.out.side(tag) == by_records.out.side(tag)


@pytest.mark.parametrize(
    ("arrivals", "sessions"),
    [
        ([1, 2, 3, 4, 8, 9, 15], [(1, 14, 6), (15, 20, 1)]),  # WI-36
        ([0, 8, 4], [(0, 13, 3)]),  # WI-38
        ([-9, -12, -20], [(-20, -15, 1), (-12, -4, 2)]),
    ],
)
def test_known_answers(arrivals: list[int], sessions: list[tuple[int, int, int]]) -> None:
    run = driver(5)
    for time in arrivals:
        run.run([[Record(1, 1.0, time)]])
    run.run([], upto=1000)
    assert [(start, end, count) for _, _, _, start, end, count, *_ in run.out.rows] == sessions


def test_only_what_is_touched_is_written() -> None:
    """Of many open sessions those of two keys grow; another epoch later one of the others fires."""
    run = driver(1000)
    run.run([[Record(key, 1.0, key % 7) for key in range(5000)]], upto=0)
    run.run([[Record(3, 1.0, 500), Record(4, 1.0, 500)], [Record(5, 1.0, -2000, 0)]], upto=0)
    assert [r.rows for r in run.state.stores["sessions"].runs] == [5000, 2]
    run.run([], upto=999)
    fired = [key for _, _, key, *_ in run.out.rows]
    assert len(fired) == 5000 // 7 + 1
    assert [r.rows for r in run.state.stores["sessions"].runs] == [5000, 2 + len(fired)]
    run.run([], upto=10_000)
    assert len(run.out.rows) == 5000
    assert is_empty(run)


EVENT = Types.TUPLE([Types.STRING(), Types.STRING()])


def visits(job: JobHarness) -> None:
    windows = job.add_source("visits", EVENT).key_by("f0").window(EventTimeSessionWindows.with_gap(10))
    job.add_sink("out", windows.aggregate(count(), listagg("f1")).uid("sessions"))


def test_a_job_goes_on_with_open_sessions_at_another_parallelism() -> None:
    users = [f"user {number} ü" for number in range(50)]
    with JobHarness(visits, parallelism=2) as job:
        for page, time in [("a", 0), ("b", 7)]:
            for user in users:
                job.push("visits", (user, page), time)
            job.run_epoch()
        checkpoint = job.checkpoint()
    with JobHarness(visits, parallelism=3, restore=checkpoint) as job:
        for user in users[::2]:
            job.push("visits", (user, "c"), 17)
        job.run_epoch()
        job.finish()
        rows = sorted(tuple(row) for row in job.results("out"))
    assert rows == sorted(
        (user, 0, 27, 3, "a,b,c") if number % 2 == 0 else (user, 0, 17, 2, "a,b") for number, user in enumerate(users)
    )


def stays(lateness: int, trigger: EventTimeTrigger | None, job: JobHarness) -> None:
    windows = job.add_source("visits", EVENT).key_by("f0").window(EventTimeSessionWindows.with_gap(10))
    windows.allowed_lateness(lateness)
    if trigger is not None:
        windows.trigger(trigger)
    job.add_sink("out", windows.aggregate(count(), listagg("f1")).uid("sessions"))


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (100, 100, [("a", 0, 18, 3, "1,2,3")]),  # fires at its new end
        (100, 0, [("a", 8, 18, 1, "3")]),  # what has fired is gone
        (0, 100, [("a", 8, 18, 1, "3")]),
        (5, 1000, [("a", 0, 18, 3, "1,2,3")]),
    ],
)
def test_the_allowed_lateness_may_change(before: int, after: int, wanted: list[Any]) -> None:
    with JobHarness(partial(stays, before, None)) as job:
        job.push("visits", ("a", "1"), 0)
        job.push("visits", ("a", "2"), 1)
        job.advance_watermark("visits", 13)
        job.run_epoch()
        assert [tuple(row) for row in job.results("out")] == [("a", 0, 11, 2, "1,2")]
        checkpoint = job.checkpoint()
    with JobHarness(partial(stays, after, None), restore=checkpoint) as job:
        job.push("visits", ("a", "3"), 8)
        job.finish()
        assert [tuple(row) for row in job.results("out")] == wanted


class Derived(EventTimeTrigger):
    """The same, of which nobody knows: sessions go record by record."""


def test_sessions_that_were_kept_record_by_record_are_refused() -> None:
    with JobHarness(partial(stays, 5, Derived())) as job:
        job.push("visits", ("a", "1"), 0)
        checkpoint = job.checkpoint()
    with pytest.raises(StateMigrationError, match="of their own, and now they are sessions, computed column by column"):
        first_epoch(partial(stays, 5, None), checkpoint)


def test_sessions_of_all_records() -> None:
    def build(job: JobHarness) -> None:
        windows = job.add_source("visits", EVENT).window_all(EventTimeSessionWindows.with_gap(10))
        job.add_sink("out", windows.aggregate(count(), listagg("f1")))

    with JobHarness(build, parallelism=2) as job:
        for time in (1, 40, 7, 45, 17):
            job.push("visits", (f"user {time}", str(time)), time)
        job.finish()
        assert [tuple(row) for row in job.results("out")] == [(1, 27, 3, "1,7,17"), (40, 55, 2, "40,45")]


def test_a_sum_that_does_not_fit_is_an_error_when_the_session_fires() -> None:
    def build(job: JobHarness) -> None:
        source = job.add_source("numbers", Types.TUPLE([Types.STRING(), Types.LONG()]))
        windows = source.key_by("f0").window(EventTimeSessionWindows.with_gap(10))
        job.add_sink("out", windows.aggregate(sum("f1")))

    with JobHarness(build) as job:
        job.push("numbers", ("a", 2**62), 1)
        job.run_epoch()
        job.push("numbers", ("a", 2**62), 2)
        job.run_epoch()
        with pytest.raises(Exception, match="sum"):
            job.finish()


def test_runs_are_merged_as_they_count() -> None:
    """A key without sessions hides what an older run says of it, and is left out where there is none."""
    run = driver(100)
    run.run([[Record(1, 1.0, 0), Record(1, 1.0, 500), Record(2, 1.0, 0)]], upto=0)
    run.run([[Record(1, 1.0, 300)]], upto=0)
    run.run([], upto=99)
    batches = [each.batch for each in run.state.stores["sessions"].runs]
    told = pa.Table.from_batches([newest_of_keys({}, batches)]).select(["key", "window_start", "live"]).to_pylist()
    assert [tuple(row.values()) for row in told if row["live"]] == [(1, 300, True), (1, 500, True)]
    layout = run.state.stores["sessions"].runs[0].meta
    runs = [Run(Section(batch), layout, ALL_HASHES) for batch in batches]
    merged, _ = merge_runs(runs, is_oldest=True, now=0)
    assert merged is not None
    assert merged.column("window_start").to_pylist() == [300, 500]
