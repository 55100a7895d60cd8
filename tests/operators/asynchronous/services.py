"""Functions that stand for services, and jobs that ask them; they note in this process what they are asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from headrace.common import Configuration, Types
from headrace.common.batch import Batch
from headrace.datastream import AsyncFunction, DataStream, StreamExecutionEnvironment
from headrace.testing import JobHarness

LONG = Types.LONG()
MINUTE = 60_000

Wait = Callable[..., DataStream]
"""``ordered_wait`` or ``unordered_wait``."""

asked: list[Any] = []
"""What was requested, in the order in which it was."""

in_flight: set[Any] = set()

is_heard = threading.Event()
"""Set when a test has heard of what blocks the loop."""


class Service(AsyncFunction):
    """Answers with what it is asked, at once."""

    async def async_invoke(self, value: Any) -> list[Any]:
        asked.append(value)
        in_flight.add(value)
        try:
            return await self.answer(value)
        finally:
            in_flight.discard(value)

    async def answer(self, value: Any) -> list[Any]:
        return [value]


class Blocks(Service):
    """Holds up its event loop, in a request or in ``open``, until somebody has heard of it.

    Args:
        where: the method that does so.
    """

    def __init__(self, where: str) -> None:
        self._where = where

    async def open(self, runtime_context: object) -> None:
        assert self._where != "open" or is_heard.wait(MINUTE / 1000)

    async def answer(self, value: Any) -> list[Any]:
        assert self._where != "answer" or is_heard.wait(MINUTE / 1000)
        return [value]


class Never(Service):
    """Never answers some."""

    def __init__(self, *values: Any) -> None:
        self._values = values

    async def answer(self, value: Any) -> list[Any]:
        if value in self._values:
            await asyncio.Event().wait()
        return [value]

    def timeout(self, value: Any) -> list[Any]:
        return [-value]


async def turns() -> None:
    """Let everything happen that can."""
    for _ in range(20):
        await asyncio.sleep(0)


def harness(apply: Callable[[DataStream], DataStream], **options: Any) -> JobHarness:
    """A job that asks for each number of ``in``."""

    def job(job: JobHarness) -> None:
        job.add_sink("out", apply(job.add_source("in", LONG)).uid("asked"))

    return JobHarness(job, **options)


def answers(apply: Callable[[DataStream], DataStream], numbers: list[int], *more: list[int]) -> list[Any]:
    """What comes out for some numbers, and for more of them in further epochs."""
    with harness(apply) as job:
        for each in (numbers, *more):
            job.push_all("in", each)
            job.run_epoch()
        return job.take("out")


def batch_of(rows: list[Any]) -> Batch:
    """Numbers as an operator gets them."""
    return Batch.of_rows(LONG, rows, [0] * len(rows), [0] * len(rows))


def asking(wait: Wait, function: Any, capacity: int = 100, timeout: int = MINUTE) -> Callable[[DataStream], DataStream]:
    """Applies a function to a stream of numbers."""
    return lambda stream: wait(stream, function, timeout, capacity, LONG)


def environment(**settings: str) -> StreamExecutionEnvironment:
    """That of a job in this process, with one subtask."""
    return StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1", **settings})
    )
