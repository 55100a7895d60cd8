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
