"""How large epochs are, and how often one is tried."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.jobmanager.epoch_size import EpochLimits, EpochSizer
from headrace.jobmanager.restart import ExponentialDelay, FailureRate, FixedDelay, NoRestart


def test_epochs_come_to_take_as_long_as_they_should() -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, target_seconds=2.0))
    for _ in range(12):
        records = sizer.budget().records
        sizer.took(records, records / 100_000)
    assert sizer.budget().records == pytest.approx(200_000, rel=0.01)
    for _ in range(20):
        records = sizer.budget().records
        sizer.took(records, records / 10_000)  # has become ten times as slow
    assert sizer.budget().records == pytest.approx(20_000, rel=0.01)


def test_what_an_epoch_costs_whatever_its_size_does_not_make_it_smaller_and_smaller() -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, target_seconds=1.0))
    for _ in range(30):
        records = sizer.budget().records
        sizer.took(records, 3.0 + records / 100_000)
    assert sizer.budget().records == pytest.approx(50_000, rel=0.05)


def test_an_epoch_that_had_little_to_read_tells_nothing() -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0))
    before = sizer.budget()
    sizer.took(10, 30.0)
    assert sizer.budget() == before


@given(st.lists(st.tuples(st.integers(0, 10**7), st.floats(0, 100)), max_size=20), st.integers(1, 10**6))
def test_the_limit_is_kept(epochs: list[tuple[int, float]], limit: int) -> None:
    sizer = EpochSizer(EpochLimits(limit, 10**6, 1.0))
    for records, seconds in epochs:
        before = sizer.budget().records
        sizer.took(records, seconds)
        assert 1 <= sizer.budget().records <= min(limit, max(4 * before, 1000))
    assert sizer.budget().bytes == 10**6


def test_no_restart() -> None:
    assert NoRestart().delay_after(1) is None


def test_fixed_delay() -> None:
    strategy = FixedDelay(2, 0.5)
    assert [strategy.delay_after(attempt) for attempt in (1, 2, 3)] == [0.5, 0.5, None]


def test_exponential_delay() -> None:
    strategy = ExponentialDelay(1.0, 5.0, 2.0, attempts=4)
    assert [strategy.delay_after(attempt) for attempt in range(1, 6)] == [1.0, 2.0, 4.0, 5.0, None]


def test_failure_rate() -> None:
    now = 0.0
    strategy = FailureRate(2, 10.0, 0.5, lambda: now)
    assert strategy.delay_after(1) == 0.5
    now = 9.0
    assert strategy.delay_after(1) == 0.5
    now = 10.5  # the first one is forgotten
    assert strategy.delay_after(1) == 0.5
    now = 11.0
    assert strategy.delay_after(1) is None
