"""Several records in one request: which of them, and what becomes of their results."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from headrace.common.errors import InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.datastream import AsyncBatchFunction, AsyncDataStream, DataStream
from headrace.operators.asynchronous.requests import RecordIntake, RequestedBatch, RequestGrouping
from headrace.testing import JobHarness
from tests.operators.asynchronous.services import LONG, MINUTE, answers, asked, batch_of, harness

Wait = Callable[..., DataStream]

ways = pytest.mark.parametrize(
    "wait", [AsyncDataStream.ordered_wait_batch, AsyncDataStream.unordered_wait_batch], ids=["ordered", "unordered"]
)


class Model(AsyncBatchFunction):
    """Gives how many records it was asked about, with each of them."""

    async def async_invoke_batch(self, inputs: list[int]) -> list[int]:
        asked.append(inputs)
        return [value * 10 + len(inputs) for value in inputs]


class Mute(Model):
    """Gives nothing for the batches with number 2."""

    async def async_invoke_batch(self, inputs: list[int]) -> list[int]:
        if 2 in inputs:
            await asyncio.Event().wait()
        return await super().async_invoke_batch(inputs)

    def timeout_batch(self, inputs: list[int]) -> list[int]:
        return [-value for value in inputs]


def batched(
    wait: Wait, function: Any, size: int = 3, timeout: int = MINUTE, **more: Any
) -> Callable[[DataStream], DataStream]:
    return lambda stream: wait(stream, function, timeout, size, output_type=LONG, **more)


@ways
def test_records_share_requests_until_the_epoch_ends(wait: Wait) -> None:
    found = answers(batched(wait, Model()), [1, 2, 3, 4, 5], [6])
    assert found == [13, 23, 33, 42, 52, 61]
    assert sorted(asked) == [[1, 2, 3], [4, 5], [6]]


@ways
def test_each_result_has_the_time_of_its_record(wait: Wait) -> None:
    with harness(batched(wait, Model(), size=2)) as job:
        for number in (1, 2, 3):
            job.push("in", number, timestamp=number * 100)
        job.run_epoch()
        assert job.results_with_timestamps("out") == [(12, 100), (22, 200), (31, 300)]


@ways
def test_what_takes_too_long_is_replaced(wait: Wait) -> None:
    assert answers(batched(wait, Mute(), size=2, timeout=20), [1, 2, 3, 4, 5]) == [-1, -2, 32, 42, 51]


def test_without_a_replacement_the_job_fails() -> None:
    class Silent(Model):
        async def async_invoke_batch(self, inputs: list[int]) -> list[int]:
            await asyncio.Event().wait()
            return []

    with pytest.raises(UserFunctionError, match=r"no result in time: timeout_batch\(inputs\) was called for 2 records"):
        answers(batched(AsyncDataStream.unordered_wait_batch, Silent(), timeout=5), [7, 8])


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ([1], "1 results were returned for 2 records: return one for each, in their order"),
        (None, "The result of AsyncBatchFunction cannot be none: return a list, one for each record"),
        (42, "should be of list type, not an int"),
    ],
)
def test_what_a_function_may_not_return(returned: Any, told: str) -> None:
    async def wrong(inputs: list[int]) -> Any:
        return returned

    with pytest.raises(UserFunctionError, match=re.escape(told)) as raised:
        answers(batched(AsyncDataStream.unordered_wait_batch, wrong), [5, 6])
    assert "[5, 6]" in str(raised.value)


def test_small_batches_of_the_stream_become_full_requests() -> None:
    def job(job: JobHarness) -> None:
        numbers = job.add_source("in", LONG, splits=4)
        job.add_sink("out", AsyncDataStream.unordered_wait_batch(numbers.key_by(lambda n: 0), Model(), MINUTE, 2))

    with JobHarness(job) as running:
        for split in range(4):
            running.push("in", split, split=split)
        running.run_epoch()
    assert sorted(map(len, asked)) == [2, 2]


class Noted:
    """Stands for requests: notes which records they are for."""

    def __init__(self) -> None:
        self.requests: list[list[int]] = []

    def add(self, requests: list[Any]) -> None:
        self.requests += [request.argument for request in requests]


def test_records_wait_for_others_no_longer_than_is_said() -> None:
    async def intake(seconds: float | None) -> list[list[int]]:
        noted = Noted()
        taken = RecordIntake(noted, RequestGrouping(3, None if seconds is None else int(seconds * 1000)))  # type: ignore[arg-type]
        answers = RequestedBatch(batch_of([1, 2, 3, 4]))
        taken.add(answers)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        seen = [*noted.requests]
        taken.hurry(answers)  # what has been requested is not requested again
        return seen

    assert asyncio.run(intake(0)) == [[1, 2, 3], [4]]
    assert asyncio.run(intake(None)) == [[1, 2, 3]]


async def plain(inputs: list[int]) -> list[int]:
    return inputs


def test_an_async_def_will_do() -> None:
    assert answers(batched(AsyncDataStream.unordered_wait_batch, plain), [1, 2, 3, 4]) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"size": -1}, "batch_size has to be positive, not -1"),
        ({"timeout": 0}, "timeout has to be positive"),
        ({"batch_timeout": -1}, "batch_timeout cannot be negative: -1 ms"),
        ({"capacity": 0}, "capacity: at least one request"),
    ],
)
def test_settings_that_are_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidProgramError, match=re.escape(told)):
        answers(batched(AsyncDataStream.unordered_wait_batch, Model(), **arguments), [1])


def test_a_function_that_is_not_awaited_is_refused() -> None:
    def same(inputs: list[int]) -> list[int]:
        return inputs

    with pytest.raises(InvalidTypeError, match="async_invoke_batch is awaited: write async def instead of def"):
        answers(batched(AsyncDataStream.unordered_wait_batch, same), [1])
