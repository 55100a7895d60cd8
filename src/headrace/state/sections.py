"""Sections: one Arrow record batch each, as bytes within a state file, with checksums that are verified when touched.

A section is an encapsulated Arrow schema message and an encapsulated record batch message, uncompressed, so that its
columns are read in place. The first ``head`` bytes (schema and metadata of the batch) have a checksum of their own,
verified before Arrow parses them; the rest has one for each block of 256 KiB, verified before a column that reaches
into the block is handed out, once in the life of the object.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from headrace.common.errors import StateCorruptedError, StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK: Final = 256 * 1024
"""Bytes that share one checksum."""

ALIGNMENT: Final = 64
"""Sections begin at multiples of this many bytes."""

_METADATA_SIZE_AT: Final = 4


class Section:
    """An immutable record batch that is in memory, in a file, or both.

    Attributes:
        rows: how many rows it has.
        file: the file that holds it; empty while there is none.
        offset: where in that file it begins.
    """

    __slots__ = ("_batch", "_buffer", "_checks", "_head", "_length", "_load", "_verified", "file", "offset", "rows")

    file: str
    offset: int
    rows: int
    _batch: pa.RecordBatch | None
    _buffer: pa.Buffer | None
    _checks: list[int] | None
    _load: Callable[[], pa.Buffer] | None
    _verified: bytearray | None

    def __init__(self, batch: pa.RecordBatch) -> None:
        if any(pa.types.is_dictionary(field.type) for field in batch.schema):
            raise StateError(f"dictionary-encoded columns cannot be kept in state: {batch.schema}")
        self.rows = batch.num_rows
        self.file = ""
        self.offset = 0
        self._batch = batch
        self._buffer = self._checks = self._load = self._verified = None
        self._head = self._length = 0

    @staticmethod
    def stored(entry: dict[str, Any], file: str, load: Callable[[], pa.Buffer]) -> Section:
        """A section that :meth:`describe` described; ``load`` gives the bytes of the whole file when they are needed.

        ``file`` is empty for a section that is not in a file of its own but inside the version reference.
        """
        self = Section.__new__(Section)
        self.rows = entry["rows"]
        self.file = file
        self.offset = entry["at"]
        self._batch = self._buffer = None
        self._head, self._length = entry["head"], entry["size"]
        self._checks = np.frombuffer(base64.b64decode(entry["sums"]), dtype="<u4").tolist()
        self._verified = bytearray(len(self._checks))
        self._load = load
        return self

    @property
    def batch(self) -> pa.RecordBatch:
        """All columns, verified.

        Raises:
            StateCorruptedError: when the file is missing or damaged; the message names it.
        """
        batch = self._opened()
        self._verify(self._head, self._length)
        return batch

    @property
    def schema(self) -> pa.Schema:
        """The schema; only the head of the section is verified."""
        return self._opened().schema

    def column(self, name: str) -> pa.Array:
        """One column; only the blocks that hold it are verified.

        Raises:
            StateCorruptedError: when the file is missing or damaged; the message names it.
        """
        array: pa.Array = self._opened().column(name)
        if self._verified is not None:
            assert self._buffer is not None
            for start, end in _spans(array, self._buffer.address):
                self._verify(start, end)
        return array

    def rows_of(self, name: str, start: int, stop: int) -> pa.Array:
        """Some values of one column; where they lie side by side, only the blocks that hold them are verified."""
        array: pa.Array = self._opened().column(name)
        if self._verified is None:
            return array.slice(start, stop - start)
        spans = _spans_of_rows(array, start, stop)
        if spans is None:
            return self.column(name).slice(start, stop - start)
        assert self._buffer is not None
        for address, size in spans:  # offsets of strings are verified before they are used to find the strings
            self._verify(address - self._buffer.address, address - self._buffer.address + size)
        return array.slice(start, stop - start)

    def slice(self, start: int, stop: int) -> pa.RecordBatch:
        """Some rows, all columns; verified as :meth:`rows_of` says."""
        schema = self.schema
        return pa.RecordBatch.from_arrays([self.rows_of(name, start, stop) for name in schema.names], schema=schema)

    def encoded(self) -> pa.Buffer:
        """The bytes of the section; the same batch always gives the same ones."""
        if self._buffer is None:
            if self._batch is None:
                self._opened()
            else:
                self._encode(self._batch)
        self._verify(0, self._length)
        assert self._buffer is not None
        return self._buffer

    def describe(self, at: int) -> dict[str, Any]:
        """The entry of an index that says where the section is, given where it begins in its file."""
        assert self._checks is not None
        sums = base64.b64encode(np.array(self._checks, dtype="<u4").tobytes()).decode()
        return {"at": at, "size": self._length, "head": self._head, "rows": self.rows, "sums": sums}

    def moved_to(self, file: str, offset: int, load: Callable[[], pa.Buffer]) -> None:
        """The section has been written to a file; a large one is given up in memory and mapped when needed again."""
        self.file, self.offset = file, offset
        if self._length >= BLOCK:
            assert self._checks is not None
            self._batch = self._buffer = None
            self._load = load
            self._verified = bytearray(len(self._checks))

    def _encode(self, batch: pa.RecordBatch) -> None:
        schema, body = batch.schema.serialize(), batch.serialize()
        metadata = int.from_bytes(body[_METADATA_SIZE_AT : 2 * _METADATA_SIZE_AT].to_pybytes(), "little")
        # Padding in front makes the batch's buffers as aligned in the file as they are in the message.
        padding = -(schema.size + 2 * _METADATA_SIZE_AT + metadata) % ALIGNMENT
        parts = [schema.to_pybytes(), b"\0" * padding, memoryview(body)]
        self._buffer = pa.py_buffer(b"".join(parts))
        self._head = schema.size + padding + 2 * _METADATA_SIZE_AT + metadata
        self._length = self._buffer.size
        view = memoryview(self._buffer)
        self._checks = [crc32(view[start:end]) for start, end in self._blocks()]

    def _opened(self) -> pa.RecordBatch:
        if self._batch is None:
            assert self._load is not None
            whole = self._load()
            if self.offset + self._length > whole.size:
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

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """The head, then the blocks."""
        yield 0, self._head
        for start in range(self._head, self._length, BLOCK):
            yield start, min(start + BLOCK, self._length)

    def _verify(self, start: int, end: int) -> None:
        """Verifies the blocks that reach into the bytes from ``start`` up to ``end``."""
        verified = self._verified
        if verified is None or start >= end:
            return
        assert self._buffer is not None
        assert self._checks is not None
        first = 0 if start < self._head else 1 + (start - self._head) // BLOCK
        last = 0 if end <= self._head else 1 + (end - 1 - self._head) // BLOCK
        view = memoryview(self._buffer)
        for block in range(first, last + 1):
            if not verified[block]:
                low = self._head + (block - 1) * BLOCK if block else 0
                high = min(low + BLOCK, self._length) if block else self._head
                if crc32(view[low:high]) != self._checks[block]:
                    raise StateCorruptedError(
                        f"the state file {self.file or '(inline)'} is damaged at byte {self.offset + low} and following"
                    )
                verified[block] = 1


def _aligned_start(buffer: pa.Buffer, at: int) -> int:
    """Where the batch's message begins: after the zeros that follow the schema's."""
    view = memoryview(buffer).cast("B")
    while view[at] == 0:
        at += 1
    return at


def _spans(array: pa.Array, base: int) -> Iterator[tuple[int, int]]:
    """Where the buffers of a column are, in bytes from ``base``."""
    for buffer in array.buffers():
        if buffer is not None and buffer.size:
            yield buffer.address - base, buffer.address - base + buffer.size


def _spans_of_rows(array: pa.Array, start: int, stop: int) -> Iterator[tuple[int, int]] | None:
    """Address and size of what holds some rows of a column without children; None for other columns."""
    type_ = array.type
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return _spans_of_bytes(array, start, stop)
    if pa.types.is_nested(type_) or not hasattr(type_, "bit_width"):
        return None
    return _spans_of_cells(array, start, stop, type_.bit_width)


def _spans_of_cells(array: pa.Array, start: int, stop: int, bits: int) -> Iterator[tuple[int, int]]:
    validity, data = array.buffers()
    for buffer, width in ((validity, 1), (data, bits)):
        if buffer is not None and buffer.size:
            first, last = start * width // 8, -(-stop * width // 8)
            yield buffer.address + first, last - first


def _spans_of_bytes(array: pa.Array, start: int, stop: int) -> Iterator[tuple[int, int]]:
    validity, offsets, data = array.buffers()
    if validity is not None and validity.size:
        yield validity.address + start // 8, -(-stop // 8) - start // 8
    if offsets is not None and offsets.size:
        yield offsets.address + start * 4, (stop - start + 1) * 4
        low, high = np.frombuffer(offsets, dtype=np.int32)[[start, stop]].tolist()
        if data is not None and high > low:
            yield data.address + low, high - low
