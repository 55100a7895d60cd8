"""Cutting a stream of bytes into blocks of whole lines."""

from __future__ import annotations

import errno
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.formats.compression import ByteStream
    from headrace.storage.files import InputFile

BLOCK_BYTES = 1 << 21
"""How much is read at once; some ten thousand lines of usual length."""

_SEEK_BYTES = 1 << 16
_HEAD_BYTES = 200


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, or the beginning of one that is too long.

    Attributes:
        offset: where the block starts in the stream.
        data: the lines with their line ends; the last line of a file may have none.
        too_long: whether this is only the beginning of a line above the limit.
    """

    offset: int
    data: bytes
    too_long: bool = False


class Boundary(Protocol):
    """Finds the ends of lines."""

    def last(self, data: bytes) -> int:
        """The end of the last whole line in ``data``, 0 when there is none; ``data`` starts with a line."""

    def first(self, data: bytes) -> int:
        """The end of the first whole line, 0 when there is none."""

    def all(self, data: bytes) -> list[int]:
        """The ends of all lines, in order; ``len(data)`` is the last one."""

    def open_state(self, data: bytes) -> bytes:
        """A few bytes that stand for the beginning of a line ``data``, so that it can be dropped."""


class Newlines:
    """Every newline ends a line."""

    def last(self, data: bytes) -> int:
        return data.rfind(b"\n") + 1

    def first(self, data: bytes) -> int:
        return data.find(b"\n") + 1

    def all(self, data: bytes) -> list[int]:
        return _closed(np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1, len(data))

    def open_state(self, data: bytes) -> bytes:
        return b""


class NewlinesOutsideQuotes:
    """A newline between quotes belongs to the line; a doubled quote is a quote (RFC 4180).

    A quote encloses a value only where it is the first character of it; anywhere else it stands for itself.

    Args:
        quote: what encloses values, if anything does.
        delimiter: what separates values.
        escape: what comes before a character that stands for itself, if anything does.
        comments: whether a line that begins with ``#`` is one, whatever it holds.
    """

    def __init__(self, quote: str | None, delimiter: str, escape: str | None = None, *, comments: bool = False) -> None:
        self._quote = (quote or "").encode()
        self._before_values = np.frombuffer(f"{delimiter}\n".encode(), np.uint8)
        self._escape = escape.encode() if escape else None
        self._comments = comments
        value = value_pattern(quote, delimiter, escape, r"\n")
        rest = rf"(?:{value}{re.escape(delimiter)})*+"
        comment = r"#[^\n]*+|" if comments else ""
        self._line = re.compile(rf"(?s)(?:{comment}{rest}{value})\n".encode())
        self._whole_values = re.compile(rf"(?s){rest}".encode())
        self._whole_value = re.compile(rf"(?s){value}".encode())

    def last(self, data: bytes) -> int:
        ends = self._ends(data)
        return int(ends[-1]) if len(ends) else 0

    def first(self, data: bytes) -> int:
        ends = self._ends(data)
        return int(ends[0]) if len(ends) else 0

    def all(self, data: bytes) -> list[int]:
        return _closed(self._ends(data), len(data))

    def open_state(self, data: bytes) -> bytes:
        found = self._whole_values.match(data)
        begun = data[0 if found is None else found.end() :]
        if not begun.startswith(self._quote):
            return begun[:1]
        if self._whole_value.fullmatch(begun) is None:
            return self._quote
        return self._quote * 2 if begun.endswith(self._quote) else b"-"

    def _ends(self, data: bytes) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        if self._comments and (data.startswith(b"#") or b"\n#" in data):
            return self._scanned(data)
        array = np.frombuffer(data, np.uint8)
        is_plain = self._unescaped(array)
        newlines = np.flatnonzero((array == ord("\n")) & is_plain)
        quotes = np.flatnonzero((array == ord(self._quote)) & is_plain) if self._quote else newlines[:0]
        if len(quotes):
            firsts, is_open = self._open_runs(array, is_plain, quotes)
            before = np.searchsorted(firsts, newlines) - 1
            newlines = newlines[(before < 0) | ~is_open[before]]
        return newlines + 1

    def _unescaped(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which characters have no escape character in front that stands for one."""
        found = np.ones(len(array), np.bool_)
        escapes = np.flatnonzero(array == self._escape[0]) if self._escape else np.empty(0, np.intp)
        if len(escapes):
            firsts = np.flatnonzero(np.diff(escapes, prepend=-2) != 1)
            place_in_run = np.arange(len(escapes)) - np.repeat(firsts, np.diff(firsts, append=len(escapes)))
            following = escapes[place_in_run % 2 == 0] + 1
            found[following[following < len(array)]] = False
        return found

    def _open_runs(
        self, array: np.ndarray[Any, Any], is_plain: np.ndarray[Any, np.dtype[np.bool_]], quotes: np.ndarray[Any, Any]
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, np.dtype[np.bool_]]]:
        """Where each run of quotes begins, and whether a value between quotes is open behind it.

        Two quotes of an open value are one of its characters, so a run of an even number changes nothing. An odd number
        closes the value. Where none is open it opens one at the beginning of a value, and elsewhere means nothing.
        """
        begins = np.diff(quotes, prepend=-2) != 1
        firsts, indices = quotes[begins], np.flatnonzero(begins)
        is_odd = np.diff(indices, append=len(quotes)) % 2 == 1
        place = np.maximum(firsts - 1, 0)
        opens = (firsts == 0) | (np.isin(array[place], self._before_values) & is_plain[place])
        toggles = np.cumsum(is_odd & opens)
        closed_at = np.maximum.accumulate(np.where(is_odd & ~opens, toggles, 0))
        return firsts, (toggles - closed_at) % 2 == 1

    def _scanned(self, data: bytes) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        """The ends of lines among which there are comments, whose quotes mean nothing, one after the other."""
        ends = []
        line = self._line.match(data)
        while line is not None:
            ends.append(line.end())
            line = self._line.match(data, line.end())
        return np.array(ends, np.intp)


