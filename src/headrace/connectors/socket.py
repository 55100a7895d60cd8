"""``SocketSource``: lines of text from a TCP server, which a thread of the driver reads, and only once."""

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.errors import BadRecordError, InvalidProgramError, expect
from headrace.common.logs import get_logger
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import TypeInformation, Types
from headrace.connectors.source import (
    Boundedness,
    EnumeratorContext,
    FunctionReader,
    Json,
    Pending,
    ReadBudget,
    Source,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
    SplitRead,
)
from headrace.formats.bad_records import BadRecords

__all__ = ["SocketSource"]


_MOST_BYTES: Final = 16 << 20
"""At most so much is received ahead; then the server waits until the job has taken some."""

_RECEIVE_BYTES: Final = 1 << 16
_CONNECT_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 0.5

logger = get_logger(__name__)


class SocketReceiver:
    """Receives what a server sends, and keeps it until it is forgotten.

    Offsets count from the first byte that is not forgotten.

    Args:
        address: the server.
        delimiter: what ends a line.
        max_retry: how often to connect again; -1 for ever.
    """

    def __init__(self, address: str, delimiter: bytes, max_retry: int) -> None:
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
        """The number of bytes from an offset on."""
        with self._changed:
            return len(self._data) - start

    def has_ended(self, start: int) -> bool:
        """Tell whether nothing will ever come from an offset on."""
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
                hostname, _, port = self._address.rpartition(":")
                with socket.create_connection((hostname, int(port)), _CONNECT_SECONDS) as connection:
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


_SPLIT: Final = "socket"

_EPOCH_BYTES: Final = 4 << 20
"""An epoch's share travels to the task with its context, so it is never larger."""

_ONE_BYTE_EACH: Final = "latin-1"
"""The encoding in which any bytes are text, as pieces have to be."""


class SocketSource(Source[str]):
    r"""Lines of text from a TCP server, in the order in which they come.

    The driver reads them. They cannot be read again: those that no checkpoint holds are lost when the job restarts,
    and what the server sends without a connection is up to the server. So it is for trying things out. Lines are
    UTF-8.

    Args:
        hostname: where the server is, as the driver sees it.
        port: where it listens.
        delimiter: what ends a line; of ``"\n"`` a ``"\r"`` before it is taken away too. What comes behind the last one
            is a line when the server closes the connection.
        max_retry: how often to connect again, half a second later, when the server closes the connection or cannot be
            reached; -1 for ever. After that the source has ended, or the job fails, respectively.
        dead_letter: a side output for lines that are no UTF-8, as ``(where, raw, reason)``; else one fails the job.

    Raises:
        InvalidProgramError: when the port is none, the delimiter is empty, or ``max_retry`` is below -1.

    Examples:
        >>> from headrace.datastream import OutputTag
        >>> from headrace.datastream.connectors.socket import SocketSource
        >>> SocketSource("localhost", 9999, dead_letter=OutputTag("bad")).can_replay
        False
    """

    boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    gives_timestamps = False
    can_replay = False
    dead_letter: OutputTag | None = None

    def __init__(
        self,
        hostname: str,
        port: int,
        delimiter: str = "\n",
        max_retry: int = 0,
        *,
        dead_letter: OutputTag | None = None,
    ) -> None:
        expect(port, int, "the port of a SocketSource")
        if not 0 < port < 1 << 16:
            raise InvalidProgramError(f"a port is a number from 1 to 65535, not {port}")
        if not delimiter:
            raise InvalidProgramError("a SocketSource needs a delimiter, which ends its lines")
        if max_retry < -1:
            raise InvalidProgramError(f"max_retry is a number of attempts, or -1 for ever, not {max_retry}")
        self._address = f"{hostname}:{port}"
        self._delimiter = delimiter.encode()
        self._max_retry = max_retry
        if dead_letter is not None:
            expect(dead_letter, OutputTag, "dead_letter")
        self.dead_letter = dead_letter

    @property
    def produced_type(self) -> TypeInformation:
        return Types.STRING()

    @property
    def locations(self) -> tuple[str, ...]:
        return (self._address,)

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return _SocketEnumerator(SocketReceiver(self._address, self._delimiter, self._max_retry), self._delimiter)

    def create_reader(self) -> SourceReader:
        return FunctionReader(partial(_read, self._address, self._delimiter, self.dead_letter is not None))

    def __repr__(self) -> str:
        return f"SocketSource({self._address})"


class _SocketEnumerator(SplitEnumerator):
    """Hands out what was received; a position is the number of bytes since the job's first start.

    What is planned stays in memory until a manifest holds it, since an epoch may be planned again.
    """

    def __init__(self, receiver: SocketReceiver, delimiter: bytes) -> None:
        self._receiver = receiver
        self._delimiter = delimiter
        self._start: int | None = None

    def discover(self, now: int) -> Sequence[str]:
        self._receiver.begin()
        return (_SPLIT,)

    def initial_position(self, split_id: str) -> Json:
        return 0

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        lines = self._receiver.lines(self._offset(position), min(budget.bytes, _EPOCH_BYTES), budget.records)
        if not lines:
            return None
        piece = [position, lines.decode(_ONE_BYTE_EACH)]
        count = lines.count(self._delimiter)
        return SplitRead(split_id, position, position + len(lines), (piece,), records=count, bytes=len(lines))

    def is_finished(self, split_id: str, position: Json) -> bool:
        return self._receiver.has_ended(self._offset(position))

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        return Pending(bytes=self._receiver.size(self._offset(position)))

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        if _SPLIT in positions:
            offset = self._offset(positions[_SPLIT])
            self._receiver.forget(offset)
            assert self._start is not None
            self._start += offset

    def close(self) -> None:
        self._receiver.close()

    def _offset(self, position: int) -> int:
        """The offset of a position in the received bytes; the first position that is requested is their beginning."""
        if self._start is None:
            self._start = position
        return position - self._start


def _read(address: str, delimiter: bytes, reject: bool, piece: Json) -> Iterator[SourceRecords]:
    bad_lines = BadRecords(reject, "line", "give the source a dead_letter")
    position, text = piece
    lines = text.encode(_ONE_BYTE_EACH).split(delimiter)[:-1]
    if delimiter == b"\n":
        lines = [line.removesuffix(b"\r") for line in lines]
    read, rejected = [], []
    for number, line in enumerate(lines, 1):
        try:
            read.append(line.decode())
        except UnicodeDecodeError as error:
            reason = f"not utf-8: byte {line[error.start]:#04x} at position {error.start}, {error.reason}"
            rejected.append(bad_lines.letter(f"{address}, line {number} from byte {position}", line, reason))
    columns = pa.RecordBatch.from_arrays([pa.array(read, pa.string())], schema=layout_of(Types.STRING()).schema)
    yield SourceRecords(columns=columns, rejected=rejected)
