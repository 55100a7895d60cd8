"""The loop in which requests are awaited: who holds it up is told of."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Iterator

import pytest

from headrace.datastream import AsyncDataStream, AsyncFunction
from headrace.operators.asynchronous import event_loop
from tests.operators.asynchronous.services import LONG, MINUTE, answers

MINUTE_OF_SECONDS = 60


heard: list[str] = []
has_heard = threading.Event()


class Listener(logging.Handler):
    """Notes what is said."""

    def emit(self, record: logging.LogRecord) -> None:
        heard.append(record.getMessage())
        has_heard.set()


@pytest.fixture(autouse=True)
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever holds up the loop for any time is told of."""
    monkeypatch.setattr(event_loop, "_BLOCKED_SECONDS", 0.0)
    heard.clear()
    has_heard.clear()
    listener = Listener(logging.WARNING)
    logger = logging.getLogger(event_loop.__name__)
    logger.addHandler(listener)
    yield
    logger.removeHandler(listener)


def test_a_line_that_holds_up_the_loop_is_named_once() -> None:
    async def blocks(number: int) -> list[int]:
        assert has_heard.wait(MINUTE_OF_SECONDS)
        return [number]

    found = answers(lambda stream: AsyncDataStream.unordered_wait(stream, blocks, MINUTE, 10, LONG), [1, 2, 3])
    assert found == [1, 2, 3]
    (said,) = heard
    assert re.search(r"nothing else could run .* at .*test_event_loop.py:\d+ in blocks: use a client that can be", said)


def test_so_is_one_in_open() -> None:
    class Connects(AsyncFunction):
        async def open(self, runtime_context: object) -> None:
            assert has_heard.wait(MINUTE_OF_SECONDS)

        async def async_invoke(self, value: int) -> list[int]:
            return [value]

    assert answers(lambda stream: AsyncDataStream.unordered_wait(stream, Connects(), MINUTE, 10, LONG), [1]) == [1]
    assert "in open: use a client" in heard[0]


def test_waiting_holds_up_nobody() -> None:
    async def waits(number: int) -> list[int]:
        await asyncio.sleep(3 * event_loop.LOOK_AROUND_SECONDS)
        return [number]

    found = answers(lambda stream: AsyncDataStream.unordered_wait(stream, waits, MINUTE, 10, LONG), [1, 2])
    assert (found, heard) == ([1, 2], [])