def value_pattern(quote: str | None, delimiter: str, escape: str | None, line_ends: str) -> str:
    """One value as it stands in a line, whole: with the quotes around it, and what is behind the closing one.

    Args:
        quote: as of :class:`NewlinesOutsideQuotes`, and so are the others.
        delimiter: what separates values.
        escape: what comes before a character that stands for itself.
        line_ends: what ends a line, outside quotes.
    """
    quote, delimiter, escape = map(re.escape, (quote or "", delimiter, escape or ""))
    escaped = f"|{escape}." if escape else ""
    plain = rf"(?:[^{delimiter}{line_ends}{escape}]++{escaped})*+"
    return (
        rf"(?:{quote}(?:[^{quote}{escape}]++|{quote}{quote}{escaped})*+{quote}{plain}|(?!{quote}){plain})"
        if quote
        else plain
    )


def _closed(ends: np.ndarray[tuple[int], np.dtype[np.intp]], length: int) -> list[int]:
    found: list[int] = ends.tolist()
    if length and (not found or found[-1] != length):
        found.append(length)
    return found


def file_blocks(file: InputFile, start: int, end: int, max_line: int) -> Iterator[Block]:
    """The lines that start in ``[start, end)`` of a plain file, whole, in blocks.

    Args:
        file: the file; only as many of its first bytes are looked at as it says that there are.
        start: the first byte of the part.
        end: the byte after the part; a line that starts before it is read to its end.
        max_line: a longer line is given as its beginning only.

    Raises:
        OSError: when the file ends before that.
    """
    with file.open() as stream:
        begin, stop = _line_start(stream, start, file.size), _line_start(stream, end, file.size)
        stream.seek(begin)
        yield from stream_blocks(_Limited(stream, stop - begin), Newlines(), max_line, begin)


def stream_blocks(stream: ByteStream, boundary: Boundary, max_line: int, offset: int = 0) -> Iterator[Block]:
    """All lines of a stream in blocks, counted from ``offset``."""
    carry = b""
    while data := stream.read(BLOCK_BYTES):
        data = carry + data
        cut = boundary.last(data)
        if cut:
            yield from _checked(offset, data[:cut], boundary, max_line)
        offset, carry = offset + cut, data[cut:]
        if len(carry) > max_line:
            yield Block(offset, carry[:_HEAD_BYTES], too_long=True)
            offset, carry = _skip_line(stream, boundary, offset, carry)
    if carry:
        yield from _checked(offset, carry, boundary, max_line)


def _checked(offset: int, data: bytes, boundary: Boundary, max_line: int) -> Iterator[Block]:
    """One block, cut where a line in it is too long."""
    if len(data) <= max_line:
        yield Block(offset, data)
        return
    start = begin = 0
    for end in boundary.all(data):
        if end - begin > max_line:
            if begin > start:
                yield Block(offset + start, data[start:begin])
            yield Block(offset + begin, data[begin : begin + _HEAD_BYTES], too_long=True)
            start = end
        begin = end
    if start < len(data):
        yield Block(offset + start, data[start:])


def _skip_line(stream: ByteStream, boundary: Boundary, offset: int, data: bytes) -> tuple[int, bytes]:
    """Read on to the end of the line that ``data`` begins; gives what follows it and where that starts."""
    while not (cut := boundary.first(data)):
        if not (more := stream.read(BLOCK_BYTES)):
            return offset + len(data), b""
        state = boundary.open_state(data)
        offset, data = offset + len(data) - len(state), state + more
    return offset + cut, data[cut:]


def _line_start(stream: io.RawIOBase, position: int, size: int) -> int:
    """Where the first line that starts at or after ``position`` starts."""
    if position <= 0 or position >= size:
        return min(max(position, 0), size)
    position -= 1
    stream.seek(position)
    limited = _Limited(stream, size - position)
    while data := limited.read(_SEEK_BYTES):
        found = data.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(data)
    return size


class _Limited:
    """The next ``length`` bytes of a stream, and not fewer."""

    def __init__(self, stream: io.RawIOBase, length: int) -> None:
        self._stream = stream
        self._left = length

    def read(self, size: int, /) -> bytes:
        if self._left <= 0:
            return b""
        data = self._stream.read(min(size, self._left))
        if not data:
            raise OSError(errno.EIO, f"the file ends {self._left} bytes too early")
        self._left -= len(data)
        return data
