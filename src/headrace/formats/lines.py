"""Formats whose records are lines: cutting files into blocks of whole lines, and finding lines that cannot be read."""

import codecs
import errno
import io
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.common.errors import BadRecordError, ConfigurationError, CorruptFileError
from headrace.common.type_variables import T_co
from headrace.common.typeinfo import TypeInformation, Types
from headrace.formats.bad_records import IN_SQL, BadRecords, readable_parts, refuse_unreadable
from headrace.formats.compression import ByteStream, compression_of, open_decompressed
from headrace.formats.file_format import Decoded, FileExtent, FileFormat, FileRange
from headrace.storage.files import InputFile, shown

BLOCK_BYTES = 1 << 21
"""The bytes that are read at once; some ten thousand lines of usual length."""

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


class Newlines:
    """Finds the ends of lines: every newline ends one."""

    def last(self, data: bytes) -> int:
        """The end of the last whole line in ``data``, 0 when there is none; ``data`` starts with a line."""
        return data.rfind(b"\n") + 1

    def first(self, data: bytes) -> int:
        """The end of the first whole line, 0 when there is none."""
        return data.find(b"\n") + 1

    def all(self, data: bytes) -> list[int]:
        """The ends of all lines, in order; ``len(data)`` is the last one."""
        ends: list[int] = self._ends(data).tolist()
        return ends if not data or ends[-1:] == [len(data)] else [*ends, len(data)]

    def open_state(self, data: bytes) -> bytes:
        """A few bytes that stand for the beginning of a line ``data``, so that it can be dropped."""
        return b""

    def _ends(self, data: bytes) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        return np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1


class NewlinesOutsideQuotes(Newlines):
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
        """Mark the characters that are not escaped."""
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
        """Find where each run of quotes begins, and whether a value between quotes is open behind it.

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


def stream_blocks(stream: ByteStream, boundary: Newlines, max_line: int, offset: int = 0) -> Iterator[Block]:
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


def _checked(offset: int, data: bytes, boundary: Newlines, max_line: int) -> Iterator[Block]:
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


def _skip_line(stream: ByteStream, boundary: Newlines, offset: int, data: bytes) -> tuple[int, bytes]:
    """Read on to the end of the line that ``data`` begins; gives what follows it and where that starts."""
    while not (cut := boundary.first(data)):
        if not (more := stream.read(BLOCK_BYTES)):
            return offset + len(data), b""
        state = boundary.open_state(data)
        offset, data = offset + len(data) - len(state), state + more
    return offset + cut, data[cut:]


def _line_start(stream: io.RawIOBase, position: int, size: int) -> int:
    """Find the first line that starts at or after ``position``."""
    if position <= 0 or position >= size:
        return min(max(position, 0), size)
    position -= 1
    section = _Section(stream, position, size)
    while data := section.read(_SEEK_BYTES):
        found = data.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(data)
    return size


class _Section:
    """The bytes ``[start, end)`` of a stream, and not fewer."""

    def __init__(self, stream: io.RawIOBase, start: int, end: int) -> None:
        self._stream = stream
        self._left = end - start
        stream.seek(start)

    def read(self, size: int, /) -> bytes:
        if self._left <= 0:
            return b""
        data = self._stream.read(min(size, self._left))
        if not data:
            raise OSError(errno.EIO, f"the file ends {self._left} bytes too early")
        self._left -= len(data)
        return data


_CHUNK = 1 << 20


def _newlines(stream: ByteStream, length: int) -> int:
    """Return how many newlines there are in the next ``length`` bytes."""
    found = 0
    while length > 0 and (data := stream.read(min(_CHUNK, length))):
        found += data[:length].count(b"\n")
        length -= len(data)
    return found


_PROBE = '\n\r,;"0aZ'


def normal_charset(name: str) -> str:
    """Python's own name of a character encoding.

    Raises:
        ConfigurationError: when Python does not know it.
    """
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise ConfigurationError(f"unknown charset {name!r}: use a name that Python's codecs module knows") from None


def is_line_safe(charset: str) -> bool:
    """Tell whether ASCII characters are encoded as themselves, so that a newline can be found without decoding."""
    return charset == "utf-8" or _PROBE.encode(charset) == _PROBE.encode("ascii")


@contextmanager
def open_stream(file: InputFile, charset: str) -> Iterator[ByteStream]:
    """The whole file from its beginning, decompressed; as UTF-8 when lines cannot be found in its own encoding."""
    with open_decompressed(file) as stream:
        yield stream if is_line_safe(charset) else _Transcoder(stream, charset, file.path)


class _Transcoder:
    """Turns an encoding like UTF-16 into UTF-8 while it is read."""

    def __init__(self, stream: ByteStream, charset: str, path: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(charset)()
        self._charset = charset
        self._path = path

    def read(self, size: int, /) -> bytes:
        """Some UTF-8 bytes (not exactly ``size``); none at the end."""
        while True:
            data = self._stream.read(size)
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                raise CorruptFileError(f"{shown(self._path)} is not {self._charset}: {error.reason}") from error
            if text or not data:
                return text.encode()


_SAMPLE_BYTES = 1 << 16
_BYTES_PER_COMPRESSED_BYTE = 4

BOM = b"\xef\xbb\xbf"
"""The byte order mark, which may precede a text in UTF-8 and is not part of it."""

DEFAULT_MAX_LINE_BYTES = 64 << 20
"""A longer line is a bad record; the limit keeps a file without newlines from filling the memory."""


def type_of_fields(fields: object) -> TypeInformation:
    """The type of the records: a composite one that is given, or the rows with the given types by name."""
    if isinstance(fields, Mapping):
        return Types.ROW_NAMED(list(fields), list(fields.values()))
    return Types.of(fields)


LineDecoder = Callable[[bytes], Decoded]
"""Turns whole lines, which are UTF-8 with their line ends, into records.

