"""How often an epoch is tried again, and after which delay."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.jobmanager.failover import NO_RESTART, ExponentialDelay, FailureRate, FixedDelay, NextDelay
from headrace.time.clock import ManualClock

STEADY = ExponentialDelay(initial=1_000, maximum=5_000, multiplier=2.0, jitter=0.0, reset_after=80_000)


class Failing:
    """Something that fails each time, so many milliseconds after it was restarted."""

    def __init__(self, strategy: ExponentialDelay, seed: str = "job") -> None:
        self.clock = ManualClock(10**12)
        self.next_delay: NextDelay = strategy.begin(self.clock, Random(seed))

    def fails(self, after: int = 1) -> int | None:
        """The delay in milliseconds; it has passed when this returns."""
        self.clock.advance(after)
        delay = self.next_delay()
        if delay is None:
            return None
        self.clock.advance(round(delay * 1000))
        return round(delay * 1000)


def test_no_restart() -> None:
    assert NO_RESTART.begin(ManualClock(), Random(1))() is None


def test_fixed_delay() -> None:
    next_delay = FixedDelay(2, 0.5).begin(ManualClock(), Random(1))
    assert [next_delay() for _ in range(3)] == [0.5, 0.5, None]


def test_the_delay_grows_up_to_its_maximum() -> None:
    job = Failing(STEADY)
    assert [job.fails() for _ in range(5)] == [1_000, 2_000, 4_000, 5_000, 5_000]
    assert [job.fails() for _ in range(2_000)][-1] == 5_000, "the power is larger than any float by now"


def test_the_delay_is_cut_to_whole_milliseconds() -> None:
    job = Failing(ExponentialDelay(initial=4, maximum=300, multiplier=2.3, jitter=0.0))
    assert [job.fails() for _ in range(3)] == [4, 9, 21]


def test_after_a_time_without_failures_the_delay_begins_anew() -> None:
    job = Failing(STEADY)
    job.fails()
    assert job.fails(after=79_999) == 2_000
    assert job.fails(after=80_000) == 1_000
    assert job.fails() == 2_000, "it grows as before"


def test_failures_before_the_restart_are_one() -> None:
    job = Failing(replace(STEADY, attempts=2))
    for expected in (1.0, 2.0):
        job.clock.advance(1)
        assert job.next_delay() == expected
        job.clock.advance(400)
        assert job.next_delay() == expected - 0.4
        job.clock.advance(int(expected * 1000) - 400)
        assert job.next_delay() == 0.0
    job.clock.advance(1)
    assert job.next_delay() is None


def test_attempts_count_until_the_reset() -> None:
    job = Failing(replace(STEADY, attempts=3))
    assert [job.fails() for _ in range(3)] == [1_000, 2_000, 4_000]
    assert [job.fails(after=80_000), job.fails(), job.fails(), job.fails()] == [1_000, 2_000, 4_000, None]


def test_there_is_no_limit_of_attempts_unless_one_is_set() -> None:
    job = Failing(ExponentialDelay())
    assert None not in [job.fails() for _ in range(200)]


@pytest.mark.parametrize(
    ("strategy", "failures", "expected"),
    [
        (ExponentialDelay(2, 7, 2.0, 0.25), 2, {3, 4, 5}),
        (ExponentialDelay(2, 7, 2.0, 0.25), 3, {6, 7}),
        (ExponentialDelay(2, 7, 2.0, 0.25), 4, {7}),
        (ExponentialDelay(1, 7, 2.0, 1.0), 1, {1, 2}),
        (ExponentialDelay(1, 7, 2.0, 1.0), 2, {1, 2, 3, 4}),
        (ExponentialDelay(1, 7, 2.0, 1.0), 3, {1, 2, 3, 4, 5, 6, 7}),
    ],
)
def test_delays_vary_within_their_share(strategy: ExponentialDelay, failures: int, expected: set[int]) -> None:
    found = set()
    for number in range(200):
        job = Failing(strategy, f"job {number}")
        found.add([job.fails() for _ in range(failures)][-1])
    assert found == expected


def test_a_job_repeats_its_delays_and_others_have_their_own() -> None:
    first, again, other = (Failing(ExponentialDelay(), seed) for seed in ("a", "a", "b"))
    delays = [[job.fails() for _ in range(8)] for job in (first, again, other)]
    assert delays[0] == delays[1] != delays[2]


@given(
    st.builds(
        ExponentialDelay,
        initial=st.integers(1, 1_000),
        maximum=st.integers(1_000, 60_000),
        multiplier=st.floats(1.01, 10),
        jitter=st.floats(0, 1),
        reset_after=st.integers(1, 100_000),
    ),
    st.lists(st.integers(1, 100_000), max_size=30),
)
def test_delays_keep_their_bounds(strategy: ExponentialDelay, pauses: list[int]) -> None:
    job = Failing(strategy)
    for pause in pauses:
        delay = job.fails(pause)
        assert delay is not None
        assert strategy.initial <= delay <= strategy.maximum


def test_failure_rate() -> None:
    clock = ManualClock()
    next_delay = FailureRate(2, 10_000, 0.5).begin(clock, Random(1))
    assert next_delay() == 0.5
    clock.set(9_000)
    assert next_delay() == 0.5
    clock.set(10_500)  # the first one is forgotten
    assert next_delay() == 0.5
    clock.set(11_000)
    assert next_delay() is None
