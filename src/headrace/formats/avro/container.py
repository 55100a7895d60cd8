"""Files of Avro: a header with the schema, and blocks of records with a marker between them.

A block begins behind a marker, wherever that stands. So all cuts of a file agree on its blocks, and what is behind a
damaged one is found again.
"""

from __future__ import annotations

import bz2
import errno
import io
import lzma
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

import pyarrow as pa

from headrace.common.errors import CorruptFileError
from headrace.formats.avro.varints import read_integer
from headrace.formats.compression import DAMAGED, decompressed_block, too_large, xz_decompressor
from headrace.storage.files import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.storage.files import InputFile


_CHECKSUM_BYTES: Final = 4
_SIZE_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Codec:
    """One way to compress a block.

    Attributes:
        compress: gives what is stored of some bytes.
        decompress: gives the bytes of what is stored. It raises ``OSError``, ``ValueError`` or an error of its own
            library when that is damaged, or more than so many bytes: see :data:`headrace.formats.compression.DAMAGED`.
    """

    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes, int], bytes]


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _inflate(data: bytes, most: int) -> bytes:
    # fastavro leaves three bytes of zlib's checksum behind the data
    return decompressed_block(data, zlib.decompressobj(-zlib.MAX_WBITS), most, alone=False)


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
    """How many bytes come out, which stands in front in seven bits a byte."""
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


CODECS: Final = {
    "null": Codec(bytes, lambda data, _: data),
    "deflate": Codec(_deflate, _inflate),
    "snappy": Codec(_to_snappy, _of_snappy),
    "zstandard": Codec(_to_zstandard, _of_zstandard),
    "bzip2": Codec(bz2.compress, lambda data, most: decompressed_block(data, bz2.BZ2Decompressor(), most)),
    "xz": Codec(lzma.compress, lambda data, most: decompressed_block(data, xz_decompressor(), most)),
    "lz4": Codec(_to_lz4, _of_lz4),
}
"""By the names that files have for them; ``lz4`` is no name of the specification, but fastavro has it."""


MAGIC: Final = b"Obj\x01"
MARKER_BYTES: Final = 16

_COMPRESSED: Final[Mapping[bytes, str]] = dict.fromkeys(
    (b"\x1f\x8b", b"\x28\xb5", b"BZ", b"\xfd7"),
    ", but a compressed one: decompress it; Avro compresses its blocks itself",
)
"""By how other files begin, what to do about them."""

_WINDOW_BYTES: Final = 1 << 20
_NUMBERS_BYTES: Final = 20
"""Of the two numbers in front of a block, at most."""

_MOST_BYTES: Final = 64 << 20
_MOST_TIMES: Final = 16
"""What a block is decompressed to: at most so many bytes, or so many times its size where that is more."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a file begins with.

    Attributes:
        schema: the schema of its records, in JSON.
        codec: how its blocks are compressed.
        marker: what stands behind each block.
        end: where the first block begins.
    """

    schema: str
    codec: str
    marker: bytes
    end: int


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


def read_header(file: InputFile) -> Header:
    """The header of a file.

    Raises:
        CorruptFileError: when there is none, or nobody can read such a file.
    """
    with file.open() as stream:
        return _header(_Window(stream, file.size), shown(file.path))


def read_blocks(file: InputFile, start: int, end: int) -> Iterator[FileBlock | CorruptFileError]:
    """The blocks that begin in ``[start, end)``, in order; an error in the place of each that is damaged.

    Raises:
        CorruptFileError: when there is no header.
        OSError: when the file is gone, or on a passing fault.
    """
    with file.open() as stream:
        window, path = _Window(stream, file.size), shown(file.path)
        header = _header(window, path)
        at: int | None = header.end
        if start > header.end:
            at = window.behind(header.marker, start - MARKER_BYTES)
        while at is not None and at < min(end, file.size):
            try:
                block = _block(window, header, at)
                yield block
                at += block.stored
            except _DamagedBlockError as error:
                yield _damaged(path, at, error)
                at = window.behind(header.marker, at) if error.behind is None else error.behind


def open_blocks(stream: BinaryIO, path: str) -> tuple[Header, Iterator[FileBlock]]:
    """The header of a file that is whole, and its blocks.

    Args:
        stream: the file.
        path: what it is called, for messages.

    Raises:
        CorruptFileError: when there is no header, or at a block that is damaged.
    """
    window = _Window(stream, stream.seek(0, io.SEEK_END))
    header = _header(window, path)
    return header, _whole_blocks(window, header, path)


def _whole_blocks(window: _Window, header: Header, path: str) -> Iterator[FileBlock]:
    at = header.end
    while at < window.size:
        try:
            block = _block(window, header, at)
        except _DamagedBlockError as error:
            raise _damaged(path, at, error) from error
        yield block
        at += block.stored


