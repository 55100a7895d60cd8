"""The loop in which requests are awaited: who holds it up is told of."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator

import pytest

from headrace.datastream import AsyncDataStream
from headrace.operators.asynchronous import event_loop
from tests.operators.asynchronous.services import LONG, MINUTE, Blocks, answers, is_heard

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


def test_waiting_holds_up_nobody() -> None:
    async def waits(number: int) -> list[int]:
        await asyncio.sleep(3 * event_loop.LOOK_AROUND_SECONDS)
        return [number]

    found = answers(lambda stream: AsyncDataStream.unordered_wait(stream, waits, MINUTE, 10, LONG), [1, 2])
    assert (found, heard) == ([1, 2], [])
