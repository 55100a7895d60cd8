"""Sections: one Arrow record batch each, as bytes within a state file, with checksums that are verified when touched.

A section is an encapsulated Arrow schema message and an encapsulated record batch message, uncompressed, so that its
columns are read in place; buffers with the same bytes are in it once (:mod:`.messages`). The first ``head`` bytes
(schema and metadata of the batch) have a checksum of their own, verified before Arrow parses them; the rest has one for
each block of 256 KiB, verified before a column that reaches into the block is handed out, once in the life of the
object.

Columns are named as in the schema. ``name[]`` stands for the elements of all lists of a list column, one list after the
other, so that some elements of a long list can be read, and verified, without the others.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from struct import Struct
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.errors import InfrastructureError, StateCorruptedError, StateError
from headrace.state.keys import KeyColumn
from headrace.state.keys.hashing import HASH_END
from headrace.state.runs.layout import HASH
from headrace.storage.file_system import MappedFile

Longs = npt.NDArray[np.int64]

Span = tuple[int, int]

"""Address and size in bytes."""

Indices = npt.NDArray[np.int64]


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
"""The bytes at the beginning, in the middle and at the end of a buffer that tell most apart."""

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
    table = _followed(metadata, _PREFIX)
    header = _followed(metadata, _field(metadata, table, _HEADER))
    places = _places(metadata, _followed(metadata, _field(metadata, header, _BUFFERS)))
    extents, size = _distinct(body, places)
    np.frombuffer(metadata, np.int64, 1, _field(metadata, table, _BODY_LENGTH))[:] = size
    return [pa.py_buffer(bytes(metadata)), *(body.slice(first, stop - first) for first, stop in extents)]


def _distinct(body: pa.Buffer, places: Longs) -> tuple[list[tuple[int, int]], int]:
    """The body without what is in it already: from where to where the old one is taken, and how long the new one is.

    Buffers keep their order, and the padding behind each. ``places`` gets where each buffer is in the new body.
    """
    extents, size = list[tuple[int, int]](), 0
    known: dict[tuple[int, bytes], list[tuple[int, pa.Buffer]]] = {}
    stops = [*places[1:, 0].tolist(), body.size]
    for number, ((start, length), stop) in enumerate(zip(places.tolist(), stops, strict=True)):
        buffer = body.slice(start, length)
        alike = known.setdefault((length, _probed(buffer)), [])
        places[number, 0] = offset = next((at for at, other in alike if other.equals(buffer)), size)
        if offset == size:
            alike.append((size, buffer))
            extents.append((start, stop))
            size += stop - start
    return extents, size


def _probed(buffer: pa.Buffer) -> bytes:
    middle, last = buffer.size // 2, max(0, buffer.size - _PROBE)
    return b"".join(bytes(buffer[at : at + _PROBE]) for at in (0, middle, last))


def _field(flatbuffer: bytearray, table: int, number: int) -> int:
    """The position of a field that a table has; the flatbuffer follows the prefix of a message."""
    fields = table - int(_RELATIVE.unpack_from(flatbuffer, table)[0])
    return table + int(_SHORT.unpack_from(flatbuffer, fields + 4 + 2 * number)[0])


def _followed(flatbuffer: bytearray, at: int) -> int:
    """The target of the offset that is stored at a position."""
    return at + int(_OFFSET.unpack_from(flatbuffer, at)[0])


def _places(flatbuffer: bytearray, at: int) -> Longs:
    """The structs of two integers of a vector: the offset and the length of each buffer, to be changed."""
    (count,) = _OFFSET.unpack_from(flatbuffer, at)
    return np.frombuffer(flatbuffer, np.int64, 2 * count, at + _OFFSET.size).reshape(-1, 2)


def spans_of_column(array: pa.Array) -> Iterator[Span]:
    """Return where a whole column is."""
    for buffer in array.buffers():
        if buffer is not None and buffer.size:
            yield buffer.address, buffer.size


def spans_of_rows(array: pa.Array, start: int, stop: int) -> Iterator[Span]:
    """Return where some rows of a column are; of a column of a rare type, all of it.

    Offsets are given before they are read, so that a caller that verifies one span after the other never follows an
    offset that is wrong.
    """
    type_ = array.type
    if pa.types.is_struct(type_):
        yield from _cells(array.buffers()[0], start, stop, 1)
        for index in range(type_.num_fields):
            yield from spans_of_rows(array.field(index), start, stop)
    elif pa.types.is_list(type_) or pa.types.is_map(type_) or pa.types.is_string(type_) or pa.types.is_binary(type_):
        yield from _spans_of_lengths(array, start, stop)
    elif pa.types.is_primitive(type_) or pa.types.is_boolean(type_) or pa.types.is_decimal(type_):
        validity, data = array.buffers()
        yield from _cells(validity, start, stop, 1)
        yield from _cells(data, start, stop, type_.bit_width)
    else:
        yield from spans_of_column(array)


def spans_of_offsets(array: pa.Array, start: int, stop: int) -> Iterator[Span]:
    """Return where is said which elements the lists of some rows have."""
    yield from _cells(array.buffers()[1], start, stop + 1, 32)


def _cells(buffer: pa.Buffer | None, start: int, stop: int, bits: int) -> Iterator[Span]:
    if buffer is not None and buffer.size:
        first, end = start * bits // 8, -(-stop * bits // 8)
        yield buffer.address + first, end - first


def _spans_of_lengths(array: pa.Array, start: int, stop: int) -> Iterator[Span]:
    """The byte ranges of rows of a column with values of variable length."""
    validity, offsets, *rest = array.buffers()
    yield from _cells(validity, start, stop, 1)
    if offsets is None or not offsets.size:
        return
    yield from _cells(offsets, start, stop + 1, 32)
    low, high = _bounds(offsets, start, stop)
    if pa.types.is_map(array.type):
        yield from spans_of_rows(array.keys, low, high)
        yield from spans_of_rows(array.items, low, high)
    elif pa.types.is_list(array.type):
        yield from spans_of_rows(array.values, low, high)
    elif rest[0] is not None and high > low:
        yield rest[0].address + low, high - low


def _bounds(offsets: pa.Buffer, start: int, stop: int) -> tuple[int, int]:
    low, high = np.frombuffer(offsets, dtype=np.int32)[[start, stop]].tolist()
    return low, high


BLOCK: Final = 256 * 1024
"""Bytes that share one checksum."""

FEW: Final = 32
"""Up to this many rows are looked for one by one, so that the rest of a large run need not be verified."""

STEP: Final = 4096
"""Rows that are searched together then."""

ELEMENTS: Final = "[]"
"""Behind the name of a list column: the elements of its lists."""

ALIGNMENT: Final = 64
"""Sections begin at multiples of this many bytes."""


_ROWS_EACH: Final = 16
"""Up to so many rows for each hash that is looked for, it is faster to look at all of them once."""


class Section:
    """An immutable record batch that is in memory, in a file, or both.

    Attributes:
        rows: how many rows it has.
        file: the file that holds it; empty while there is none.
        offset: where in that file it begins.
    """

    __slots__ = ("_batch", "_bytes", "_encoding", "_load", "file", "offset", "rows")

    file: str
    offset: int
    rows: int
    _batch: pa.RecordBatch | None
    _bytes: _StoredBytes | None
    _encoding: _Encoding | None
    _load: Callable[[], MappedFile] | None

    def __init__(self, batch: pa.RecordBatch) -> None:
        if any(map(pa.types.is_dictionary, batch.schema.types)):
            raise StateError(f"dictionary-encoded columns cannot be kept in state: {batch.schema}")
        self.rows, self.file, self.offset = batch.num_rows, "", 0
        self._batch = batch
        self._bytes = self._encoding = self._load = None

    @staticmethod
    def stored(entry: dict[str, Any], file: str, load: Callable[[], MappedFile]) -> Section:
        """A section that :meth:`describe` described; ``load`` gives the file when its bytes are needed.

        ``file`` is empty for a section that is not in a file of its own but inside the version reference.
        """
        self = Section.__new__(Section)
        self.rows, self.file, self.offset = entry["rows"], file, entry["at"]
        self._batch = self._bytes = None
        checks = np.frombuffer(base64.b64decode(entry["sums"]), dtype="<u4").tolist()
        self._encoding, self._load = _Encoding(entry["head"], entry["size"], checks), load
        return self

    @property
    def batch(self) -> pa.RecordBatch:
        """All columns, verified.

        Raises:
            StateCorruptedError: when the file is missing or damaged; the message names it.
        """
        self.verify()
        return self._opened()

    def verify(self) -> None:
        """Reads all of it; errors as of :attr:`batch`."""
        self._opened()
        unverified = self._unverified()
        if unverified is not None:
            unverified.verify(0, self.size)

    @property
    def nbytes(self) -> int:
        """Return how many bytes it takes, in memory where it was not written yet."""
        return self.size or int(self._opened().nbytes)

    @property
    def is_table(self) -> bool:
        """Return whether it is in a table that may exceed memory, so that only work beside the epochs merges it."""
        return False

    @property
    def schema(self) -> pa.Schema:
        """The schema; only the head of the section is verified."""
        return self._opened().schema

    def narrowed(self, keys: KeyColumn) -> Section:
        """A section with the rows of keys (in the order of runs), which may lack others; here it is this one."""
        return self

    def between(self, hashes: tuple[int, int]) -> pa.RecordBatch:
        """The rows of a range of hashes, where rows are in the order of these; no others are verified."""
        return self.slice(*self.rows_between(hashes))

    def rows_between(self, hashes: tuple[int, int]) -> tuple[int, int]:
        """The first row of a range of hashes, and the first behind it, where rows are in the order of these."""
        start = self.lower_bound(HASH, np.uint64(hashes[0]), 0, self.rows)
        stop = self.lower_bound(HASH, np.uint64(hashes[1]), start, self.rows) if hashes[1] < HASH_END else self.rows
        return start, stop

    def column(self, name: str) -> pa.Array:
        """One column; only the blocks that hold it are verified.

        Raises:
            StateCorruptedError: when the file is missing or damaged; the message names it.
        """
        array = self._array(name)
        unverified = self._unverified()
        if unverified is not None:
            unverified.verify_spans(spans_of_column(array))
        return array

    def rows_of(self, name: str, start: int, stop: int) -> pa.Array:
        """Some consecutive values of one column; only the blocks that hold them are verified."""
        array = self._array(name)
        stored = self._bytes  # as self._unverified(), without another call for each row that is looked at
        if stored is not None and stored.unverified:
            stored.verify_spans(spans_of_rows(array, start, stop))
        return array.slice(start, stop - start)

    def take(self, name: str, rows: Indices) -> pa.Array:
        """Some values of one column; when they are few, only the blocks that hold them are verified."""
        return self.ranges_of(name, rows, rows + 1).take(pa.array(rows))

    def ranges_of(self, name: str, starts: Indices, stops: Indices) -> pa.Array:
        """One column, of which only these ranges of rows may be used: when they are few, no others are verified."""
        array = self._array(name)
        unverified = self._unverified()
        if unverified is not None and len(starts):
            few = len(starts) <= FEW
            ranges = zip(starts.tolist(), stops.tolist(), strict=True) if few else [(0, len(array))]
            unverified.verify_spans(chain.from_iterable(spans_of_rows(array, start, stop) for start, stop in ranges))
        return array

    def extents(self, name: str, rows: Indices) -> tuple[Indices, Indices]:
        """Return where the lists of these rows begin and end among a list column's elements, which are not touched."""
        array = self._array(name)
        unverified = self._unverified()
        if unverified is not None:
            ranges = [(row, row + 1) for row in rows.tolist()] if len(rows) <= FEW else [(0, len(array))]
            unverified.verify_spans(chain.from_iterable(spans_of_offsets(array, start, stop) for start, stop in ranges))
        offsets = array.offsets.to_numpy()
        return offsets[rows].astype(np.int64), offsets[rows + 1].astype(np.int64)

    def lower_bounds(self, name: str, values: npt.NDArray[np.integer[Any]]) -> Indices:
        """Return where each value (sorted) would stand in a sorted column of integers: before all not smaller ones.

        They are to be of the column's own type. When they are few, only the blocks that they are searched in are
        verified.
        """
        if len(values) > FEW or self._unverified() is None:
            return np.searchsorted(self.column(name).to_numpy(), values)
        return np.array([self.lower_bound(name, value, 0, self.rows) for value in values], dtype=np.int64)

    def ranges_of_hashes(self, hashes: npt.NDArray[np.uint64]) -> tuple[Indices, Indices]:
        """From where to where the rows are that have each of the hashes (sorted), where rows are in the order of these.

        When they are few, only the blocks that they are searched in are verified.
        """
        if len(hashes) <= FEW and self._unverified() is not None:
            bounds = [self.rows_between((value, value + 1)) for value in hashes.tolist()]
            firsts, lasts = np.array(bounds, np.int64).reshape(-1, 2).T
            return firsts, lasts
        column = self.column(HASH).to_numpy()
        if len(column) > _ROWS_EACH * len(hashes):
            return np.searchsorted(column, hashes), np.searchsorted(column, hashes, side="right")
        # To find where each hash begins takes one pass, and makes one search of two, through fewer values.
        edges = np.concatenate(((0,), np.flatnonzero(column[1:] != column[:-1]) + 1, (len(column),)))
        different = column[edges[:-1]]
        places = np.searchsorted(different, hashes)
        is_there = different[np.minimum(places, len(different) - 1)] == hashes
        return edges[places], edges[places + is_there]

    def lower_bound(self, name: str, value: np.integer[Any], start: int, stop: int) -> int:
        """Return where a value would stand among sorted rows: before all from ``start`` on that are not smaller.

        Only the blocks that it is searched in are verified. It is to be of the column's own type.
        """
        if self._unverified() is not None:
            start, stop = self._step_of(name, value, start, stop)
        return start + int(np.searchsorted(self.rows_of(name, start, stop).to_numpy(), value))

    def _step_of(self, name: str, value: np.integer[Any], start: int, stop: int) -> tuple[int, int]:
        """The step of rows that a value stands in, found by their first values."""
        low, high = 0, -(-(stop - start) // STEP)
        while low < high:
            middle = (low + high) // 2
            row = start + middle * STEP
            if self.rows_of(name, row, row + 1).to_numpy()[0] < value:
                low = middle + 1
            else:
                high = middle
        first = start + max(0, low - 1) * STEP
        return first, min(first + STEP, stop)

    def slice(self, start: int, stop: int) -> pa.RecordBatch:
        """Some rows, all columns; verified as :meth:`rows_of` says."""
        schema = self.schema
        return pa.RecordBatch.from_arrays([self.rows_of(name, start, stop) for name in schema.names], schema=schema)

    def encoded(self) -> Sequence[pa.Buffer]:
        """The bytes of the section, in pieces; the same batch always gives the same ones."""
        batch = self._opened()
        if self._bytes is None:
            self._encoding, pieces = _encoded(batch)
            return pieces
        self._bytes.verify(0, self.size)
        return [self._bytes.buffer]

    def describe(self, at: int) -> dict[str, Any]:
        """The entry of an index that says where the section is, given where it begins in its file."""
        head, size, checks = self._encoding or _encoded(self._opened())[0]
        sums = base64.b64encode(np.array(checks, dtype="<u4").tobytes()).decode()
        return {"at": at, "size": size, "head": head, "rows": self.rows, "sums": sums}

    def taken_along(self) -> None:
        """The next version is to hold the section itself, wherever it lies now."""
        self.file = ""

    def moved_to(self, file: str, offset: int, load: Callable[[], MappedFile]) -> None:
        """The section has been written to a file; a large one is given up in memory and mapped when needed again."""
        self.file, self.offset = file, offset
        is_large = self.size >= BLOCK
        if is_large or self._load is not None:
            self._load = load
        if is_large:
            self.release()

    def release(self) -> None:
        """Give up the bytes of the file, to load it again when it is needed; what is in memory alone stays."""
        if self._load is not None:
            self._batch = self._bytes = None

    @property
    def size(self) -> int:
        """The encoded size in bytes; 0 before the section is written for the first time."""
        return 0 if self._encoding is None else self._encoding.length

    def _array(self, name: str) -> pa.Array:
        """A column, or the elements of one; nothing of it is verified."""
        batch = self._opened()
        return batch.column(name.removesuffix(ELEMENTS)).values if name.endswith(ELEMENTS) else batch.column(name)

    def _opened(self) -> pa.RecordBatch:
        if self._batch is None:
            if self._load is None or self._encoding is None:
                raise StateError("a section is neither in memory nor in a file")
            self._bytes = _StoredBytes(self._load(), self.file, self.offset, self._encoding)
            self._batch = self._bytes.parse()
        return self._batch

    def _unverified(self) -> _StoredBytes | None:
        """The bytes in the file, unless all of them were verified, or the rows have never left the memory."""
        if self._batch is None:
            self._opened()
        return self._bytes if self._bytes is not None and self._bytes.unverified else None


class _Encoding(NamedTuple):
    """The encoding of a section.

    Attributes:
        head: the bytes of schema and metadata.
        length: all bytes.
        checks: the checksum of the head, and of each block behind it.
    """

    head: int
    length: int
    checks: list[int]


def _encoded(batch: pa.RecordBatch) -> tuple[_Encoding, Sequence[pa.Buffer]]:
    schema, (metadata, *body) = batch.schema.serialize(), written_once(batch.serialize())
    # Padding in front makes the batch's buffers as aligned in the file as they are in the message.
    padding = -(schema.size + metadata.size) % ALIGNMENT
    head = schema.to_pybytes() + b"\0" * padding + metadata.to_pybytes()
    length = len(head) + sum(piece.size for piece in body)
    return _Encoding(len(head), length, [crc32(head), *_checks_of_blocks(body)]), [pa.py_buffer(head), *body]


class _StoredBytes:
    """The bytes of a section in a file, of which each block is verified when it is touched for the first time.

    Attributes:
        buffer: the bytes.
        unverified: how many blocks have not been verified.
    """

    __slots__ = ("_encoding", "_file", "_mapped", "_offset", "_verified", "buffer", "unverified")

    def __init__(self, mapped: MappedFile, file: str, offset: int, encoding: _Encoding) -> None:
        self._mapped = mapped
        self._file = file
        self._offset = offset
        self._encoding = encoding
        if offset + encoding.length > mapped.buffer.size:
            raise self._damaged(f"is truncated: {mapped.buffer.size} bytes")
        self.buffer = mapped.buffer.slice(offset, encoding.length)
        self.unverified = len(encoding.checks)
        self._verified = bytearray(self.unverified)

    def parse(self) -> pa.RecordBatch:
        """The record batch; only the head is verified."""
        self.verify(0, self._encoding.head)
        try:
            reader = pa.BufferReader(self.buffer)
            schema = pa.ipc.read_schema(reader)
            metadata = _aligned_start(self.buffer, reader.tell())
            return pa.ipc.read_record_batch(self.buffer.slice(metadata), schema)
        except pa.ArrowException as error:
            raise StateCorruptedError(f"the state file {self._file or '(inline)'} cannot be read: {error}") from error

    def verify_spans(self, spans: Iterable[Span]) -> None:
        """Verifies the blocks that reach into some memory."""
        base = self.buffer.address
        for address, size in spans:
            self.verify(address - base, address - base + size)

    def verify(self, start: int, end: int) -> None:
        """Verifies the blocks that reach into the bytes from ``start`` up to ``end``.

        Raises:
            StateCorruptedError: when the file is missing or damaged; the message names it.
        """
        if not self.unverified or start >= end:
            return
        head = self._encoding.head
        first = 0 if start < head else 1 + (start - head) // BLOCK
        last = 0 if end <= head else 1 + (end - 1 - head) // BLOCK
        first = self._verified.find(0, first, last + 1)
        if first < 0:
            return
        with reading(self._file):
            self._mapped.fetch(self._offset + self._extent(first)[0], self._offset + self._extent(last)[1])
        for block in range(first, last + 1):
            if not self._verified[block]:
                self._verify_block(block)
                self._verified[block] = 1
                self.unverified -= 1

    def _extent(self, block: int) -> tuple[int, int]:
        """Return where a block begins and ends; 0 is the head."""
        head, length, _ = self._encoding
        if not block:
            return 0, head
        start = head + (block - 1) * BLOCK
        return start, min(start + BLOCK, length)

    def _verify_block(self, block: int) -> None:
        low, high = self._extent(block)
        if crc32(memoryview(self.buffer)[low:high]) != self._encoding.checks[block]:
            raise self._damaged(f"is damaged at byte {self._offset + low} and following")

    def _damaged(self, how: str) -> StateCorruptedError:
        self._mapped.is_damaged = True
        return StateCorruptedError(f"the state file {self._file or '(inline)'} {how}")


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Makes what is raised while a state file is read tell which file it is.

    Raises:
        StateCorruptedError: when it is missing.
        InfrastructureError: when it cannot be read.
    """
    try:
        yield
    except (FileNotFoundError, IsADirectoryError) as error:
        raise StateCorruptedError(f"the state file {name} is missing") from error
    except OSError as error:
        raise InfrastructureError(f"the state file {name} cannot be read: {error}") from error


def _checks_of_blocks(pieces: Sequence[pa.Buffer]) -> Iterator[int]:
    """The checksum of each block of what pieces are together."""
    check, room = 0, BLOCK
    for piece in pieces:
        view, start = memoryview(piece), 0
        while start < len(view):
            part = view[start : start + room]
            check, room, start = crc32(part, check), room - len(part), start + len(part)
            if not room:
                yield check
                check, room = 0, BLOCK
    if room < BLOCK:
        yield check


def _aligned_start(buffer: pa.Buffer, at: int) -> int:
    """Return where the batch's message begins: after the zeros that follow the schema's."""
    view = memoryview(buffer).cast("B")
    while view[at] == 0:
        at += 1
    return at
