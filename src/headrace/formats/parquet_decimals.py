"""Decimals of Parquet files read as integers.

Arrow writes decimals as byte strings of a fixed length, and takes many times as long to read these as integers. Where
all values of a column are in its dictionary, only the dictionary has to be made integers: the pages refer to it by
position. So a file of one row group is put together in memory, of the pages as they are behind a dictionary of
integers, and Arrow reads that.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.common.arrays import decimal_array, fixed_width

_CODECS: Final = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}
"""The numbers of compressions whose names tell the format."""

_LONG_BYTES: Final = 8
_LONG: Final = 2
"""The number of the physical type of integers of 64 bits."""
_DICTIONARY_PAGE: Final = 2
_ENCODINGS: Final = {0: (5, 2), 3: (8, 4)}
"""The fields that tell how the values of a page are encoded, by kinds of pages of data."""
_BY_DICTIONARY: Final = (2, 8)
_PLAIN: Final = 0
_MAGIC: Final = b"PAR1"


def can_be_integers(column: pq.ColumnSchema) -> bool:
    """Return whether a column has decimals of at most 64 bits, which are stored as byte strings."""
    is_decimal = column.physical_type == "FIXED_LEN_BYTE_ARRAY" and column.logical_type.type == "DECIMAL"
    is_top_level = column.max_repetition_level == 0 and column.path == column.name
    return bool(is_decimal and is_top_level and column.length <= _LONG_BYTES)


class GroupColumns:
    """The columns of the row groups of a file.

    Args:
        stream: the file.
        file: the same, opened.
        names: the columns.
        batch_size: how many rows are read at once.
    """

    def __init__(self, stream: pa.NativeFile, file: pq.ParquetFile, names: Sequence[str], batch_size: int) -> None:
        self._stream, self._file, self._names, self._batch_size = stream, file, list(names), batch_size
        footer = file.metadata
        columns = list(map(footer.schema.column, range(footer.num_columns)))
        places = {each.path: place for place, each in enumerate(columns)}
        have_unique_names = len(places) == len(columns)
        self._decimals = {
            name: places[name]
            for name in self._names
            if have_unique_names and name in places and can_be_integers(columns[places[name]])
        }

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        """The rows of a group, some at a time."""
        chunks = [each for name, place in self._decimals.items() if (each := self._chunk(group, place, name))]
        read = {each.name for each in chunks}
        others = [name for name in self._names if name not in read]
        if not chunks:
            yield from self._file.iter_batches(self._batch_size, row_groups=[group], columns=others, use_threads=False)
            return
        rows = self._file.metadata.row_group(group).num_rows
        with pq.ParquetFile(pa.BufferReader(_file_of(chunks, rows)), page_checksum_verification=True) as integers:
            found = integers.iter_batches(self._batch_size, use_threads=False)
            if not others:
                yield from map(self._as_decimals, found)
                return
            given = self._file.iter_batches(self._batch_size, row_groups=[group], columns=others, use_threads=False)
            for some, more in zip(found, given, strict=True):
                yield self._joined(self._as_decimals(some), more)

    def _as_decimals(self, integers: pa.RecordBatch) -> pa.RecordBatch:
        """Integers as the decimals that have these digits."""
        kinds = self._file.schema_arrow
        arrays = [
            decimal_array(fixed_width(column), kinds.field(name).type, column)
            for name, column in zip(integers.schema.names, integers.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=integers.schema.names)

    def _joined(self, some: pa.RecordBatch, others: pa.RecordBatch) -> pa.RecordBatch:
        names = [*some.schema.names, *others.schema.names]
        return pa.RecordBatch.from_arrays([*some.columns, *others.columns], names=names)

    def _chunk(self, group: int, place: int, name: str) -> _Chunk | None:
        """A column of a row group with a dictionary of integers; None where values are in no dictionary."""
        metadata, column = self._file.metadata.row_group(group).column(place), self._file.metadata.schema.column(place)
        codec, start = _CODECS.get(metadata.compression), metadata.dictionary_page_offset
        if codec is None or not metadata.has_dictionary_page or not start:
            return None
        self._stream.seek(start)
        content = memoryview(self._stream.read_buffer(metadata.total_compressed_size)).cast("B")
        try:
            dictionary, *pages = _pages(content)
            if not dictionary.is_dictionary or not all(page.is_by_dictionary for page in pages):
                return None
            values = dictionary.values(metadata.compression, column.length)
        except (ValueError, IndexError, KeyError, pa.ArrowException):  # Arrow says what is damaged
            return None
        if values is None:
            return None
        head, is_optional = _dictionary_page(values, metadata.compression), column.max_definition_level > 0
        return _Chunk(name, codec, metadata.num_values, is_optional, head, content[dictionary.end :])


@dataclass(frozen=True)
class _Chunk:
    """A column of a row group.

    Attributes:
        name: its name.
        codec: the number of its compression.
        values: the number of its values, nulls included.
        is_optional: whether there may be nulls.
        dictionary: the page of its dictionary, in pieces.
        pages: its other pages.
    """

    name: str
    codec: int
    values: int
    is_optional: bool
    dictionary: tuple[bytes | memoryview, ...]
    pages: memoryview


# --- pages -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Page:
    """A page of a column.

    Attributes:
        header: the fields of its header, by number.
        content: what is behind the header.
        end: where it ends among all pages.
    """

    header: dict[int, Any]
    content: memoryview
    end: int

    @property
    def is_dictionary(self) -> bool:
        """Return whether it has the values that other pages refer to."""
        return bool(self.header[1] == _DICTIONARY_PAGE)

    @property
    def is_by_dictionary(self) -> bool:
        """Return whether its values are in the dictionary."""
        where = _ENCODINGS.get(self.header[1])
        return where is not None and self.header[where[0]][where[1]] in _BY_DICTIONARY

    def values(self, compression: str, width: int) -> npt.NDArray[np.int64] | None:
        """The integers of a dictionary of byte strings; None where it is damaged."""
        size, count, checksum = self.header[2], self.header[7][1], self.header.get(4)
        if checksum is not None and zlib.crc32(self.content) != checksum & 0xFFFFFFFF:
            return None
        content = self.content
        if compression != "UNCOMPRESSED":
            content = memoryview(pa.Codec(compression.lower()).decompress(pa.py_buffer(content), size)).cast("B")
        return _integers(content, count, width) if len(content) == count * width else None


def _integers(digits: memoryview, count: int, width: int) -> npt.NDArray[np.int64]:
    """The integers of big-endian byte strings of a length."""
    found: npt.NDArray[np.int64] = np.empty(count, np.int64)
    whole = max((len(digits) - _LONG_BYTES) // width + 1, 0)  # so many are read with bytes behind them, shifted out
    if whole:
        found[:whole] = np.ndarray((whole,), ">i8", digits, strides=(width,))
        found[:whole] >>= 8 * (_LONG_BYTES - width)
    rest = (digits[place * width : (place + 1) * width] for place in range(whole, count))
    found[whole:] = [int.from_bytes(each, "big", signed=True) for each in rest]
    return found


def _pages(content: memoryview) -> Iterator[_Page]:
    """The pages of a column."""
    at = 0
    while at < len(content):
        reader = _Reader(content, at)
        header = reader.struct()
        end = reader.at + header[3]
        if end > len(content):
            raise ValueError("a page is cut")
        yield _Page(header, content[reader.at : end], end)
        at = end


def _dictionary_page(values: npt.NDArray[np.int64], compression: str) -> tuple[bytes | memoryview, ...]:
    content = values.view(np.uint8).data
    dictionary, stored = _struct({1: len(values), 2: _PLAIN}), _compressed(content, compression)
    size = sum(map(len, stored))
    return _struct({1: _DICTIONARY_PAGE, 2: len(content), 3: size, 7: dictionary}), *stored


def _compressed(content: memoryview, compression: str) -> tuple[bytes | memoryview, ...]:
    """Bytes in a compressed form, which is not stored: that of Snappy takes no time where nothing is looked for."""
    if compression == "UNCOMPRESSED":
        return (content,)
    if compression == "SNAPPY" and content:
        return _varint(len(content)) + bytes([_LITERAL]) + (len(content) - 1).to_bytes(4, "little"), content
    return (bytes(pa.Codec(compression.lower()).compress(pa.py_buffer(content), asbytes=True)),)


_LITERAL: Final = 63 << 2
"""Begins bytes that Snappy has as they are, behind four bytes that tell how many they are."""


def _file_of(chunks: Sequence[_Chunk], rows: int) -> pa.Buffer:
    """A file of one row group."""
    pieces, columns, at = list[bytes | memoryview]([_MAGIC]), list[_Struct](), len(_MAGIC)
    schema = [_struct({4: b"schema", 5: len(chunks)})]
    for chunk in chunks:
        behind = at + sum(map(len, chunk.dictionary))
        end = behind + len(chunk.pages)
        pieces += [*chunk.dictionary, chunk.pages]
        schema.append(_struct({1: _LONG, 3: int(chunk.is_optional), 4: chunk.name.encode()}))
        metadata = _struct(
            {
                1: _LONG,
                2: [_PLAIN, _BY_DICTIONARY[-1]],
                3: [chunk.name.encode()],
                4: chunk.codec,
                5: _Long(chunk.values),
                6: _Long(end - at),
                7: _Long(end - at),
                9: _Long(behind),
                11: _Long(at),
            }
        )
        columns.append(_struct({2: _Long(0), 3: metadata}))
        at = end
    group = _struct({1: columns, 2: _Long(at), 3: _Long(rows)})
    footer = _struct({1: 1, 2: schema, 3: _Long(rows), 4: [group]})
    return pa.py_buffer(b"".join([*pieces, footer, len(footer).to_bytes(4, "little"), _MAGIC]))


# --- Thrift's compact protocol ---------------------------------------------------------------------------------------


class _Struct(bytes):
    """A structure that is written already."""


class _Long(int):
    """An integer of 64 bits; plain ones are of 32 bits."""


_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _NESTED = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INT, _INT_64 = 5, 6
_INTEGERS: Final = (4, 5, 6)
_MANY: Final = 15


class _Reader:
    """Reads what Thrift has written.

    Args:
        content: the bytes.
        at: where to begin.
    """

    def __init__(self, content: memoryview, at: int) -> None:
        self._content = content
        self.at = at

    def struct(self) -> dict[int, Any]:
        """The fields of a structure, by number."""
        found, number = dict[int, Any](), 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            found[number] = self._value(head & 15)
        return found

    def _value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind in _INTEGERS:
            return self._zigzag()
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind == _NESTED:
            return self.struct()
        if kind in (_BYTE, _DOUBLE):
            return self._bytes(1 if kind == _BYTE else _LONG_BYTES)
        raise ValueError(f"there is no value of kind {kind} in the header of a page")

    def _bytes(self, count: int) -> memoryview:
        self.at += count
        return self._content[self.at - count : self.at]

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7

    def _zigzag(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def _zigzag(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _struct(fields: dict[int, Any]) -> _Struct:
    """A structure of integers, byte strings, structures and lists of these, in the order of their numbers."""
    found, before = bytearray(), 0
    for number, value in fields.items():
        found.append((number - before) << 4 | _kind(value))
        found += _written(value)
        before = number
    return _Struct(found + b"\0")


def _kind(value: Any) -> int:
    if isinstance(value, list):
        return _LIST
    if isinstance(value, _Struct):
        return _NESTED
    if isinstance(value, bytes):
        return _BINARY
    return _INT_64 if isinstance(value, _Long) else _INT


def _written(value: Any) -> bytes:
    if isinstance(value, list):
        kind = _kind(value[0])
        head = (
            bytes([len(value) << 4 | kind]) if len(value) < _MANY else bytes([_MANY << 4 | kind]) + _varint(len(value))
        )
        return head + b"".join(map(_written, value))
    if isinstance(value, _Struct):
        return bytes(value)
    if isinstance(value, bytes):
        return _varint(len(value)) + value
    return _zigzag(value)
