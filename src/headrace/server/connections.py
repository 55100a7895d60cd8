"""Connections that cannot be held for long, nor by many: clients that say nothing, or read nothing, are hung up on.

A job lives in the same process, and needs descriptors of files, too. So a connection counts from the moment at which it
is accepted: of one that never gets through the handshake of TLS no protocol knows.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final
from weakref import WeakSet

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from headrace.server.routing import REQUEST

MOST_CONNECTIONS: Final = 256
"""The largest number of clients at the same time; the connections of others are closed."""

BACKLOG: Final = 128
"""The most connections that wait to be accepted."""

_HANDSHAKE_SECONDS: Final = 10.0
"""The time limit for the handshake of TLS."""

_HEAD_SECONDS: Final = 10.0
"""The time limit for the arrival of the head of a request, the first one or the next."""

_ANSWER_SECONDS: Final = 30.0
"""The time limit from there until the answer has left, and between two parts of a body: its reader bounds it."""

_MOST_HEAD_BYTES: Final = 16_384
"""The size of the head of a request with what follows its last chunk; and of what has arrived and is nothing yet."""

_AROUND_HEADER: Final = len(": \r\n")

_MOST_WAITING: Final = 8
"""The largest number of requests on a connection that wait for the answer to an earlier one."""

_logger = logging.getLogger(__name__)
_logger.setLevel(logging.ERROR)  # clients that send no HTTP are not to fill the log of a job


class RefusedRequestError(Exception):
    """A client sends more than it may; the parser ends by it."""


class BoundedProtocol(HttpToolsProtocol):  # type: ignore[misc] # uvicorn is not read by mypy
    """uvicorn's protocol with bounds.

    By itself it waits without end for the head of a request, and for slow readers; its parser keeps heads and trailers
    of any size; and it reads on while requests wait.
    """

    _limit: asyncio.TimerHandle | None = None
    _limit_at = 0.0
    _silent_since = 0.0
    _unread = 0
    _head = 0
    _begun = 0
    _is_between = True
    """True while the next byte is the first one of a request."""
    _is_usual = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = _logger
        self._again: Callable[[bytes], Response | None] = getattr(self.app, "again", _no_answer)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._restart(_HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        is_next = self._is_between and self._is_answered
        if is_next and self._answer_again(data):
            return
        self._unread += len(data)
        self._begun = 0
        super().data_received(data)
        if self._unread > _MOST_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("Request head too large.")
        if is_next and self._begun == 1 and self._is_between and self._is_usual and len(data) <= _MOST_HEAD_BYTES:
            self.scope[REQUEST] = data

    def on_message_begin(self) -> None:
        self._head = 0
        self._begun += 1
        self._is_between = False
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._bound_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._bound_head(len(name) + len(value) + _AROUND_HEADER)
        super().on_header(name, value)

    def _bound_head(self, length: int) -> None:
        self._head += length
        if self._head > _MOST_HEAD_BYTES:
            raise RefusedRequestError("the head is too large")

    def on_headers_complete(self) -> None:
        self._unread = 0
        is_next = self._is_answered
        if len(self.pipeline) >= _MOST_WAITING:
            raise RefusedRequestError("requests do not wait for answers")
        stays = self.parser.should_keep_alive() and not self.parser.should_upgrade()
        self._is_usual = stays and self.parser.get_http_version() == "1.1"
        super().on_headers_complete()
        if is_next:
            self._restart(_ANSWER_SECONDS)

    def _answer_again(self, request: bytes) -> bool:
        """Answer a request as the last one with the same bytes, without reading it, which takes a tenth of the time."""
        answer = None if self.flow.write_paused else self._again(request)
        if answer is None:
            return False
        self.transport.write(_as_sent(answer))
        self._silent_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_handler()
        self._restart(_HEAD_SECONDS)
        return True

    def timeout_keep_alive_handler(self) -> None:
        """Hang up on a client that is silent for too long; one that was answered again meanwhile is not."""
        until = self._silent_since + self.timeout_keep_alive
        if until > self.loop.time():
            self.timeout_keep_alive_task = self.loop.call_at(until, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)
        if not (self.pipeline or self.cycle.response_complete):
            self._restart(_ANSWER_SECONDS)

    def on_message_complete(self) -> None:
        self._unread = 0
        self._is_between = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        has_next = bool(self.pipeline)
        super().on_response_complete()
        self._restart(_ANSWER_SECONDS if has_next else _HEAD_SECONDS)

    def send_400_response(self, msg: str) -> None:
        """Refuse a request; where the answer to an earlier one is on its way, nothing can be put between."""
        if not self._is_answered:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started or self.pipeline:
                self.transport.abort()
                return
        super().send_400_response(msg)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._limit is not None:
            self._limit.cancel()
        super().connection_lost(exc)

    @property
    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _restart(self, seconds: float) -> None:
        """Hang up after so long; a timer that would call earlier stays, since most limits are put off again."""
        self._limit_at = self.loop.time() + seconds
        if self._limit is None or self._limit.when() > self._limit_at:
            self._wait_for_limit()

    def _wait_for_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
        self._limit = self.loop.call_at(self._limit_at, self._limit_reached)

    def _limit_reached(self) -> None:
        if self.loop.time() < self._limit_at:
            self._wait_for_limit()
        else:
            self.transport.abort()


@lru_cache(maxsize=64)
def _as_sent(answer: Response) -> bytes:
    """An answer as it is sent to one client after the other."""
    lines = [STATUS_LINE[answer.status_code], *(b"%s: %s\r\n" % each for each in answer.raw_headers), b"\r\n"]
    return b"".join((*lines, answer.body))


def _no_answer(_: bytes) -> None:
    """No answer is known without a call of an application of another kind."""


class BoundedListener(socket.socket):
    """A listening socket that closes connections at once while too many are open."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._accepted = WeakSet[socket.socket]()

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection.

        Raises:
            ConnectionAbortedError: when it is one too many, which loops take for a client that went away.
        """
        connection, address = super().accept()
        if sum(each.fileno() >= 0 for each in self._accepted) >= MOST_CONNECTIONS:
            connection.close()
            raise ConnectionAbortedError
        self._accepted.add(connection)
        return connection, address


class ServerLoop(asyncio.SelectorEventLoop):
    """A loop whose servers do not wait for a handshake for long."""

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.Server:
        """A server, as in :mod:`asyncio`."""
        if kwargs.get("ssl") is not None:
            kwargs["ssl_handshake_timeout"] = _HANDSHAKE_SECONDS
        return await super().create_server(*args, **kwargs)
