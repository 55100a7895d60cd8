"""Finding the lines that cannot be read in a block that cannot be read."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.formats.bad_records import reason_alone
from headrace.formats.file_format import Decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from headrace.formats.compression import ByteStream

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be read.

    Attributes:
        index: which line of the block.
        reason: why.
    """

    index: int
    reason: str


def decode_good_lines(decode: Callable[[bytes], Decoded], data: bytes, ends: list[int]) -> Iterator[Decoded | BadLine]:
    """Halve the block until single lines are left; the good parts cost one look each.

    Args:
        decode: raises ``ValueError`` on a block that holds a bad line, and perhaps on another one, but only on a bad
            line when it stands alone.
        data: a block of whole lines that ``decode`` refuses.
        ends: where the lines of ``data`` end.
    """
    starts = [0, *ends]
    open_ranges = [(0, len(ends))]
    while open_ranges:
        first, last = open_ranges.pop()
        try:
            yield decode(data[starts[first] : starts[last]])
        except ValueError as error:
            if last - first == 1:
                yield BadLine(first, reason_alone(error))
                continue
            middle = (first + last) // 2
            open_ranges += [(middle, last), (first, middle)]


def joined(parts: list[Decoded]) -> Decoded:
    """The records of several parts, all in rows or all in columns, as one."""
    batches = [part.columns for part in parts if part.columns is not None]
    rows = [row for part in parts if part.rows is not None for row in part.rows]
    if not batches:
        return Decoded(rows=rows)
    table = pa.Table.from_batches(batches).combine_chunks()
    return Decoded(table.to_batches()[0] if table.num_rows else batches[0])


class LineNumbers:
    """Tells which line of a file an offset is in; counted only when somebody asks, that is, on errors.

    Args:
        open_stream: opens the file from its beginning, as the offsets count it.
    """

    def __init__(self, open_stream: Callable[[], AbstractContextManager[ByteStream]]) -> None:
        self._open_stream = open_stream
        self._offset = 0
        self._line = 1

    def line_at(self, offset: int) -> int:
        """The number of the line that starts at ``offset``, counted from 1; offsets must not fall."""
        with self._open_stream() as stream:
            if not isinstance(stream, io.FileIO):
                return 1 + _newlines(stream, offset)
            stream.seek(self._offset)
            self._line += _newlines(stream, offset - self._offset)
        self._offset = offset
        return self._line


def _newlines(stream: ByteStream, length: int) -> int:
    """How many newlines there are in the next ``length`` bytes."""
    found = 0
    while length > 0 and (data := stream.read(min(_CHUNK, length))):
        found += data[:length].count(b"\n")
        length -= len(data)
    return found
