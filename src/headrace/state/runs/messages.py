"""Messages of record batches, as of Arrow's IPC format, in which buffers with the same bytes are written once.

Keys are as a rule fields of the records that are kept with them, and times often are. A reader does not mind: the
metadata says of each buffer where in the body it is, and two may be in one place.

The metadata is a flatbuffer, of which only the few numbers are changed that say where buffers are, and how long the
body is. Layout and field numbers are those of https://github.com/apache/arrow/blob/main/format/Message.fbs.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]

SMALL: Final = 4096
"""Messages of fewer bytes stay as they are."""

_PREFIX: Final = 8
"""Bytes before the metadata: a mark, and behind it how long the metadata are."""
_SIZE_AT: Final = 4
_HEADER, _BODY_LENGTH = 2, 3
"""The numbers of fields of a message."""
_BUFFERS: Final = 2
"""The number of a field of a record batch."""
_PROBE: Final = 64
"""So many bytes at the begin, in the middle and at the end of a buffer tell most apart."""

_OFFSET, _RELATIVE, _SHORT = Struct("<I"), Struct("<i"), Struct("<H")


def written_once(message: pa.Buffer) -> Sequence[pa.Buffer]:
    """The message in pieces, of which the first one is all that comes before the body.

    Args:
        message: the message of a record batch that is not compressed.
    """
    start = _PREFIX + int(_OFFSET.unpack_from(message, _SIZE_AT)[0])
    body = message.slice(start)
    if message.size < SMALL or not body.size:
        return [message.slice(0, start), body]
    metadata = bytearray(message.slice(0, start))
    table = _Table(metadata, _Table.follow(metadata, _PREFIX))
    places = _Table(metadata, table.child(_HEADER)).places(_BUFFERS)
    once = _Once.of(body, places)
    places[:, 0] = once.offsets
    np.frombuffer(metadata, np.int64, 1, table.field(_BODY_LENGTH))[:] = once.size
    return [pa.py_buffer(bytes(metadata)), *(body.slice(first, stop - first) for first, stop in once.extents)]


@dataclass(frozen=True)
class _Once:
    """The body without what is in it already.

    Attributes:
        offsets: where each buffer is.
        extents: from where to where the old body is taken.
        size: how long the new one is.
    """

    offsets: list[int]
    extents: list[tuple[int, int]]
    size: int

    @staticmethod
    def of(body: pa.Buffer, places: Longs) -> _Once:
        """Buffers keep their order, and the padding behind each."""
        offsets, extents, size = [], list[tuple[int, int]](), 0
        known: dict[tuple[int, bytes], list[tuple[int, pa.Buffer]]] = {}
        stops = [*places[1:, 0].tolist(), body.size]
        for (start, length), stop in zip(places.tolist(), stops, strict=True):
            buffer = body.slice(start, length)
            alike = known.setdefault((length, _probed(buffer)), [])
            offset = next((at for at, other in alike if other.equals(buffer)), size)
            offsets.append(offset)
            if offset == size:
                alike.append((size, buffer))
                extents.append((start, stop))
                size += stop - start
        return _Once(offsets, extents, size)


def _probed(buffer: pa.Buffer) -> bytes:
    """Some of its bytes."""
    middle, last = buffer.size // 2, max(0, buffer.size - _PROBE)
    return b"".join(bytes(buffer[at : at + _PROBE]) for at in (0, middle, last))


@dataclass(frozen=True)
class _Table:
    """A table in a flatbuffer.

    Attributes:
        data: the flatbuffer, behind the prefix.
        at: where the table is.
    """

    data: bytearray
    at: int

    def field(self, number: int) -> int:
        """Where a field is that is there."""
        fields = self.at - int(_RELATIVE.unpack_from(self.data, self.at)[0])
        return self.at + int(_SHORT.unpack_from(self.data, fields + 4 + 2 * number)[0])

    def child(self, number: int) -> int:
        """Where the table is that a field refers to."""
        return self.follow(self.data, self.field(number))

    def places(self, number: int) -> Longs:
        """The structs of two integers that are in a field: the offset and the length of each buffer, to be changed."""
        at = self.child(number)
        (count,) = _OFFSET.unpack_from(self.data, at)
        return np.frombuffer(self.data, np.int64, 2 * count, at + _OFFSET.size).reshape(-1, 2)

    @staticmethod
    def follow(data: bytearray, at: int) -> int:
        """What an offset refers to that is stored at some place."""
        return at + int(_OFFSET.unpack_from(data, at)[0])
