"""Byte streams of files, decompressed and transcoded to UTF-8 as they are read."""

from __future__ import annotations

import codecs
import lzma
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, cast

import pyarrow as pa

from headrace.common.errors import ConfigurationError, CorruptFileError
from headrace.storage.files import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.storage.files import InputFile

_COMPRESSIONS = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".bz2": "bz2",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".lz4": "lz4",
    ".xz": "xz",
}
_STEP_BYTES = 1 << 14
"""How much is decompressed at once: what comes before damage is given, but for the step that meets it."""

_PROBE = '\n\r,;"0aZ'


class ByteStream(Protocol):
    """Anything that bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes; none at the end."""


def compression_of(path: str) -> str | None:
    """The compression that a file's name tells, or None."""
    return _COMPRESSIONS.get(Path(path).suffix.lower())


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
    path = file.path
    with _open_raw(file) as raw:
        stream: ByteStream = raw if compression_of(path) is None else _Checked(raw, path)
        yield stream if is_line_safe(charset) else _Transcoder(stream, charset, path)


def _open_raw(file: InputFile) -> Any:
    compression = compression_of(file.path)
    if compression is None:
        return file.open()
    if compression == "xz":
        return _decompressed_xz(file)
    return pa.CompressedInputStream(file.open_for_arrow(), compression)


@contextmanager
def _decompressed_xz(file: InputFile) -> Iterator[ByteStream]:
    with file.open() as raw, lzma.open(cast("IO[bytes]", raw)) as stream:
        yield stream


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
        except (lzma.LZMAError, EOFError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            self._damage = CorruptFileError(f"{shown(self._path)} cannot be decompressed: {error}")
            self._damage.__cause__ = error
            return b""


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
