"""How large epochs are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.jobmanager.epoch_size import EpochLimits, EpochSizer


def test_the_first_epoch_has_the_size_that_is_configured() -> None:
    assert EpochSizer(EpochLimits(10**9, 10**9, 1.0)).budget().records == 50_000
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0, first_records=70))
    assert sizer.budget().records == 70
    sizer.took(70, 0.0001)
    assert sizer.budget().records == 1_000, "no epoch that is sized by time is smaller"
    assert EpochSizer(EpochLimits(20, 10**9, 1.0, first_records=70)).budget().records == 20


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


def settled(target: float, *, fixed: float = 0.0, a_second: int = 100_000) -> EpochSizer:
    """One that has found out what epochs cost."""
    sizer = EpochSizer(EpochLimits(10**9, 10**9, target))
    for _ in range(20):
        records = sizer.budget().records
        sizer.took(records, fixed + records / a_second)
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
            sizer.took(records, 1.0 + records / 100_000)
    assert sizer.budget(0.2).records == pytest.approx(200_000, rel=0.1)


def test_a_job_that_always_has_a_timer_finds_its_size_all_the_same() -> None:
    sizer = EpochSizer(EpochLimits(10**9, 10**9, 1.0))
    for _ in range(20):
        records = sizer.budget(0.1).records
        sizer.took(records, records / 1_000_000)
    assert sizer.budget(0.1).records == pytest.approx(100_000, rel=0.01)
    assert sizer.budget().records == pytest.approx(1_000_000, rel=0.01)
