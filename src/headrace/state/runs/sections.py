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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from struct import Struct
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.errors import StateCorruptedError, StateError
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


def spans_of_column(array: pa.Array) -> Iterator[Span]:
    """Where a whole column is."""
    for buffer in array.buffers():
        if buffer is not None and buffer.size:
            yield buffer.address, buffer.size


def spans_of_rows(array: pa.Array, start: int, stop: int) -> Iterator[Span]:
    """Where some rows of a column are; of a column of a rare type, all of it.

    Offsets are given before they are read, so that a caller who verifies one span after the other never follows an
    offset that is wrong.
    """
    type_ = array.type
    if pa.types.is_struct(type_):
        yield from _cells(array.buffers()[0], start, stop, 1)
        for index in range(type_.num_fields):
            yield from spans_of_rows(array.field(index), start, stop)
    elif pa.types.is_list(type_) or pa.types.is_map(type_):
        yield from _list_spans(array, start, stop)
    elif pa.types.is_string(type_) or pa.types.is_binary(type_):
        yield from _byte_spans(array, start, stop)
    elif pa.types.is_primitive(type_) or pa.types.is_boolean(type_) or pa.types.is_decimal(type_):
        validity, data = array.buffers()
        yield from _cells(validity, start, stop, 1)
        yield from _cells(data, start, stop, type_.bit_width)
    else:
        yield from spans_of_column(array)


def spans_of_offsets(array: pa.Array, start: int, stop: int) -> Iterator[Span]:
    """Where is said which elements the lists of some rows have."""
    yield from _cells(array.buffers()[1], start, stop + 1, 32)


def _cells(buffer: pa.Buffer | None, start: int, stop: int, bits: int) -> Iterator[Span]:
    if buffer is not None and buffer.size:
        first, end = start * bits // 8, -(-stop * bits // 8)
        yield buffer.address + first, end - first


def _byte_spans(array: pa.Array, start: int, stop: int) -> Iterator[Span]:
    validity, offsets, data = array.buffers()
    yield from _cells(validity, start, stop, 1)
    if offsets is not None and offsets.size:
        yield from _cells(offsets, start, stop + 1, 32)
        low, high = _bounds(offsets, start, stop)
        if data is not None and high > low:
            yield data.address + low, high - low


