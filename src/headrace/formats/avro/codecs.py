"""How blocks of Avro files are compressed; all that is needed comes with Python and Arrow."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from headrace.formats.compression import decompressed_block, too_large, xz_decompressor

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
