"""What PyFlink's own tests of asynchronous functions ask for, with shorter waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headrace.common import Row, Time, Types
from headrace.common.errors import HeadraceError
from headrace.datastream import (
    AsyncBatchFunction,
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    DataStream,
)
from tests.pyflink.jobs import BY_SECOND, INT, collected, environment

PAIRS = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]
SUMS = [2, 4, 6, 8, 10]


def pairs() -> DataStream:
    env = environment()
    env.set_parallelism(1)
    return env.from_collection(PAIRS, type_info=Types.ROW_NAMED(["v1", "v2"], [INT, INT]))


class Sum(AsyncFunction):
    """The sum of two fields, sooner for later records."""

    async def async_invoke(self, value: Row) -> Any:
        await asyncio.sleep(0.01 / value[0])
        return [value[0] + value[1]]

    def timeout(self, value: Row) -> Any:
        return [value[0] + value[1]]


class Slow(Sum):
    async def async_invoke(self, value: Row) -> Any:
        await asyncio.sleep(60)
        return []


class Difference(Slow):
    def timeout(self, value: Row) -> Any:
        return [value[0] - value[1]]


class Bad(Sum):
    """Gives something else."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    async def async_invoke(self, value: Row) -> Any:
        return self._make()


class BadTimeout(Slow):
    def timeout(self, value: Row) -> Any:
        raise ValueError("encountered an exception")


def fails() -> Any:
    raise ValueError("encountered an exception")


def test_ordered_and_unordered() -> None:
    assert collected(AsyncDataStream.ordered_wait(pairs(), Sum(), Time.seconds(60), 2, INT)) == SUMS
    assert sorted(collected(AsyncDataStream.unordered_wait(pairs(), Sum(), Time.seconds(60), 2, INT))) == SUMS


def test_with_watermarks() -> None:
    timed = pairs().assign_timestamps_and_watermarks(BY_SECOND)
    assert collected(AsyncDataStream.unordered_wait(timed, Sum(), Time.seconds(60), 2, INT)) == SUMS


def test_timeouts() -> None:
    slow = AsyncDataStream.unordered_wait(pairs(), Difference(), Time.milliseconds(10), 2, INT)
    assert collected(slow) == [0] * 5


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (Bad(lambda: 7), "The result of AsyncFunction should be of list type, not an int: return a list"),
        (Bad(lambda: None), "The result of AsyncFunction cannot be none: return a list"),
        (Bad(fails), "encountered an exception"),
        (BadTimeout(), "encountered an exception"),
    ],
)
def test_what_fails(function: AsyncFunction, told: str) -> None:
    stream = AsyncDataStream.unordered_wait(pairs(), function, Time.milliseconds(50), 2, INT)
    with pytest.raises(HeadraceError, match=told):
        collected(stream)


class Reluctant(Sum):
    """Fails the first time, and is odd the second time."""

    def __init__(self) -> None:
        self.asked: dict[Any, int] = {}

    async def async_invoke(self, value: Row) -> Any:
        count = self.asked[value[0]] = self.asked.get(value[0], 0) + 1
        if count == 1:
            raise ValueError("failed the first time")
        return [value[0] + value[1] + (count == 2)]


def test_retries() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(
        max_attempts=5,
        backoff_time_millis=1,
        result_predicate=lambda result: result[0] % 2 == 1,
        exception_predicate=lambda error: "failed the first time" in str(error),
    )
    found = AsyncDataStream.unordered_wait_with_retry(pairs(), Reluctant(), Time.seconds(60), strategy, 2, INT)
    assert collected(found) == SUMS


class BatchSum(AsyncBatchFunction):
    async def async_invoke_batch(self, inputs: list[Row]) -> Any:
        await asyncio.sleep(0.001)
        return [row[0] + row[1] for row in inputs]


class SlowBatch(AsyncBatchFunction):
    async def async_invoke_batch(self, inputs: list[Row]) -> Any:
        await asyncio.sleep(60)
        return []

    def timeout_batch(self, inputs: list[Row]) -> Any:
        return [0 for _ in inputs]


class BadBatch(AsyncBatchFunction):
    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    async def async_invoke_batch(self, inputs: list[Row]) -> Any:
        return self._make()


@pytest.mark.parametrize("wait", [AsyncDataStream.unordered_wait_batch, AsyncDataStream.ordered_wait_batch])
@pytest.mark.parametrize(("size", "timeout"), [(2, None), (3, None), (10, Time.milliseconds(1))])
def test_batches(wait: Callable[..., DataStream], size: int, timeout: Time | None) -> None:
    stream = wait(
        pairs(), BatchSum(), timeout=Time.seconds(60), batch_size=size, batch_timeout=timeout, output_type=INT
    )
    assert collected(stream) == SUMS


def test_batches_that_take_too_long() -> None:
    stream = AsyncDataStream.unordered_wait_batch(
        pairs(), SlowBatch(), timeout=Time.milliseconds(10), batch_size=2, output_type=INT
    )
    assert collected(stream) == [0] * 5


@pytest.mark.parametrize(
    ("make", "told"),
    [(lambda: 42, "of list type, not an int"), (lambda: None, "cannot be none"), (fails, "encountered")],
)
def test_batches_that_fail(make: Callable[[], Any], told: str) -> None:
    stream = AsyncDataStream.unordered_wait_batch(
        pairs(), BadBatch(make), timeout=Time.seconds(60), batch_size=2, output_type=INT
    )
    with pytest.raises(HeadraceError, match=told):
        collected(stream)


def test_what_is_refused() -> None:
    class NotAsync(AsyncBatchFunction):
        def async_invoke_batch(self, inputs: list[Row]) -> Any:  # type: ignore[override]
            return inputs

    with pytest.raises(HeadraceError, match="batch_size has to be positive"):
        AsyncDataStream.unordered_wait_batch(pairs(), BatchSum(), Time.seconds(1), batch_size=-1)
    with pytest.raises(HeadraceError, match="async def"):
        AsyncDataStream.unordered_wait_batch(pairs(), NotAsync(), Time.seconds(1), batch_size=2)
