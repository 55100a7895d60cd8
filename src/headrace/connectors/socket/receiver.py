"""A connection that is read by a thread of the driver, no faster than the job takes what comes."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Final, NamedTuple

from headrace.common.errors import BadRecordError
from headrace.common.logs import get_logger

_MOST_BYTES: Final = 16 << 20
"""So much is received and waits; then nothing is read until the job has taken some, and the server has to wait."""

_RECEIVE_BYTES: Final = 1 << 16
_CONNECT_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 0.5

logger = get_logger(__name__)


class Address(NamedTuple):
    """Where a server is."""

    hostname: str
    port: int

    def __str__(self) -> str:
        """``localhost:9999``."""
        return f"{self.hostname}:{self.port}"


class SocketReceiver:
    """What a server has sent and nobody has forgotten yet.

    Offsets count from the first byte that is not forgotten.

    Args:
        address: the server.
        delimiter: what ends a line.
        max_retry: how often to connect again; -1 for ever.
    """

    def __init__(self, address: Address, delimiter: bytes, max_retry: int) -> None:
        self._address = address
        self._delimiter = delimiter
        self._max_retry = max_retry
        self._data = bytearray()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._connection: socket.socket | None = None
        self._has_ended = False
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, name=f"headrace-socket-{address}", daemon=True)

    def begin(self) -> None:
        """Connect, the first time; later see whether that is still possible.

        Raises:
            OSError: when the server cannot be reached, and all that it has sent has been taken.
        """
        if self._thread.ident is None:
            self._thread.start()
        with self._changed:
            if self._error is not None and not self._data:
                raise OSError(f"{self._address} cannot be read: {self._error}") from self._error

    def lines(self, start: int, size: int, count: int) -> bytes:
        """Whole lines, each with its delimiter; none when there is none yet.

        Args:
            start: the offset of the first one.
            size: how many bytes they have at most; one line is given whatever its length.
            count: how many there are at most.

        Raises:
            BadRecordError: when a line is too long to wait for its end.
        """
        with self._changed:
            end = self._data.find(self._delimiter, start)
            if end < 0:
                if len(self._data) - start >= _MOST_BYTES:
                    raise BadRecordError(f"{self._address}: there is no {self._delimiter!r} in {_MOST_BYTES} bytes")
                return b""
            found = bytes(self._data[start : max(start + size, end + len(self._delimiter))])
        rest = found.split(self._delimiter, count)[-1]  # what is behind so many lines, or behind the last one
        return found[: len(found) - len(rest)]

    def size(self, start: int) -> int:
        """How many bytes there are from an offset on."""
        with self._changed:
            return len(self._data) - start

    def has_ended(self, start: int) -> bool:
        """Whether nothing will ever come from an offset on."""
        with self._changed:
            return self._has_ended and start >= len(self._data)

    def forget(self, end: int) -> None:
        """Let go of what is before an offset, and make room for more."""
        with self._changed:
            del self._data[:end]
            self._changed.notify_all()

    def close(self) -> None:
        """Close the connection."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
            if self._connection is not None:
                with contextlib.suppress(OSError):  # the server was faster
                    self._connection.shutdown(socket.SHUT_RDWR)
        if self._thread.ident is not None:
            self._thread.join(_CONNECT_SECONDS)

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        retries = 0
        while not self._closing.is_set():
            error: OSError | None = None
            try:
                with socket.create_connection(self._address, _CONNECT_SECONDS) as connection:
                    self._receive(connection)
            except OSError as failure:
                error = failure
            if retries == self._max_retry or self._closing.is_set():
                self._end(error)
                return
            retries += 1
            logger.warning("%s: %s; connecting again", self._address, error or "the server has closed the connection")
            self._closing.wait(_RETRY_SECONDS)

    def _receive(self, connection: socket.socket) -> None:
        """Take over what comes, until the server closes the connection."""
        connection.settimeout(None)
        with self._changed:
            self._connection = connection
        try:
            while not self._closing.is_set() and (received := connection.recv(_RECEIVE_BYTES)):
                with self._changed:
                    self._data += received
                    self._changed.wait_for(lambda: len(self._data) < _MOST_BYTES or self._closing.is_set())
        finally:
            with self._changed:
                self._connection = None
                # What is behind the last delimiter is a line: another connection begins another one.
                if self._data and not self._data.endswith(self._delimiter):
                    self._data += self._delimiter

    def _end(self, error: OSError | None) -> None:
        with self._changed:
            self._error = error
            self._has_ended = error is None
