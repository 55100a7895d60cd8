"""Clocks that jump, are turned back, or have daylight saving: nothing fires twice, too early, or never."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Time, Types
from headrace.common.errors import InvalidProgramError
from headrace.datastream import KeyedProcessFunction, aggregates
from headrace.datastream.window import TumblingProcessingTimeWindows
from headrace.testing import JobHarness
from tests.draws import draws
from tests.windowing.model import WindowModel

HOUR = 3_600_000
START = 1_700_000_000_000
RECORD = Types.TUPLE([Types.STRING(), Types.LONG()])
HOURLY = TumblingProcessingTimeWindows.of(Time.hours(1))
BERLIN = ZoneInfo("Europe/Berlin")

JUMPS = st.tuples(st.sampled_from([1, 999, HOUR // 2, HOUR - 1, HOUR, 5 * HOUR]), st.just(False))
RESTARTS = st.tuples(st.sampled_from([-5 * HOUR, -HOUR, -1, 0, 1, HOUR]), st.just(True))
FAULTS = st.lists(st.tuples(st.one_of(JUMPS, RESTARTS), st.sampled_from(["", "a", "ab", "aa"])), max_size=8)
"""By how much the clock of the machine moves, and whether the job is down meanwhile; and the records that come then."""


class Alarms(KeyedProcessFunction):
    """An alarm half an hour after each record; says what the clock shows then."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[Any]:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + HOUR // 2)
        return []

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> list[Any]:
        return [(f"{ctx.get_current_key()} at {ctx.timer_service().current_processing_time()}", timestamp)]


def by_function(windows: Any) -> Any:
    return windows.apply(lambda key, window, held: [(key, window.start, sum(n for _, n in held))])


def by_columns(windows: Any) -> Any:
    counted = windows.aggregate(aggregates.sum("f1").alias("n"))
    return counted.map(lambda row: (row["f0"], row["window_start"], row["n"]))


def build(job: JobHarness) -> None:
    keyed = job.add_source("records", RECORD).key_by(lambda record: record[0], Types.STRING())
    job.add_sink("alarms", keyed.process(Alarms(), RECORD).uid("alarms"))
    job.add_sink("by_function", by_function(keyed.window(HOURLY)))
    job.add_sink("by_columns", by_columns(keyed.window(HOURLY)))


@pytest.mark.slow
@settings(max_examples=draws(20), deadline=None)
@given(faults=FAULTS)
def test_every_timer_and_window_fires_once_however_the_clock_jumps(faults: Any) -> None:
    """The clock of the job is the latest that any of its machines has shown."""
    machine = reached = START
    model, alarms = WindowModel(HOURLY), Counter[tuple[str, int]]()
    results: dict[str, list[Any]] = {"alarms": [], "by_function": [], "by_columns": []}

    def take() -> None:
        for sink, taken in results.items():
            taken.extend(map(tuple, harness.take(sink)))
        harness.close()

    harness = JobHarness(build, processing_time=START)
    for (moved, is_down), keys in [*faults, ((10 * HOUR, False), "")]:
        if is_down:
            checkpoint = harness.checkpoint()
            take()
            machine += moved
            harness = JobHarness(build, restore=checkpoint, processing_time=machine)
        else:
            machine = max(machine, reached) + moved
            harness.run_epoch()
            harness.set_processing_time(machine)
        reached = max(reached, machine)
        harness.push_all("records", [(key, 1) for key in keys])
        harness.run_epoch()
        assert harness.processing_time() == reached
        model.advance_processing_time(reached)
        for key in keys:
            model.element(key, (key, 1), 0)
        alarms.update({(key, reached + HOUR // 2) for key in keys} - alarms.keys())
    take()
    fired = Counter((f.key, f.window.start, len(f.values)) for f in model.fired)
    assert Counter(results["by_function"]) == Counter(results["by_columns"]) == fired
    assert Counter((text[0], due) for text, due in results["alarms"]) == alarms
    assert all(int(text.split()[-1]) >= due for text, due in results["alarms"])


def hours(times: list[datetime]) -> list[tuple[str, int]]:
    """The hours, in universal time, that records fall into which come at these times, and how many are in each."""
    with JobHarness(build, processing_time=times[0]) as job:
        for time in times:
            job.set_processing_time(time)
            job.push("records", ("a", 1))
            job.run_epoch()
        job.advance_processing_time(HOUR)
        job.run_epoch()
        return [(f"{datetime.fromtimestamp(start / 1000, UTC):%H}", n) for _, start, n in job.results("by_columns")]


@pytest.mark.slow
def test_the_hour_that_is_left_out_in_spring_is_no_window() -> None:
    times = [datetime(2026, 3, 29, 1, 30, tzinfo=BERLIN), datetime(2026, 3, 29, 3, 30, tzinfo=BERLIN)]
    assert hours(times) == [("00", 1), ("01", 1)]


@pytest.mark.slow
def test_the_hour_that_comes_twice_in_autumn_is_two_windows() -> None:
    first, last = (datetime(2026, 10, 25, hour, 30, tzinfo=BERLIN) for hour in (1, 3))
    twice = [datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=fold) for fold in (0, 1)]
    assert hours([first, *twice, last]) == [("23", 1), ("00", 1), ("01", 1), ("02", 1)]


@pytest.mark.slow
def test_a_time_without_a_zone_is_refused() -> None:
    with JobHarness(build) as job:
        with pytest.raises(InvalidProgramError, match="has no time zone"):
            job.set_processing_time(datetime(2026, 3, 29, 2, 30))
        with pytest.raises(ValueError, match="cannot go back"):
            job.set_processing_time(datetime(1969, 12, 31, tzinfo=UTC))
