"""Requests that are made again: how often, when, and for how long altogether."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from headrace.common import Time
from headrace.common.errors import InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.datastream import AsyncDataStream, AsyncRetryPredicate, AsyncRetryStrategy, DataStream
from headrace.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from headrace.datastream.async_retry_strategies import (
    NO_RETRY_STRATEGY,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
)
from tests.operators.asynchronous.services import LONG, MINUTE, Service, answers, asked, harness

ways = pytest.mark.parametrize(
    "wait",
    [AsyncDataStream.ordered_wait_with_retry, AsyncDataStream.unordered_wait_with_retry],
    ids=["ordered", "unordered"],
)

Wait = Callable[..., DataStream]


class Flaky(Service):
    """Fails so many times for each record, in one of two ways, and then answers how often it was asked."""

    def __init__(self, times: int, *, empty: bool = False) -> None:
        self._times = times
        self._empty = empty

    async def answer(self, value: int) -> list[int]:
        count = asked.count(value)
        if count > self._times:
            return [count]
        if self._empty:
            return []
        raise ConnectionError(f"away the {count}. time")

    def timeout(self, value: int) -> list[int]:
        return [-value]


def retrying(
    wait: Wait, function: Service, strategy: AsyncRetryStrategy, timeout: int = MINUTE
) -> Callable[[DataStream], DataStream]:
    return lambda stream: wait(stream, function, timeout, strategy, 2, LONG)


@ways
def test_attempts_after_exceptions(wait: Wait) -> None:
    strategy = AsyncRetryStrategy.fixed_delay(3, 1, None, has_exception_predicate)
    with harness(retrying(wait, Flaky(2), strategy)) as job:
        job.push_all("in", [10, 20, 30])
        job.run_epoch()
        assert job.take("out") == [3, 3, 3]
        assert job.counters()["numAsyncRetries"] == 6


@ways
def test_attempts_after_results(wait: Wait) -> None:
    strategy = AsyncRetryStrategy.exponential_backoff(3, 1, 4, 2.0, empty_result_predicate, None)
    assert answers(retrying(wait, Flaky(3, empty=True), strategy), [10, 20]) == [4, 4]


def test_the_last_exception_is_told_when_attempts_run_out() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(2, 1, None, has_exception_predicate)
    with pytest.raises(UserFunctionError, match=r"away the 3\. time"):
        answers(retrying(AsyncDataStream.unordered_wait_with_retry, Flaky(9), strategy), [10])


def test_the_last_result_counts_when_attempts_run_out() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(2, 1, empty_result_predicate, None)
    assert answers(retrying(AsyncDataStream.unordered_wait_with_retry, Flaky(9, empty=True), strategy), [10]) == []
    assert asked == [10] * 3


class Yields(Service):
    """Gives an iterator of its results, of which there are some at the second attempt."""

    async def answer(self, value: int) -> Any:
        return (value for _ in range(asked.count(value) - 1))


def test_predicates_see_the_list_of_results() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(2, 1, lambda results: len(results) == 0)
    assert answers(retrying(AsyncDataStream.unordered_wait_with_retry, Yields(), strategy), [10]) == [10]


def test_a_predicate_of_results_that_fails_is_told_and_no_reason_for_another_attempt() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(2, 1, lambda results: results[0] > 1, has_exception_predicate)
    with pytest.raises(UserFunctionError, match=r"(?s)IndexError.*test_retries.py:\d+ in <lambda>.*record: 10"):
        answers(retrying(AsyncDataStream.unordered_wait_with_retry, Yields(), strategy), [10])
    assert asked == [10]


def test_what_no_predicate_asks_for_is_not_tried_again() -> None:
    of_values = partial(exception_type_predicate, expected_error_type=ValueError)
    strategy = AsyncRetryStrategy.fixed_delay(2, 1, empty_result_predicate, of_values)
    with pytest.raises(UserFunctionError, match=r"away the 1\. time"):
        answers(retrying(AsyncDataStream.unordered_wait_with_retry, Flaky(9), strategy), [10])


@ways
def test_the_timeout_covers_all_attempts(wait: Wait) -> None:
    strategy = AsyncRetryStrategy.fixed_delay(1_000_000, 1, None, has_exception_predicate)
    assert answers(retrying(wait, Flaky(1_000_000), strategy, timeout=30), [10, 20, 30]) == [-10, -20, -30]


class Translates(Flaky):
    """Makes something else of a cancellation, as clients of services do: raises another error, or gives nothing."""

    async def answer(self, value: int) -> list[int]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if value == 10:
                raise ConnectionError("cancelled") from None
        return []


@ways
def test_a_request_whose_time_is_over_is_not_made_again(wait: Wait) -> None:
    strategy = AsyncRetryStrategy.fixed_delay(5, 1, empty_result_predicate, has_exception_predicate)
    assert answers(retrying(wait, Translates(0), strategy, timeout=20), [10, 20]) == [-10, -20]
    assert sorted(asked) == [10, 20]


class Patient(AsyncRetryStrategy):
    """Tries again as long as there is no result."""

    def can_retry(self, current_attempts: int) -> bool:
        return True

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return current_attempts

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return FixedDelayRetryStrategy(1, 1, empty_result_predicate, has_exception_predicate).get_retry_predicate()


def test_a_strategy_of_the_program() -> None:
    assert answers(retrying(AsyncDataStream.unordered_wait_with_retry, Flaky(4), Patient()), [10]) == [5]


class Unsure(Patient):
    def get_retry_predicate(self) -> AsyncRetryPredicate:
        raise ValueError("there is no predicate")


def test_a_strategy_of_the_program_that_fails_is_told() -> None:
    with pytest.raises(UserFunctionError, match=r"there is no predicate\n *at .*test_retries.py:\d+ in get_retry_pre"):
        answers(retrying(AsyncDataStream.unordered_wait_with_retry, Flaky(4), Unsure()), [10])


def test_the_delays_of_strategies() -> None:
    growing = ExponentialBackoffDelayRetryStrategy(5, 10, 50, 2.0, None, None)
    assert [growing.get_backoff_time_millis(attempts) for attempts in (1, 2, 3, 4, 5)] == [10, 20, 40, 50, 50]
    assert growing.get_backoff_time_millis(2) == 20  # whatever was asked before: records share the strategy
    assert [growing.can_retry(attempts) for attempts in (1, 5, 6)] == [True, True, False]
    fixed = AsyncRetryStrategy.fixed_delay(1, Time.seconds(2))
    assert fixed.get_backoff_time_millis(1) == 2_000
    assert AsyncRetryStrategy.exponential_backoff(1, Time.seconds(1), 5_000, 2.0).get_backoff_time_millis(2) == 2_000
    assert AsyncRetryStrategy.no_restart() is NO_RETRY_STRATEGY
    assert not NO_RETRY_STRATEGY.can_retry(1)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: AsyncRetryStrategy.fixed_delay(0, 1), "fixed_delay: max_attempts has to be greater than zero, not 0"),
        (lambda: AsyncRetryStrategy.fixed_delay(1, 0), "backoff_time_millis has to be greater than zero"),
        (lambda: FixedDelayRetryStrategy("3", 1), "fixed_delay: max_attempts takes an int, not '3'"),
        (lambda: AsyncRetryStrategy.exponential_backoff(1, 1, 1, 0.0), "multiplier has to be greater than zero"),
        (lambda: AsyncRetryStrategy.exponential_backoff(1, 1, 9, 0.5), "with a multiplier of 0.5 pauses would shrink"),
        (lambda: AsyncRetryStrategy.exponential_backoff(1, 900, 10, 2.0), "of 900 ms is above the max_retry_delay of"),
        (lambda: AsyncRetryStrategy.fixed_delay(1, "1 s"), "backoff_time_millis: expected a Duration"),
        (
            lambda: AsyncRetryStrategy.fixed_delay(1, 1, True),
            "result_predicate takes a function, not True",
        ),
        (
            lambda: AsyncRetryStrategy.fixed_delay(1, 1, exception_predicate=lambda: True),
            "does not take what exception_predicate is called with: write a function of (exception)",
        ),
    ],
)
def test_strategies_that_are_refused(make: Callable[[], Any], told: str) -> None:
    with pytest.raises((InvalidProgramError, InvalidTypeError), match=re.escape(told)) as raised:
        make()
    assert "test_retries.py" in str(raised.value)


def test_retries_need_a_timeout_and_a_strategy() -> None:
    async def same(number: int) -> list[int]:
        await asyncio.sleep(0)
        return [number]

    def apply(timeout: int, strategy: Any) -> Callable[[DataStream], DataStream]:
        return lambda stream: AsyncDataStream.unordered_wait_with_retry(stream, same, timeout, strategy)

    with pytest.raises(InvalidProgramError, match="requests that are made again need one, which covers all attempts"):
        answers(apply(0, AsyncRetryStrategy.fixed_delay(1, 1)), [1])
    with pytest.raises(InvalidTypeError, match="async_retry_strategy takes an AsyncRetryStrategy, not None"):
        answers(apply(1, None), [1])
