"""Connections that cannot be held for long, nor by many: clients that say nothing, or read nothing, are hung up on."""

import asyncio
import logging
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS: Final = 256
"""The largest number of clients at the same time; the connections of others are closed."""

_HEAD_SECONDS: Final = 10.0
"""The time limit for the arrival of the head of a request, the first one or the next."""

_ANSWER_SECONDS: Final = 30.0
"""The time limit from there until the answer has left."""


_logger = logging.getLogger(__name__)
_logger.setLevel(logging.ERROR)  # whoever sends what is no HTTP is not to fill the log of a job


class BoundedProtocol(H11Protocol):  # type: ignore[misc] # uvicorn is not read by mypy
    """uvicorn's protocol with time limits: it waits without end for the head of a request, and for slow readers."""

    _limit: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = _logger

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._restart(_HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._restart(_ANSWER_SECONDS)

    def on_response_complete(self) -> None:
        before = self.cycle
        super().on_response_complete()
        self._restart(_HEAD_SECONDS if self.cycle is before else _ANSWER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._limit is not None:
            self._limit.cancel()
        super().connection_lost(exc)

    def _restart(self, seconds: float) -> None:
        if self._limit is not None:
            self._limit.cancel()
        self._limit = self.loop.call_later(seconds, self.transport.abort)
