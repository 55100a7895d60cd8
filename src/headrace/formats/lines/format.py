"""``LineFormat``: the base of formats where a record is a line; decompression, and finding the lines that are bad."""

from __future__ import annotations

import codecs
import io
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from headrace.common.errors import BadRecordError, ConfigurationError, CorruptFileError
from headrace.common.type_variables import T_co
from headrace.common.typeinfo import Types
from headrace.formats.bad_records import BadRecords, reason_alone, refuse_unreadable
from headrace.formats.compression import compression_of, open_decompressed
from headrace.formats.file_format import Decoded, FileExtent, FileFormat
from headrace.formats.lines.blocks import Newlines, file_blocks, stream_blocks
from headrace.storage.files import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from headrace.common.typeinfo import TypeInformation
    from headrace.formats.compression import ByteStream
    from headrace.formats.file_format import FileRange
    from headrace.formats.lines.blocks import Block, Boundary
    from headrace.storage.files import InputFile


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
    """Whether ASCII characters are encoded as themselves, so that a newline can be found without decoding."""
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


def type_of_fields(fields: Any) -> TypeInformation:
    """The type of the records: a composite one that is given, or the rows with the given types by name."""
    if isinstance(fields, Mapping):
        return Types.ROW_NAMED(list(fields), list(fields.values()))
    return Types.of(fields)


class LineDecoder(Protocol):
    """Turns whole lines into records."""

    def __call__(self, data: bytes) -> Decoded:
        """All records of some lines, which are UTF-8 with their line ends.

        Raises:
            ValueError: when one of the lines cannot be read.
        """


class LineFormat(FileFormat[T_co]):
    """A format where every record is a line. A line belongs to the part of the file where it starts.

    Args:
        charset: how characters are encoded.
        max_line_bytes: a longer line is a bad record.

    Raises:
        ConfigurationError: when the charset is unknown.
    """

    header_lines = 0
    """How many lines at the beginning of a file are not records."""

    boundary: Boundary = Newlines()
    """What ends a line; anything but newlines keeps files from being cut."""

    def __init__(self, charset: str = "UTF-8", max_line_bytes: int = DEFAULT_MAX_LINE_BYTES) -> None:
        self._charset = normal_charset(charset)
        self._max_line_bytes = max_line_bytes

    @abstractmethod
    def decoder(self, path: str, header: bytes) -> LineDecoder:
        """What reads the lines of one file.

        Args:
            path: the file, for messages.
            header: its first :attr:`header_lines` lines as UTF-8.

        Raises:
            CorruptFileError: when the header does not fit.
        """

    def hint_at_first_line(self, line: bytes) -> str:
        """What to do about the first line of a file, which cannot be read.

        Args:
            line: the line, in the charset of the file where that leaves ASCII characters as they are, else in UTF-8.

        Returns:
            The end of a sentence; empty where there is nothing to say.
        """
        return ""

    def extent(self, file: InputFile) -> FileExtent:
        compressed = compression_of(file.path) is not None
        divisible = not compressed and isinstance(self.boundary, Newlines) and is_line_safe(self._charset)
        per_byte = self._lines_per_byte(file) * (_BYTES_PER_COMPRESSED_BYTE if compressed else 1)
        return FileExtent(file.size, records_per_unit=per_byte, divisible=divisible)

    def _lines_per_byte(self, file: InputFile) -> float:
        with open_stream(file, self._charset) as stream:
            try:
                sample = stream.read(_SAMPLE_BYTES)
            except CorruptFileError:  # whoever reads it comes to it, and tells
                sample = b""
        return max(sample.count(b"\n"), 1) / max(len(sample), 1)

    def read(self, part: FileRange, *, reject: bool) -> Iterator[Decoded]:
        decode = _LineReader(self, part.file, self._charset, self._header(part), reject=reject)
        for block in self._blocks(part):
            yield from decode.records(block)

    def _blocks(self, part: FileRange) -> Iterator[Block]:
        if self.extent_is_whole(part.file.path):
            with open_stream(part.file, self._charset) as stream:
                yield from stream_blocks(stream, self.boundary, self._max_line_bytes)
        else:
            yield from file_blocks(part.file, part.start, part.end, self._max_line_bytes)

    def extent_is_whole(self, path: str) -> bool:
        """Whether the file can only be read from its beginning to its end."""
        safe = isinstance(self.boundary, Newlines) and is_line_safe(self._charset)
        return compression_of(path) is not None or not safe

    def _header(self, part: FileRange) -> bytes:
        """The lines at the beginning of the file that are no records, as they stand there."""
        if not self.header_lines:
            return b""
        with open_stream(part.file, self._charset) as stream:
            block = next(stream_blocks(stream, self.boundary, self._max_line_bytes), None)
        if block is None:
            return b""
        ends = self.boundary.all(block.data)[: self.header_lines]
        return block.data[: ends[-1]]


class _LineReader:
    """Reads the blocks of one part of one file."""

    def __init__(self, fmt: LineFormat, file: InputFile, charset: str, header: bytes, *, reject: bool) -> None:
        self._shown = shown(file.path)
        self._format = fmt
        self._boundary = fmt.boundary
        self._charset = charset if is_line_safe(charset) else "utf-8"
        self._header = len(header)
        self._decode = fmt.decoder(file.path, self._to_utf8(header.removeprefix(BOM)))
        self._numbers = LineNumbers(lambda: open_stream(file, charset))
        way_out = "call set_dead_letter() on the builder that FileSource.for_record_stream_format() gives"
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
            yield self._decode_lines(block, data)

    def _decode_lines(self, block: Block, data: bytes) -> Decoded:
        try:
            return self._decode_raw(data)
        except ValueError as error:
            if isinstance(error, BadRecordError):
                raise
            return self._without_bad_lines(block, data)

    def _decode_raw(self, data: bytes) -> Decoded:
        decoded = self._decode(self._to_utf8(data))
        if decoded.columns is not None:
            refuse_unreadable(decoded.columns, self._format.produced_type)
        return decoded

    def _to_utf8(self, data: bytes) -> bytes:
        return data if self._charset == "utf-8" else data.decode(self._charset).encode()

    def _without_bad_lines(self, block: Block, data: bytes) -> Decoded:
        ends = self._boundary.all(data)
        starts = [0, *ends]
        before = len(block.data) - len(data)
        good: list[Decoded] = []
        rejected = []
        for part in decode_good_lines(self._decode_raw, data, ends):
            if isinstance(part, Decoded):
                good.append(part)
                continue
            start, end = starts[part.index], ends[part.index]
            rejected.append(self._bad(block, data[start:end], before + start, part.reason))
        records = joined(good)
        return Decoded(records.columns, records.rows, rejected)

    def _bad(self, block: Block, raw: bytes, before: int, reason: str) -> tuple[str, str, str]:
        """What to hand over about a bad line that starts ``before`` bytes into the block."""
        line = self._numbers.line_at(block.offset) + block.data[:before].count(b"\n")
        hint = self._format.hint_at_first_line(raw) if line == 1 else ""
        return self._bad_lines.letter(f"{self._shown}:{line}", raw, reason, hint)