def _list_spans(array: pa.Array, start: int, stop: int) -> Iterator[Span]:
    validity, offsets, *_ = array.buffers()
    yield from _cells(validity, start, stop, 1)
    if offsets is not None and offsets.size:
        yield from _cells(offsets, start, stop + 1, 32)
        low, high = _bounds(offsets, start, stop)
        children = (array.keys, array.items) if pa.types.is_map(array.type) else (array.values,)
        for child in children:
            yield from spans_of_rows(child, low, high)


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

    __slots__ = (
        "_batch",
        "_buffer",
        "_checks",
        "_head",
        "_length",
        "_load",
        "_mapped",
        "_unverified",
        "_verified",
        "file",
        "offset",
        "rows",
    )

    file: str
    offset: int
    rows: int
    _batch: pa.RecordBatch | None
    _buffer: pa.Buffer | None
    _checks: list[int] | None
    _load: Callable[[], MappedFile] | None
    _mapped: MappedFile | None
    _verified: bytearray | None

    def __init__(self, batch: pa.RecordBatch) -> None:
        if any(pa.types.is_dictionary(field.type) for field in batch.schema):
            raise StateError(f"dictionary-encoded columns cannot be kept in state: {batch.schema}")
        self.rows = batch.num_rows
        self.file = ""
        self.offset = 0
        self._batch = batch
        self._buffer = self._checks = self._load = self._mapped = self._verified = None
        self._head = self._length = self._unverified = 0

    @staticmethod
    def stored(entry: dict[str, Any], file: str, load: Callable[[], MappedFile]) -> Section:
        """A section that :meth:`describe` described; ``load`` gives the file when its bytes are needed.

        ``file`` is empty for a section that is not in a file of its own but inside the version reference.
        """
        self = Section.__new__(Section)
        self.rows = entry["rows"]
        self.file = file
        self.offset = entry["at"]
        self._batch = self._buffer = self._mapped = None
        self._head, self._length = entry["head"], entry["size"]
        self._checks = np.frombuffer(base64.b64decode(entry["sums"]), dtype="<u4").tolist()
        self._load = load
        self._forget_verified()
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
        self._verify(self._head, self._length)

    @property
    def nbytes(self) -> int:
        """How many bytes it takes, in memory where it was not written yet."""
        return self._length or int(self._opened().nbytes)

    @property
    def is_table(self) -> bool:
        """Whether it lies in a table that may be larger than memory, so that only work beside the epochs merges it."""
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
        if self._verified is not None:
            self._verify_spans(spans_of_column(array))
        return array

    def rows_of(self, name: str, start: int, stop: int) -> pa.Array:
        """Some consecutive values of one column; only the blocks that hold them are verified."""
        array = self._array(name)
        if self._verified is not None:
            self._verify_spans(spans_of_rows(array, start, stop))
        return array.slice(start, stop - start)

    def take(self, name: str, rows: Indices) -> pa.Array:
        """Some values of one column; when they are few, only the blocks that hold them are verified."""
        return self.ranges_of(name, rows, rows + 1).take(pa.array(rows))

    def ranges_of(self, name: str, starts: Indices, stops: Indices) -> pa.Array:
        """One column, of which only these ranges of rows may be used: when they are few, no others are verified."""
        array = self._array(name)
        if self._verified is not None and len(starts):
            few = len(starts) <= FEW
            ranges = zip(starts.tolist(), stops.tolist(), strict=True) if few else [(0, len(array))]
            self._verify_spans(chain.from_iterable(spans_of_rows(array, start, stop) for start, stop in ranges))
        return array

    def extents(self, name: str, rows: Indices) -> tuple[Indices, Indices]:
        """Where the lists of these rows begin and end among the elements of a list column, which are not touched."""
        array = self._array(name)
        if self._verified is not None:
            ranges = [(row, row + 1) for row in rows.tolist()] if len(rows) <= FEW else [(0, len(array))]
            self._verify_spans(chain.from_iterable(spans_of_offsets(array, start, stop) for start, stop in ranges))
        offsets = array.offsets.to_numpy()
        return offsets[rows].astype(np.int64), offsets[rows + 1].astype(np.int64)

    def lower_bounds(self, name: str, values: npt.NDArray[np.integer[Any]]) -> Indices:
        """Where each of the values (sorted) would stand in a sorted column of integers: before all not smaller ones.

        They are to be of the column's own type. When they are few, only the blocks that they are searched in are
        verified.
        """
        if self._verified is None or len(values) > FEW:
            return np.searchsorted(self.column(name).to_numpy(), values)
        return np.array([self.lower_bound(name, value, 0, self.rows) for value in values], dtype=np.int64)

    def ranges_of_hashes(self, hashes: npt.NDArray[np.uint64]) -> tuple[Indices, Indices]:
        """From where to where the rows are that have each of the hashes (sorted), where rows are in the order of these.

        When they are few, only the blocks that they are searched in are verified.
        """
        if self._verified is not None and len(hashes) <= FEW:
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
        """Where a value would stand among rows that are sorted: before all from ``start`` on that are not smaller.

        Only the blocks that it is searched in are verified. It is to be of the column's own type.
        """
        if self._verified is not None:
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
        if self._buffer is None and self._batch is not None:
            return self._encode(self._batch)
        self._opened()
        self._verify(0, self._length)
        assert self._buffer is not None
        return [self._buffer]

    def describe(self, at: int) -> dict[str, Any]:
        """The entry of an index that says where the section is, given where it begins in its file."""
        assert self._checks is not None
        sums = base64.b64encode(np.array(self._checks, dtype="<u4").tobytes()).decode()
        return {"at": at, "size": self._length, "head": self._head, "rows": self.rows, "sums": sums}

    def taken_along(self) -> None:
        """The next version is to hold the section itself, wherever it lies now."""
        self.file = ""

    def moved_to(self, file: str, offset: int, load: Callable[[], MappedFile]) -> None:
        """The section has been written to a file; a large one is given up in memory and mapped when needed again."""
        self.file, self.offset = file, offset
        is_large = self._length >= BLOCK
        if is_large or self._load is not None:
            self._load = load
        if is_large:
            self.let_go()

    def let_go(self) -> None:
        """Give up the bytes of the file, to load it again when it is needed; what is in memory alone stays."""
        if self._load is not None:
            self._batch = self._buffer = self._mapped = None
            self._forget_verified()

    def _forget_verified(self) -> None:
        assert self._checks is not None
        self._unverified = len(self._checks)
        self._verified = bytearray(self._unverified)

    def _encode(self, batch: pa.RecordBatch) -> Sequence[pa.Buffer]:
        schema, (metadata, *body) = batch.schema.serialize(), written_once(batch.serialize())
        # Padding in front makes the batch's buffers as aligned in the file as they are in the message.
        padding = -(schema.size + metadata.size) % ALIGNMENT
        head = schema.to_pybytes() + b"\0" * padding + metadata.to_pybytes()
        self._head = len(head)
        self._length = len(head) + sum(piece.size for piece in body)
        self._checks = [crc32(head), *_checks_of_blocks(body)]
        return [pa.py_buffer(head), *body]

    def _array(self, name: str) -> pa.Array:
        """A column, or the elements of one; nothing of it is verified."""
        batch = self._opened()
        return batch.column(name.removesuffix(ELEMENTS)).values if name.endswith(ELEMENTS) else batch.column(name)

    def _opened(self) -> pa.RecordBatch:
        if self._batch is None:
            assert self._load is not None
            self._mapped = self._load()
            whole = self._mapped.buffer
            if self.offset + self._length > whole.size:
                self._mapped.is_damaged = True
                raise StateCorruptedError(f"the state file {self.file or '(inline)'} is truncated: {whole.size} bytes")
            self._buffer = whole.slice(self.offset, self._length)
            self._verify(0, self._head)
            self._batch = self._parse(self._buffer)
        return self._batch

    def _parse(self, buffer: pa.Buffer) -> pa.RecordBatch:
        try:
            reader = pa.BufferReader(buffer)
            schema = pa.ipc.read_schema(reader)
            metadata = _aligned_start(buffer, reader.tell())
            return pa.ipc.read_record_batch(buffer.slice(metadata), schema)
        except pa.ArrowException as error:
            raise StateCorruptedError(f"the state file {self.file or '(inline)'} cannot be read: {error}") from error

    def _verify_spans(self, spans: Iterator[tuple[int, int]]) -> None:
        assert self._buffer is not None
        base = self._buffer.address
        for address, size in spans:
            self._verify(address - base, address - base + size)

    @property
    def size(self) -> int:
        """How many bytes it takes; 0 before it is written for the first time."""
        return self._length

    def _verify(self, start: int, end: int) -> None:
        """Verifies the blocks that reach into the bytes from ``start`` up to ``end``."""
        verified = self._verified
        if verified is None or start >= end:
            return
        first = 0 if start < self._head else 1 + (start - self._head) // BLOCK
        last = 0 if end <= self._head else 1 + (end - 1 - self._head) // BLOCK
        first = verified.find(0, first, last + 1)
        if first < 0:
            return
        self._fetch(self._extent(first)[0], self._extent(last)[1])
        for block in range(first, last + 1):
            if not verified[block]:
                self._verify_block(block)
                verified[block] = 1
                self._unverified -= 1
        if not self._unverified:
            self._verified = None

    def _fetch(self, start: int, stop: int) -> None:
        assert self._mapped is not None
        try:
            self._mapped.fetch(self.offset + start, self.offset + stop)
        except (FileNotFoundError, IsADirectoryError) as error:
            raise StateCorruptedError(f"the state file {self.file} is missing") from error

    def _extent(self, block: int) -> tuple[int, int]:
        """Where a block begins and ends; 0 is the head."""
        if not block:
            return 0, self._head
        start = self._head + (block - 1) * BLOCK
        return start, min(start + BLOCK, self._length)

    def _verify_block(self, block: int) -> None:
        assert self._buffer is not None
        assert self._checks is not None
        low, high = self._extent(block)
        if crc32(memoryview(self._buffer)[low:high]) != self._checks[block]:
            if self._mapped is not None:
                self._mapped.is_damaged = True
            raise StateCorruptedError(
                f"the state file {self.file or '(inline)'} is damaged at byte {self.offset + low} and following"
            )


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
    """Where the batch's message begins: after the zeros that follow the schema's."""
    view = memoryview(buffer).cast("B")
    while view[at] == 0:
        at += 1
    return at
