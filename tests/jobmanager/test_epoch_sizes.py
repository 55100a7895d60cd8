"""How large epochs are."""

from __future__ import annotations

import random
from itertools import islice
from statistics import fmean
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.jobmanager.epoch_plan import EpochSizer
from headrace.jobmanager.settings import EpochLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def test_the_first_epoch_has_the_size_that_is_configured() -> None:
    assert EpochSizer(EpochLimits(10**9, 10**9, 1.0)).budget().records == 50_000
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0, first_records=70))
    assert sizer.budget().records == 70
    sizer.observe(70, 0.0001)
    assert sizer.budget().records == 1_000, "no epoch that is sized by time is smaller"
    assert EpochSizer(EpochLimits(20, 10**9, 1.0, first_records=70)).budget().records == 20


def run(sizer: EpochSizer, epochs: int, fixed: float, each: float, cold: float = 0.0) -> list[float]:
    """How long epochs take that a sizer sizes, when they cost what is said; ``cold`` is on top of the first one."""
    times = []
    for number in range(epochs):
        records = sizer.budget().records
        times.append(fixed + each * records)
        sizer.observe(records, times[-1] + (0.0 if number else cold))
    return times


def best_rate(target: float, fixed: float, each: float) -> float:
    """Records a second in epochs that keep to the target, or of which half is for records where that is not enough."""
    for_records = max(target - fixed, fixed)
    return for_records / each / (fixed + for_records)


FIXED = st.floats(0.0, 3.0)
EACH = st.floats(1e-7, 1e-4)
COLD = st.floats(0.0, 20.0)


@given(FIXED, EACH, COLD)
def test_epochs_come_to_the_best_size_and_take_little_longer_on_the_way(fixed: float, each: float, cold: float) -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0))
    times = run(sizer, 50, fixed, each, cold)
    read = (sum(times[-20:]) - 20 * fixed) / each
    assert read / sum(times[-20:]) >= 0.9 * best_rate(1.0, fixed, each)
    assert max(times[1:]) <= fixed + 4.0
    assert times[-1] <= max(1.1, 2.1 * fixed)


def test_a_cold_start_does_not_make_the_next_epoch_smaller_and_a_few_epochs_later_all_is_at_full_size() -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0))
    sizes = []
    for number in range(6):
        sizes.append(sizer.budget().records)
        sizer.observe(sizes[-1], 0.2 + sizes[-1] / 4_000_000 + (0.0 if number else 3.7))
    assert sizes[1] >= 50_000
    assert sizes[4] >= 0.9 * 0.8 * 4_000_000


@pytest.mark.parametrize(("seconds", "records"), [(1.6, 125_000), (4.0, 50_000), (16.0, 12_500), (0.1, 400_000)])
def test_the_second_epoch_takes_four_times_the_target_at_most_whatever_the_first_one_was_busy_with(
    seconds: float, records: int
) -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0))
    sizer.observe(50_000, seconds)
    assert sizer.budget().records == records


@pytest.mark.parametrize(("seconds", "records"), [(2.0, 10_000_000), (24.0, 5_000_000), (480.0, 250_000)])
def test_a_first_epoch_of_many_records_tells_enough_for_the_whole_target(seconds: float, records: int) -> None:
    """As in batch mode."""
    sizer = EpochSizer(EpochLimits(10_000_000, 10**9, 60.0, first_records=500_000))
    sizer.observe(500_000, seconds)
    assert sizer.budget().records == records


def test_a_short_epoch_whose_fixed_cost_is_not_known_yet_does_not_slow_down_growth() -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0))
    run(sizer, 2, 0.24, 1e-8, cold=3.7)
    assert sizer.budget().records == pytest.approx(8 * 50_000, rel=0.02)


def test_a_large_epoch_that_is_quicker_than_small_ones_have_told_is_believed_at_once() -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0))
    for records, seconds in ((50_000, 4.0), (50_000, 0.192), (400_000, 0.240), (3_200_000, 0.375)):
        assert sizer.budget().records == records
        sizer.observe(records, seconds)
    assert sizer.budget().records > 10_000_000


