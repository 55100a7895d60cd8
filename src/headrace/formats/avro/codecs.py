"""How blocks of Avro files are compressed; all that is needed comes with Python and Arrow."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from headrace.formats.compression import decompressed_block

_CHECKSUM_BYTES: Final = 4
_SIZE_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Codec:
    """One way to compress a block.

    Attributes:
        compress: gives what is stored of some bytes.
        decompress: gives the bytes of what is stored. It raises ``OSError``, ``ValueError`` or an error of its own
            library when that is damaged: see :data:`headrace.formats.compression.DAMAGED`.
    """

    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes], bytes]


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _inflate(data: bytes) -> bytes:
    return zlib.decompress(data, -zlib.MAX_WBITS)  # fastavro leaves three bytes of zlib's checksum behind the data


def _to_snappy(data: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(data, asbytes=True)
    return packed + zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "big")


def _of_snappy(data: bytes) -> bytes:
    packed, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    found: bytes = pa.Codec("snappy").decompress(packed, _snappy_size(packed), asbytes=True)
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


def _of_zstandard(data: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        found: bytes = stream.read()
    return found


def _to_lz4(data: bytes) -> bytes:
    packed: bytes = pa.Codec("lz4_raw").compress(data, asbytes=True)
    return len(data).to_bytes(_SIZE_BYTES, "little") + packed


def _of_lz4(data: bytes) -> bytes:
    size = int.from_bytes(data[:_SIZE_BYTES], "little")
    found: bytes = pa.Codec("lz4_raw").decompress(data[_SIZE_BYTES:], size, asbytes=True)
    return found


CODECS: Final = {
    "null": Codec(bytes, bytes),
    "deflate": Codec(_deflate, _inflate),
    "snappy": Codec(_to_snappy, _of_snappy),
    "zstandard": Codec(_to_zstandard, _of_zstandard),
    "bzip2": Codec(bz2.compress, lambda data: decompressed_block(data, bz2.BZ2Decompressor())),
    "xz": Codec(lzma.compress, lambda data: decompressed_block(data, lzma.LZMADecompressor())),
    "lz4": Codec(_to_lz4, _of_lz4),
}
"""By the names that files have for them; ``lz4`` is no name of the specification, but fastavro has it."""