class _DamagedBlockError(Exception):
    """A block cannot be read; ``behind`` is where the next one begins, as far as that is known."""

    def __init__(self, reason: str, behind: int | None = None) -> None:
        super().__init__(reason)
        self.behind = behind


def _damaged(path: str, at: int, error: _DamagedBlockError) -> CorruptFileError:
    return CorruptFileError(f"{path} is damaged: in the block at byte {at}, {error}")


def _block(window: _Window, header: Header, at: int) -> FileBlock:
    """The block at a place."""
    head = window.read(at, _NUMBERS_BYTES)
    try:
        count, place = read_integer(head, 0)
        size, place = read_integer(head, place)
    except (IndexError, ValueError):
        raise _DamagedBlockError("it does not say how long it is") from None
    marker_at = at + place + size
    if count < 0 or size < 0 or marker_at + MARKER_BYTES > window.size:
        raise _DamagedBlockError("it says that it is longer than the file, or it was cut")
    if window.read(marker_at, MARKER_BYTES) != header.marker:
        raise _DamagedBlockError("there is no marker at its end")
    behind = marker_at + MARKER_BYTES
    data = _decompressed(header, window.read(at + place, size), behind)
    return FileBlock(at, count, data, behind - at)


def _decompressed(header: Header, stored: bytes, behind: int) -> bytes:
    try:
        data = CODECS[header.codec].decompress(stored, max(_MOST_BYTES, _MOST_TIMES * len(stored)))
    except DAMAGED as error:
        raise _DamagedBlockError(f"what is compressed with {header.codec} cannot be read: {error}", behind) from error
    return data


def _header(window: _Window, path: str) -> Header:
    if window.read(0, len(MAGIC)) != MAGIC:
        raise CorruptFileError(f"{path} is not an Avro file{_COMPRESSED.get(window.read(0, 2), '')}")
    length = _WINDOW_BYTES
    while True:
        data = window.read(0, length)
        try:
            metadata, place = _metadata(data)
            break
        except IndexError:
            if len(data) < length:
                raise CorruptFileError(f"{path} is damaged: it ends within its header") from None
            length *= 2
        except ValueError as error:
            raise CorruptFileError(f"{path} is damaged: its header cannot be read: {error}") from None
    marker = window.read(place, MARKER_BYTES)
    codec = metadata.get("avro.codec", b"null").decode("latin-1")
    if "avro.schema" not in metadata or len(marker) < MARKER_BYTES:
        raise CorruptFileError(f"{path} is damaged: its header has no schema, or was cut")
    if codec not in CODECS:
        raise CorruptFileError(f"{path} is compressed with {codec!r}; what can be read is {', '.join(CODECS)}")
    schema = metadata["avro.schema"].decode("utf-8", errors="replace")
    return Header(schema, codec, marker, place + MARKER_BYTES)


def _metadata(data: bytes) -> tuple[dict[str, bytes], int]:
    """What a header says, by name, and where that ends; ``IndexError`` where there are not enough bytes."""
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


class _Window:
    """Any bytes of a file; those that follow each other are read together.

    Args:
        stream: the file.
        size: how many of its bytes are looked at.
    """

    def __init__(self, stream: io.RawIOBase | BinaryIO, size: int) -> None:
        self._stream = stream
        self.size = size
        self._start = 0
        self._data = b""

    def read(self, start: int, length: int) -> bytes:
        """So many bytes from a place on, fewer at the end of the file."""
        end = min(start + length, self.size)
        if start < self._start or end > self._start + len(self._data):
            self._load(start, end)
        return self._data[start - self._start : end - self._start]

    def behind(self, marker: bytes, start: int) -> int | None:
        """The place behind the first marker that begins at or after a place; None when there is none."""
        while start < self.size:
            data = self.read(start, _WINDOW_BYTES)
            found = data.find(marker)
            if found >= 0:
                return start + found + len(marker)
            if len(data) < _WINDOW_BYTES:
                return None
            start += len(data) - len(marker) + 1
        return None

    def _load(self, start: int, end: int) -> None:
        kept = self._data[start - self._start :] if self._start <= start < self._start + len(self._data) else b""
        self._stream.seek(start + len(kept))
        parts, left = [kept], min(max(end, start + _WINDOW_BYTES), self.size) - start - len(kept)
        while left > 0:
            data = self._stream.read(left)
            if not data:
                raise OSError(errno.EIO, f"the file ends {left} bytes too early")
            parts.append(data)
            left -= len(data)
        self._start, self._data = start, b"".join(parts)