def test_a_first_epoch_of_slow_records_makes_the_next_one_smaller() -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0))
    sizer.observe(sizer.budget().records, 50.0)
    assert sizer.budget().records == pytest.approx(50_000 * 4 / 50)


@pytest.mark.parametrize("each", [0.01, 0.1, 1.0, 30.0])
def test_records_that_take_seconds_make_epochs_of_a_few(each: float) -> None:
    """A function that asks a slow service, say."""
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0, first_records=100))
    times = run(sizer, 20, 0.08, each)
    assert max(times[5:]) <= max(1.5, 0.08 + each)
    run(sizer, 12, 0.08, 1e-6)
    assert sizer.budget().records > 500_000, "and when it is quick again, there are more"


@given(FIXED, EACH, st.floats(2.5, 50.0))
def test_one_slow_epoch_is_forgotten(fixed: float, each: float, times_as_long: float) -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0))
    run(sizer, 15, fixed, each)
    before = sizer.budget().records
    sizer.observe(before, (fixed + each * before) * times_as_long)
    run(sizer, 8, fixed, each)
    after = sizer.budget().records
    assert after / (fixed + each * after) >= 0.9 * best_rate(1.0, fixed, each)


@given(st.floats(0.0, 0.9), st.floats(1e-7, 1e-5))
def test_records_that_have_become_ten_times_as_slow_are_believed_after_four_epochs(fixed: float, each: float) -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0))
    run(sizer, 15, fixed, each)
    slow = run(sizer, 10, fixed, 10 * each)
    assert slow[1] <= 0.7 * slow[0]
    assert slow[3] <= 3.5
    assert slow[-1] <= max(1.1, 2.1 * fixed)


@given(st.integers(0, 2**32), st.floats(0.05, 0.5), st.floats(1e-7, 1e-5))
def test_measurements_that_differ_by_a_tenth_cost_no_tenth_of_the_speed(seed: int, fixed: float, each: float) -> None:
    noise = random.Random(seed)
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0))
    read, took = 0, 0.0
    for number in range(60):
        records = sizer.budget().records
        seconds = (fixed + each * records) * noise.uniform(0.9, 1.1)
        sizer.observe(records, seconds)
        if number >= 10:
            read, took = read + records, took + seconds
            assert seconds <= 4.0
    assert read / took >= 0.9 * best_rate(1.0, fixed, each)


def test_epochs_at_the_limit_notice_that_records_have_become_slow() -> None:
    """All of one size, so nothing tells what is fixed."""
    sizer = EpochSizer(EpochLimits(100_000, 10**9, 1.0, first_records=100_000))
    run(sizer, 20, 0.0, 1e-6)
    run(sizer, 4, 0.0, 1e-4)
    assert sizer.budget().records == pytest.approx(10_000, rel=0.3)


def test_what_an_epoch_costs_whatever_its_size_does_not_make_it_smaller_and_smaller() -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, target_seconds=1.0))
    run(sizer, 30, 3.0, 1e-5)
    assert sizer.budget().records == pytest.approx(300_000, rel=0.05)


EACH_OF_MANY = 0.7 / 375_000
"""Seconds a record, where 375,000 of them take a second with the 0.3 s that an epoch costs without any."""


def some(noise: random.Random) -> Iterator[float]:
    while True:
        yield noise.choice((3.0, 8.0)) if noise.random() < 0.15 else 0.3


def half(noise: random.Random) -> Iterator[float]:
    while True:
        yield noise.choice((0.3, 0.3, 3.0, 8.0))


def by_turns(noise: random.Random) -> Iterator[float]:
    while True:
        yield from (0.3, noise.choice((3.0, 8.0)))


def bursts(noise: random.Random) -> Iterator[float]:
    while True:
        yield from (0.3 for _ in range(noise.randint(1, 8)))
        yield from (noise.choice((3.0, 8.0)) for _ in range(noise.randint(1, 4)))


