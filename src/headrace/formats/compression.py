"""Compressed streams, read to their end: all that is in them, or an error."""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from headrace.common.errors import CorruptFileError
from headrace.storage.files import InputFile, shown

DAMAGED: Final = (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException)
"""Errors that decompressors raise for damaged data."""

_COMPRESSIONS: Final = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".bz2": "bz2",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".lz4": "lz4",
    ".xz": "xz",
}
_STEP_BYTES: Final = 1 << 14
"""The bytes that are decompressed at once: what comes before damage is given, but for the step that meets it."""

_READ_BYTES: Final = 1 << 16
_XZ_MEMORY: Final = 256 << 20
_ENDS_EARLY: Final = "the compressed data end before they are complete"


class ByteStream(Protocol):
    """Anything that bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes; none at the end."""


class ZlibDecompressor:
    """The decompressor of :mod:`zlib`, in the shape of the others.

    Args:
        wbits: the format: gzip unless another one is given.
    """

    def __init__(self, wbits: int = zlib.MAX_WBITS + 16) -> None:
        self._inner = zlib.decompressobj(wbits)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max(max_length, 0))


Decompressor = ZlibDecompressor | bz2.BZ2Decompressor | lzma.LZMADecompressor
"""Reads one member, stream or frame, and keeps what it has not read yet."""


def compression_of(path: str) -> str | None:
    """The compression that a file's name says, or None."""
    return _COMPRESSIONS.get(Path(path).suffix.lower())


@contextmanager
def open_decompressed(file: InputFile) -> Iterator[ByteStream]:
    """The bytes that are compressed in a file, from its beginning."""
    compression = compression_of(file.path)
    if compression is None:
        with file.open() as raw:
            yield raw
    elif compression in _MEMBERS:
        begin, padding = _MEMBERS[compression]
        with file.open() as raw:
            yield _Checked(_Members(raw, begin, padding), file.path)
    else:
        with pa.CompressedInputStream(file.open_for_arrow(), compression) as stream:
            yield _Checked(stream, file.path)


def decompressed_block(data: bytes, decompressor: Decompressor, most: int, *, alone: bool = True) -> bytes:
    """Decompress bytes that are one member.

    Args:
        data: the bytes.
        decompressor: a new one.
        most: how many bytes there may be.
        alone: whether nothing else is behind the member.

    Raises:
        ValueError: when they are not; what else is raised is among :data:`DAMAGED`.
    """
    found = decompressor.decompress(data, most + 1)
    if len(found) > most:
        raise too_large(most)
    if not decompressor.eof:
        raise ValueError(_ENDS_EARLY)
    if alone and decompressor.unused_data:
        raise ValueError("something is behind the compressed data")
    return found


def too_large(most: int) -> ValueError:
    """The error for a block of more than so many bytes."""
    return ValueError(f"it has more than {most} bytes, which is too much for one block of this size")


def xz_decompressor() -> lzma.LZMADecompressor:
    """A decompressor of xz with bounded memory; a stream says how much it takes: 65 MiB with the highest preset."""
    return lzma.LZMADecompressor(memlimit=_XZ_MEMORY)


class _Members:
    """Decompresses one member after the other, with zeros between and behind them if there are any.

    Unlike those of the standard library it takes what is behind a member for the next one, or for damage.

    Args:
        raw: the compressed bytes.
        begin: makes what reads the next member.
        padding: of how many zeros there is any multiple behind a member.
    """

    def __init__(self, raw: ByteStream, begin: Callable[[], Decompressor], padding: int) -> None:
        self._raw = raw
        self._begin = begin
        self._padding = padding
        self._rest = b""
        self._current = begin()

    def read(self, size: int, /) -> bytes:
        while True:
            if self._current.eof:
                self._rest = self._current.unused_data
                if self._is_at_end():
                    return b""
                self._current = self._begin()
            data, self._rest, at_end = self._rest, b"", False
            if not data and self._current.needs_input:
                data = self._raw.read(_READ_BYTES)
                at_end = not data
            found = self._current.decompress(data, size)
            if found:
                return found
            if at_end and not self._current.eof:
                raise EOFError(_ENDS_EARLY)

    def _is_at_end(self) -> bool:
        """Tell whether nothing is behind a member but padding, which is skipped."""
        zeros = 0
        while self._rest or (more := self._raw.read(_READ_BYTES)):
            data = self._rest or more
            self._rest = data.lstrip(b"\0")
            zeros += len(data) - len(self._rest)
            if self._rest:
                break
        if zeros % self._padding:
            raise OSError(f"{zeros} zero bytes are behind the compressed data, which is no multiple of {self._padding}")
        return not self._rest


_MEMBERS: Final[dict[str, tuple[Callable[[], Decompressor], int]]] = {
    "gzip": (ZlibDecompressor, 1),
    "bz2": (bz2.BZ2Decompressor, 1),
    "xz": (xz_decompressor, 4),
}
"""By the name of a compression: what reads a member, and what padding is behind it; Arrow reads the others."""


class _Checked:
    """Tells damaged compressed data from a passing fault of the disk, and gives what comes before it."""

    def __init__(self, stream: ByteStream, path: str) -> None:
        self._stream = stream
        self._path = path
        self._damage: CorruptFileError | None = None

    def read(self, size: int, /) -> bytes:
        """The next ``size`` bytes, fewer at the end and before damage.

        Raises:
            CorruptFileError: when there is nothing before the damage any more.
        """
        data = bytearray()
        while len(data) < size and (step := self._step(min(_STEP_BYTES, size - len(data)))):
            data += step
        if self._damage is not None and not data:
            raise self._damage
        return bytes(data)

    def _step(self, size: int) -> bytes:
        """At most ``size`` bytes; none at the end and at damage."""
        if self._damage is not None:
            return b""
        try:
            return self._stream.read(size)
        except DAMAGED as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            self._damage = CorruptFileError(f"{shown(self._path)} cannot be decompressed: {error}")
            self._damage.__cause__ = error
            return b""
