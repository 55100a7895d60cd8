"""The loop in which requests are awaited: who holds it up is told of."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Iterator

import pytest

from headrace.common.errors import UserFunctionError
from headrace.datastream import AsyncDataStream, DataStream
from headrace.operators.asynchronous import event_loop, requesting_operator
from headrace.operators.asynchronous.event_loop import EventLoopThread
from headrace.testing import JobHarness
from tests.operators.asynchronous.services import LONG, MINUTE, Blocks, Service, answers, asked, is_heard

heard: list[str] = []


class Listener(logging.Handler):
    """Notes what is said."""

    def emit(self, record: logging.LogRecord) -> None:
        heard.append(record.getMessage())
        is_heard.set()


@pytest.fixture(autouse=True)
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever holds up the loop for any time is told of."""
    monkeypatch.setattr(event_loop, "_BLOCKED_SECONDS", 0.0)
    heard.clear()
    is_heard.clear()
    listener = Listener(logging.WARNING)
    logger = logging.getLogger(event_loop.__name__)
    logger.addHandler(listener)
    yield
    logger.removeHandler(listener)


@pytest.mark.parametrize("where", ["open", "answer"])
def test_a_line_that_holds_up_the_loop_is_named_once(where: str) -> None:
    found = answers(lambda stream: AsyncDataStream.unordered_wait(stream, Blocks(where), MINUTE, 10, LONG), [1, 2, 3])
    assert found == [1, 2, 3]
    (said,) = heard
    assert re.search(rf"nothing else could run .* at .*services.py:\d+ in {where}: use a client", said)


def fails(number: int) -> int:
    while not asked:  # until the loop is held up
        time.sleep(0.001)
    raise ValueError("it fails beside it")


def test_a_loop_that_is_held_up_for_ever_hides_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requesting_operator, "_CLOSE_SECONDS", 0.01)
    monkeypatch.setattr(event_loop, "_CLOSING_SECONDS", 0.01)

    def job(job: JobHarness) -> None:
        numbers: DataStream[int] = job.add_source("in", LONG)
        job.add_sink("asked", AsyncDataStream.unordered_wait(numbers, Blocks("answer"), 0, 10, LONG))
        job.add_sink("failed", numbers.map(fails, LONG))

    with JobHarness(job) as running:
        running.push("in", 1)
        with pytest.raises(UserFunctionError, match="it fails beside it"):
            running.run_epoch()
    left = [said for said in heard if "which is left behind" in said]
    is_heard.set()
    assert re.search(r"the line at .*services.py:\d+ in answer blocks its event loop", left[0])


ended: list[str] = []


class Beats(Service):
    """Has a task of its own, and does not end it."""

    async def open(self, runtime_context: object) -> None:
        self.begun = asyncio.Event()
        self.beating = asyncio.get_running_loop().create_task(self.beat())
        await self.begun.wait()

    async def beat(self) -> None:
        try:
            self.begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("beat")


def test_tasks_that_a_function_leaves_behind_are_ended() -> None:
    ended.clear()
    assert answers(lambda stream: AsyncDataStream.unordered_wait(stream, Beats(), MINUTE, 10, LONG), [1, 2]) == [1, 2]
    assert ended == ["beat"]


def test_a_task_that_exits_when_the_loop_ends_it_does_not_keep_it() -> None:
    loop = EventLoopThread("test")

    async def exits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise SystemExit(1)

    async def begin() -> None:
        ended.append(asyncio.get_running_loop().create_task(exits()))  # type: ignore[arg-type]
        await asyncio.sleep(0)

    assert loop.run(begin())
    loop.close()
    assert not loop._thread.is_alive()
    assert loop._loop.is_closed()
    assert heard == ["test: a task of its event loop failed"]


def test_waiting_holds_up_nobody() -> None:
    async def waits(number: int) -> list[int]:
        await asyncio.sleep(3 * event_loop.LOOK_AROUND_SECONDS)
        return [number]

    found = answers(lambda stream: AsyncDataStream.unordered_wait(stream, waits, MINUTE, 10, LONG), [1, 2])
    assert (found, heard) == ([1, 2], [])
