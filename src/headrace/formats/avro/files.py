"""Avro files: their container format, and :class:`AvroFormat`, which reads them.

A file has a header with the schema, and blocks of records with a marker behind each. A block begins behind a marker,
wherever that stands. So all cuts of a file agree on its blocks, and reading goes on behind a damaged one.
"""

import bz2
import errno
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import BinaryIO, Final, Self

import numpy as np
import pyarrow as pa

from headrace.common.arrays import binary_array
from headrace.common.errors import CorruptFileError, InvalidProgramError, InvalidTypeError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.formats.avro.encoding import Boundaries, read_integer
from headrace.formats.avro.resolution import AvroReader, avro_reader
from headrace.formats.avro.schema import AvroSchema, GivenSchema, Record, avro_schema_of, schema_given
from headrace.formats.bad_records import BadRecords, columns_under, decode_good_messages, without_unreadable
from headrace.formats.bulk_files import WAY_OUT, SelfDescribingFormat
from headrace.formats.compression import DAMAGED, ZlibDecompressor, decompressed_block, too_large, xz_decompressor
from headrace.formats.file_format import Decoded, FileExtent, FileRange
from headrace.storage.files import InputFile, shown

_CHECKSUM_BYTES: Final = 4
_SIZE_BYTES: Final = 4


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _inflate(data: bytes, most: int) -> bytes:
    # fastavro leaves three bytes of zlib's checksum behind the data
    return decompressed_block(data, ZlibDecompressor(-zlib.MAX_WBITS), most, alone=False)


def _sized(data: bytes, size: int, most: int, codec: str) -> bytes:
    if size > most:
        raise too_large(most)
    found: bytes = pa.Codec(codec).decompress(data, size, asbytes=True)
    return found


def _to_snappy(data: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(data, asbytes=True)
    return packed + zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "big")


def _of_snappy(data: bytes, most: int) -> bytes:
    packed, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    found = _sized(packed, _snappy_size(packed), most, "snappy")
    if zlib.crc32(found) != int.from_bytes(checksum, "big"):
        raise ValueError("its checksum is another one")
    return found


def _snappy_size(data: bytes) -> int:
    """Return how many bytes come out, which stands in front in seven bits a byte."""
    size = 0
    for place, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return size
    raise ValueError("it does not say how long it is")


def _to_zstandard(data: bytes) -> bytes:
    packed: bytes = pa.Codec("zstd").compress(data, asbytes=True)
    return packed