@pytest.mark.parametrize("trace", [some, half, by_turns, bursts])
@pytest.mark.parametrize("seed", range(6))
def test_a_machine_that_is_busy_with_something_else_does_not_make_records_dear(
    trace: Callable[[random.Random], Iterator[float]], seed: int
) -> None:
    """At least half of what epochs of the best size read, knowing the mean cost; and none has more than it may."""
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0))
    sizes, fixed = [], []
    for number, cost in enumerate(islice(trace(random.Random(seed)), 120)):
        sizes.append(sizer.budget().records)
        fixed.append(cost)
        sizer.observe(sizes[-1], cost + sizes[-1] * EACH_OF_MANY + (0.0 if number else 5.0))
    mean = fmean(fixed[10:])
    rate = sum(sizes[10:]) / (sum(fixed[10:]) + sum(sizes[10:]) * EACH_OF_MANY)
    assert rate >= 0.5 * best_rate(1.0, mean, EACH_OF_MANY)
    assert max(sizes) * EACH_OF_MANY <= 2 * (1.0 + max(fixed))


@pytest.mark.parametrize("disturbed", [3.0, 8.0, 60.0])
def test_one_disturbed_epoch_takes_little_from_the_next_and_nothing_from_the_one_after(disturbed: float) -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0))
    run(sizer, 21, 0.3, EACH_OF_MANY)
    before = sizer.budget().records
    assert before == pytest.approx(375_000, rel=0.05)
    sizer.observe(before, disturbed + before * EACH_OF_MANY)
    after = sizer.budget().records
    assert before > after >= 0.3 * before
    sizer.observe(after, 0.3 + after * EACH_OF_MANY)
    assert sizer.budget().records == pytest.approx(before, rel=0.05)


def test_an_epoch_that_had_little_to_read_tells_nothing() -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0))
    before = sizer.budget()
    sizer.observe(10, 30.0)
    assert sizer.budget() == before


@given(st.lists(st.tuples(st.integers(0, 10**7), st.floats(0, 100)), max_size=20), st.integers(1, 10**6))
def test_the_limit_is_kept(epochs: list[tuple[int, float]], limit: int) -> None:
    sizer = EpochSizer(EpochLimits(limit, 10**6, 1.0))
    for records, seconds in epochs:
        before = sizer.budget().records
        sizer.observe(records, seconds)
        assert 1 <= sizer.budget().records <= min(limit, max(8 * before, 1000))
    assert sizer.budget().bytes == 10**6


def settled(target: float, *, fixed: float = 0.0, a_second: int = 100_000) -> EpochSizer:
    """One that has found out what epochs cost."""
    sizer = EpochSizer(EpochLimits(10**9, 10**9, target))
    for _ in range(20):
        records = sizer.budget().records
        sizer.observe(records, fixed + records / a_second)
    return sizer


@pytest.mark.parametrize(
    ("seconds_left", "records"),
    [(0.2, 20_000), (5.0, 500_000), (10.0, 1_000_000), (60.0, 1_000_000), (None, 1_000_000), (0.001, 10_000)],
)
def test_an_epoch_is_over_when_a_timer_is_due(seconds_left: float | None, records: int) -> None:
    """Of epochs that take ten seconds otherwise; and no timer makes one shorter than a tenth of a second."""
    assert settled(10.0).budget(seconds_left).records == pytest.approx(records, rel=0.01)


def test_timers_do_not_leave_an_epoch_with_its_fixed_cost_only() -> None:
    """Three times the fixed cost is the least, so two thirds are for records."""
    sizer = settled(10.0, fixed=1.0)
    for _ in range(3):
        for seconds_left in (None, 0.2):  # two sizes, which tell what is fixed
            records = sizer.budget(seconds_left).records
            sizer.observe(records, 1.0 + records / 100_000)
    assert sizer.budget(0.2).records == pytest.approx(200_000, rel=0.1)


def test_a_job_that_always_has_a_timer_finds_its_size_all_the_same() -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0))
    for _ in range(20):
        records = sizer.budget(0.1).records
        sizer.observe(records, records / 1_000_000)
    assert sizer.budget(0.1).records == pytest.approx(100_000, rel=0.01)
    assert sizer.budget().records == pytest.approx(1_000_000, rel=0.01)