It raises a ``ValueError`` when one of the lines cannot be read.
"""


class LineFormat(FileFormat[T_co]):
    """A format where every record is a line. A line belongs to the part of the file where it starts.

    Args:
        charset: how characters are encoded.
        max_line_bytes: a longer line is a bad record.

    Attributes:
        charset: Python's own name of the encoding.

    Raises:
        ConfigurationError: when the charset is unknown.
    """

    header_lines = 0
    """The lines at the beginning of a file that are not records."""

    boundary = Newlines()
    """The ends of lines; anything but newlines keeps files from being cut."""

    def __init__(self, charset: str = "UTF-8", max_line_bytes: int = DEFAULT_MAX_LINE_BYTES) -> None:
        self.charset = normal_charset(charset)
        self._max_line_bytes = max_line_bytes

    @abstractmethod
    def decoder(self, path: str, header: bytes) -> LineDecoder:
        """Make the decoder of the lines of one file.

        Args:
            path: the file, for messages.
            header: its first :attr:`header_lines` lines as UTF-8.

        Raises:
            CorruptFileError: when the header does not fit.
        """

    def hint_at_first_line(self, line: bytes) -> str:
        """Advise on the first line of a file, which cannot be read.

        Args:
            line: the line, in the charset of the file where that leaves ASCII characters as they are, else in UTF-8.

        Returns:
            The end of a sentence; empty where there is nothing to say.
        """
        return ""

    def extent(self, file: InputFile) -> FileExtent:
        with open_stream(file, self.charset) as stream:
            try:
                sample = stream.read(_SAMPLE_BYTES)
            except CorruptFileError:  # the reader comes to it, and reports it
                sample = b""
        per_byte = max(sample.count(b"\n"), 1) / max(len(sample), 1)
        if compression_of(file.path) is not None:
            per_byte *= _BYTES_PER_COMPRESSED_BYTE
        return FileExtent(file.size, records_per_unit=per_byte, divisible=not self.extent_is_whole(file.path))

    def read(self, part: FileRange, *, reject: bool) -> Iterator[Decoded]:
        blocks, header = self._blocks(part), b""
        if self.header_lines:
            first = next(blocks, None)
            if first is None:
                return
            blocks = chain([first], blocks)
            header = self._header(part.file, first)
        lines = _LineReader(self, part.file, header, reject=reject)
        for block in blocks:
            yield from lines.records(block)

    def _blocks(self, part: FileRange) -> Iterator[Block]:
        """The lines that start in a part, whole, in blocks; what was written to a plain file since is not looked at."""
        if self.extent_is_whole(part.file.path):
            yield from self._all_blocks(part.file)
            return
        with part.file.open() as stream:
            size = part.file.size
            begin, stop = _line_start(stream, part.start, size), _line_start(stream, part.end, size)
            yield from stream_blocks(_Section(stream, begin, stop), Newlines(), self._max_line_bytes, begin)

    def _all_blocks(self, file: InputFile) -> Iterator[Block]:
        with open_stream(file, self.charset) as stream:
            yield from stream_blocks(stream, self.boundary, self._max_line_bytes)

    def extent_is_whole(self, path: str) -> bool:
        """Tell whether the file can only be read from its beginning to its end."""
        safe = type(self.boundary) is Newlines and is_line_safe(self.charset)
        return compression_of(path) is not None or not safe

    def _header(self, file: InputFile, first: Block) -> bytes:
        """The lines at the beginning of the file that are no records, as they stand there; ``first`` may have them."""
        block = next(self._all_blocks(file)) if first.offset else first
        ends = self.boundary.all(block.data)[: self.header_lines]
        return block.data[: ends[-1]]

    def to_utf8(self, data: bytes) -> bytes:
        """Lines of a block in UTF-8, which they are where the charset is not :func:`is_line_safe`."""
        charset = self.charset
        return data if charset == "utf-8" or not is_line_safe(charset) else data.decode(charset).encode()


class _LineReader:
    """Reads the blocks of one part of one file."""

    def __init__(self, fmt: LineFormat, file: InputFile, header: bytes, *, reject: bool) -> None:
        self._file = file
        self._format = fmt
        self._header = len(header)
        self._decode = fmt.decoder(file.path, fmt.to_utf8(header.removeprefix(BOM)))
        self._counted, self._line = 0, 1  # the number of the line that begins at an offset
        way_out = f"call set_dead_letter() on the builder that FileSource.for_record_stream_format() gives{IN_SQL}"
        self._bad_lines = BadRecords(reject, "line", way_out)

    def records(self, block: Block) -> Iterator[Decoded]:
        """The records of a block of lines."""
        skipped = max(self._header - block.offset, 0)
        data = block.data[skipped:]
        if block.offset == 0 and not skipped:
            data = data.removeprefix(BOM)
        if block.too_long:
            yield Decoded(rejected=[self._bad(block, data, 0, "the line is too long")])
        elif data:
            try:
                yield self._decoded(data)
            except BadRecordError:
                raise
            except ValueError:
                yield self._without_bad_lines(block, data)

    def _decoded(self, data: bytes) -> Decoded:
        decoded = self._decode(self._format.to_utf8(data))
        if decoded.columns is not None and not decoded.is_checked:
            refuse_unreadable(decoded.columns, self._format.produced_type)
        return decoded

    def _without_bad_lines(self, block: Block, data: bytes) -> Decoded:
        ends = self._format.boundary.all(data)
        starts = [0, *ends]
        before = len(block.data) - len(data)
        good, bad = readable_parts(lambda first, last: self._decoded(data[starts[first] : starts[last]]), len(ends))
        rejected = [
            self._bad(block, data[starts[index] : ends[index]], before + starts[index], reason) for index, reason in bad
        ]
        rows = [row for part in good for row in part.rows or ()]
        batches = [part.columns for part in good if part.columns is not None]
        return Decoded(pa.concat_batches(batches) if batches else None, None if batches else rows, rejected)

    def _bad(self, block: Block, raw: bytes, before: int, reason: str) -> tuple[str, str, str]:
        """Make the dead letter of a bad line that starts ``before`` bytes into the block."""
        line = self._line_at(block.offset) + block.data[:before].count(b"\n")
        hint = self._format.hint_at_first_line(raw) if line == 1 else ""
        return self._bad_lines.letter(f"{shown(self._file.path)}:{line}", raw, reason, hint)

    def _line_at(self, offset: int) -> int:
        """The number of the line that begins at an offset, which never falls; counted for bad lines alone."""
        with open_stream(self._file, self._format.charset) as stream:
            if not isinstance(stream, io.FileIO):
                return 1 + _newlines(stream, offset)
            stream.seek(self._counted)
            self._line += _newlines(stream, offset - self._counted)
        self._counted = offset
        return self._line