def _of_zstandard(data: bytes, most: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        found: bytes = stream.read(most + 1)
    if len(found) > most:
        raise too_large(most)
    return found


def _to_lz4(data: bytes) -> bytes:
    packed: bytes = pa.Codec("lz4_raw").compress(data, asbytes=True)
    return len(data).to_bytes(_SIZE_BYTES, "little") + packed


def _of_lz4(data: bytes, most: int) -> bytes:
    return _sized(data[_SIZE_BYTES:], int.from_bytes(data[:_SIZE_BYTES], "little"), most, "lz4_raw")


CODECS: Final[Mapping[str, tuple[Callable[[bytes], bytes], Callable[[bytes, int], bytes]]]] = {
    "null": (bytes, lambda data, _: data),
    "deflate": (_deflate, _inflate),
    "snappy": (_to_snappy, _of_snappy),
    "zstandard": (_to_zstandard, _of_zstandard),
    "bzip2": (bz2.compress, lambda data, most: decompressed_block(data, bz2.BZ2Decompressor(), most)),
    "xz": (lzma.compress, lambda data, most: decompressed_block(data, xz_decompressor(), most)),
    "lz4": (_to_lz4, _of_lz4),
}
"""The compressor and the decompressor of blocks by codec name; the latter takes the largest size to decompress to.

The latter raises ``OSError``, ``ValueError`` or an error of its own library when the block is damaged, or larger: see
:data:`headrace.formats.compression.DAMAGED`. ``lz4`` is no name of the specification, but fastavro has it.
"""


MAGIC: Final = b"Obj\x01"
MARKER_BYTES: Final = 16

_COMPRESSED: Final[Mapping[bytes, str]] = dict.fromkeys(
    (b"\x1f\x8b", b"\x28\xb5", b"BZ", b"\xfd7"),
    ", but a compressed one: decompress it; Avro compresses its blocks itself",
)
"""By how other files begin, what to do about them."""

_WINDOW_BYTES: Final = 1 << 20
_HEADER_BYTES: Final = 1 << 16
_NUMBERS_BYTES: Final = 20
"""Of the two numbers in front of a block, at most."""

_MOST_BYTES: Final = 64 << 20
_MOST_TIMES: Final = 16
"""The limits of a decompressed block: a number of bytes, or a multiple of its size where that is more."""


@dataclass(frozen=True, slots=True)
class FileBlock:
    """Some records.

    Attributes:
        offset: where the block begins in the file.
        count: how many records it has.
        data: their bytes.
        stored: how many bytes it takes in the file, with the marker behind it.
    """

    offset: int
    count: int
    data: bytes
    stored: int


class AvroFile:
    """An open file: its header, and its blocks.

    Args:
        stream: the file.
        size: its size in bytes; None for all that is there.
        path: what it is called, for messages.

    Attributes:
        schema: the schema of its records, in JSON.

    Raises:
        CorruptFileError: when there is no header.
        OSError: when the file is gone, or on a passing fault.
    """

    def __init__(self, stream: BinaryIO | io.BufferedReader, size: int | None, path: str) -> None:
        self._stream = stream
        self._size = stream.seek(0, io.SEEK_END) if size is None else size
        self._path = path
        self.schema, self._codec, self._marker, self._first = self._header()

    def blocks(self, start: int = 0, end: int | None = None) -> Iterator[FileBlock | CorruptFileError]:
        """The blocks that begin in ``[start, end)``, in order; an error in the place of each that is damaged."""
        stop = self._size if end is None else min(end, self._size)
        at: int | None = self._first
        if start > self._first:
            at = self._behind_marker(start - MARKER_BYTES)
        while at is not None and at < stop:
            block, at = self._block(at)
            yield block

    def _header(self) -> tuple[str, str, bytes, int]:
        """The schema, the codec, what stands behind each block, and where the first one begins."""
        if self._read(0, len(MAGIC)) != MAGIC:
            raise CorruptFileError(f"{self._path} is not an Avro file{_COMPRESSED.get(self._read(0, 2), '')}")
        metadata, place = self._metadata()
        marker = self._read(place, MARKER_BYTES)
        codec = metadata.get("avro.codec", b"null").decode("latin-1")
        if "avro.schema" not in metadata or len(marker) < MARKER_BYTES:
            raise CorruptFileError(f"{self._path} is damaged: its header has no schema, or was cut")
        if codec not in CODECS:
            raise CorruptFileError(
                f"{self._path} is compressed with {codec!r}; what can be read is {', '.join(CODECS)}"
            )
        schema = metadata["avro.schema"].decode("utf-8", errors="replace")
        return schema, codec, marker, place + MARKER_BYTES

    def _metadata(self) -> tuple[dict[str, bytes], int]:
        length = _HEADER_BYTES
        while True:
            data = self._read(0, length)
            try:
                return _metadata(data)
            except IndexError:
                if len(data) < length:
                    raise CorruptFileError(f"{self._path} is damaged: it ends within its header") from None
                length *= 2
            except ValueError as error:
                raise CorruptFileError(f"{self._path} is damaged: its header cannot be read: {error}") from None

    def _block(self, at: int) -> tuple[FileBlock | CorruptFileError, int | None]:
        """A block, or what is wrong with it, and where the next one begins."""
        head = self._read(at, _NUMBERS_BYTES)
        try:
            count, place = read_integer(head, 0)
            size, place = read_integer(head, place)
        except (IndexError, ValueError):
            return self._damaged(at, "it does not say how long it is"), self._behind_marker(at)
        behind = at + place + size + MARKER_BYTES
        if count < 0 or size < 0 or behind > self._size:
            reason = "it says that it is longer than the file, or it was cut"
            return self._damaged(at, reason), self._behind_marker(at)
        stored = self._read(at + place, size + MARKER_BYTES)
        if not stored.endswith(self._marker):
            return self._damaged(at, "there is no marker at its end"), self._behind_marker(at)
        try:
            data = CODECS[self._codec][1](stored[:size], max(_MOST_BYTES, _MOST_TIMES * size))
        except DAMAGED as error:
            return self._damaged(at, f"what is compressed with {self._codec} cannot be read: {error}"), behind
        return FileBlock(at, count, data, behind - at), behind

    def _behind_marker(self, start: int) -> int | None:
        """The place behind the first marker that begins at or after a place; None when there is none."""
        while start < self._size:
            data = self._read(start, _WINDOW_BYTES)
            found = data.find(self._marker)
            if found >= 0:
                return start + found + MARKER_BYTES
            if len(data) < _WINDOW_BYTES:
                return None
            start += len(data) - MARKER_BYTES + 1
        return None

    def _read(self, start: int, length: int) -> bytes:
        """Read some bytes from a place on, fewer at the end of the file."""
        wanted = max(min(length, self._size - start), 0)
        self._stream.seek(start)
        data = self._stream.read(wanted)
        if len(data) < wanted:
            raise OSError(errno.EIO, f"the file ends {wanted - len(data)} bytes too early")
        return data

    def _damaged(self, at: int, reason: str) -> CorruptFileError:
        return CorruptFileError(f"{self._path} is damaged: in the block at byte {at}, {reason}")


@contextmanager
def open_avro(file: InputFile) -> Iterator[AvroFile]:
    """Open a file; errors as of :class:`AvroFile`."""
    with file.open() as raw:
        yield AvroFile(io.BufferedReader(raw, min(_WINDOW_BYTES, max(file.size, 1))), file.size, shown(file.path))


def _metadata(data: bytes) -> tuple[dict[str, bytes], int]:
    """Read the metadata of a header, and where it ends; ``IndexError`` where there are not enough bytes."""
    found: dict[str, bytes] = {}
    place = len(MAGIC)
    while True:
        count, place = read_integer(data, place)
        if not count:
            return found, place
        if count < 0:
            _, place = read_integer(data, place)
        for _ in range(abs(count)):
            name, place = _binary(data, place)
            found[name.decode("utf-8", errors="replace")], place = _binary(data, place)


def _binary(data: bytes, place: int) -> tuple[bytes, int]:
    length, place = read_integer(data, place)
    if length < 0 or place + length > len(data):
        raise IndexError
    return data[place : place + length], place + length


_BATCH_BYTES: Final = 4 << 20
"""Blocks are read together up to about so many bytes: values of all their records side by side."""


class AvroFormat(SelfDescribingFormat):
    """Records of Avro files, read into columns. Several tasks may read blocks of one file.

    A file says what it was written with; its records are read as those of the schema that is given, as the
    specification says: fields by name or alias, defaults, wider numbers.

    Args:
        schema: the schema of the records, or its text. When it is left out, as ``type_info``, it is that of the first
            file that is there when the source is built.
        type_info: the type of the records, in place of a schema: each of its fields may be ``null``.
        legacy_timestamp_mapping: whether moments of a schema are times without a zone, as in Flink; else they are
            times of UTC.

    Raises:
        InvalidProgramError: when the schema is none, or both are given.
        InvalidTypeError: when no schema can be made of the type.

    Examples:
        >>> from headrace.common import Row, WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import FileSink, FileSource
        >>> from headrace.datastream.formats.avro import AvroBulkWriters, AvroFormat
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> prices = env.from_collection([Row(id=1, price=2.5), Row(id=2, price=4.0)])
        >>> sink = FileSink.for_bulk_format("prices", AvroBulkWriters.for_row_type()).build()
        >>> _ = prices.sink_to(sink)
        >>> _ = env.execute()
        >>> source = FileSource.for_bulk_file_format(AvroFormat(), "prices").build()
        >>> read = env.from_source(source, WatermarkStrategy.no_watermarks(), "prices")
        >>> read.execute_and_collect(limit=10)
        [Row(id=1, price=2.5), Row(id=2, price=4.0)]
    """

    name = "Avro"
    declared_by = "a schema or type_info"

    as_dicts = False
    """True where records are dicts; else they are rows."""

    def __init__(
        self,
        schema: GivenSchema | None = None,
        type_info: TypeInformation | type | None = None,
        *,
        legacy_timestamp_mapping: bool = True,
    ) -> None:
        if schema is not None and type_info is not None:
            raise InvalidProgramError("an AvroFormat takes a schema or type_info, not both")
        self._legacy = legacy_timestamp_mapping
        self._type = None if type_info is None else Types.of(type_info)
        self._schema = None if schema is None else schema_given(schema, type(self).__name__)
        if self._type is not None:
            self._legacy = False  # a type says itself which of its times have a zone
            self._schema = avro_schema_of(self._type, advice="give a schema in place of type_info")
        elif self._schema is not None:
            self._type = self._type_of(self._schema)

    def _type_of(self, schema: AvroSchema) -> TypeInformation:
        node = schema.node(legacy_timestamp_mapping=self._legacy, as_dicts=self.as_dicts)
        if not isinstance(node, Record):
            raise InvalidTypeError(f"the records of Avro files have a schema of type record, not {schema}")
        return node.type_info

    def _resolved(self, file: InputFile) -> Self:
        resolved = copy(self)
        try:
            with open_avro(file) as found:
                resolved._schema = AvroSchema(found.schema)
            resolved._type = resolved._type_of(resolved._schema)
        except (InvalidProgramError, InvalidTypeError) as error:
            raise InvalidTypeError(f"{shown(file.path)}: {error}") from error
        return resolved

    def extent(self, file: InputFile) -> FileExtent:
        with open_avro(file) as found:
            self._reader(found, file)
            first = next(found.blocks(), None)
        per_byte = first.count / first.stored if isinstance(first, FileBlock) else 1 / max(file.size, 1)
        return FileExtent(file.size, records_per_unit=per_byte)

    def read(self, part: FileRange, *, reject: bool) -> Iterator[Decoded]:
        with open_avro(part.file) as file:
            reader, boundaries = self._reader(file, part.file)
            waiting = _Blocks(shown(part.file.path), boundaries, reader, self.produced_type, reject=reject)
            for block in file.blocks(part.start, part.end):
                damage = block if isinstance(block, CorruptFileError) else waiting.add(block)
                if damage is not None or waiting.bytes >= _BATCH_BYTES:
                    yield from waiting.decoded()
                if damage is not None:
                    yield Decoded(damage=damage)
            yield from waiting.decoded()

    def _reader(self, opened: AvroFile, file: InputFile) -> tuple[AvroReader, Boundaries]:
        assert self._schema is not None
        try:
            return _reader_of(opened.schema, self._schema, self._legacy, self.as_dicts)
        except InvalidProgramError as error:
            raise CorruptFileError(
                f"{shown(file.path)} does not fit the schema that it is read with: {error}"
            ) from error


@lru_cache(maxsize=64)
def _reader_of(written: str, schema: AvroSchema, legacy: bool, as_dicts: bool) -> tuple[AvroReader, Boundaries]:
    writer = AvroSchema(written)
    reader = avro_reader(writer, schema, legacy_timestamp_mapping=legacy, as_dicts=as_dicts)
    return reader, Boundaries(writer.node())


class _Blocks:
    """Blocks of a file whose records are waiting to be decoded together.

    Args:
        path: the file, for messages.
        boundaries: finds the records of a block.
        reader: reads records.
        kind: their type.
        reject: whether to hand over bad records instead of failing.

    Attributes:
        bytes: the size of what waits.
    """

    def __init__(
        self, path: str, boundaries: Boundaries, reader: AvroReader, kind: TypeInformation, *, reject: bool
    ) -> None:
        self._type = kind
        self._path = path
        self._boundaries = boundaries
        self._reader = reader
        self._bad_records = BadRecords(reject, "record", WAY_OUT)
        self._blocks: list[FileBlock] = []
        self._starts: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
        self.bytes = 0

    def add(self, block: FileBlock) -> CorruptFileError | None:
        """Take a block; gives what is wrong with one that has not the records that it should."""
        try:
            starts = self._boundaries.of(block.data, block.count, block.stored)
        except ValueError as error:
            return CorruptFileError(f"{self._path} is damaged: in the block at byte {block.offset}, {error}")
        self._blocks.append(block)
        self._starts.append(starts[:-1] + self.bytes)
        self.bytes += len(block.data)
        return None

    def decoded(self) -> Iterator[Decoded]:
        """The records of all blocks that were taken, which are forgotten then."""
        if not self._blocks:
            return
        data = np.frombuffer(b"".join(block.data for block in self._blocks), np.uint8)
        messages = binary_array(data, np.concatenate([*self._starts, [self.bytes]]))
        read = decode_good_messages(lambda some: columns_under(self._reader(some, 0), self._type), messages)
        read = without_unreadable(read, self._type)
        rejected = [self._bad(messages, index, reason) for index, reason in read.rejected]
        self._blocks, self._starts, self.bytes = [], [], 0
        yield Decoded(read.columns, rejected=rejected)

    def _bad(self, messages: pa.Array, index: int, reason: str) -> tuple[str, str, str]:
        ends = np.cumsum([block.count for block in self._blocks])
        number = int(np.searchsorted(ends, index, side="right"))
        place = index - int(ends[number]) + self._blocks[number].count
        where = f"{self._path}: record {place} of the block at byte {self._blocks[number].offset}"
        return self._bad_records.letter(where, messages[index].as_py(), reason)


class AvroInputFormat(AvroFormat):
    """Files of Avro as records that are dicts, under PyFlink's name: for ``env.create_input()``, and for a FileSource.

    Args:
        path: a file, a folder or a pattern.
        schema: the schema of the records, or its text in JSON.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.formats.avro import AvroInputFormat, AvroSchema
        >>> schema = AvroSchema({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
        >>> AvroInputFormat("/data/orders", schema).get_produced_type().get_field_names()
        ['id']
    """

    as_dicts = True

    def __init__(self, path: str | os.PathLike[str], schema: GivenSchema) -> None:
        super().__init__(schema)
        self.path = path

    def get_produced_type(self) -> TypeInformation:
        """The type of the records."""
        return self.produced_type
