"""Byte streams of files, decompressed and transcoded to UTF-8 as they are read."""

from __future__ import annotations

import codecs
import lzma
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from headrace.common.errors import BadRecordError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPRESSIONS = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".bz2": "bz2",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".lz4": "lz4",
    ".xz": "xz",
}
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
def open_stream(path: str, charset: str) -> Iterator[ByteStream]:
    """The whole file from its beginning, decompressed; as UTF-8 when lines cannot be found in its own encoding."""
    with _open_raw(path) as raw:
        stream: ByteStream = raw if compression_of(path) is None else _Checked(raw, path)
        yield stream if is_line_safe(charset) else _Transcoder(stream, charset, path)


def _open_raw(path: str) -> Any:
    compression = compression_of(path)
    if compression is None:
        return Path(path).open("rb", buffering=0)
    if compression == "xz":
        return lzma.open(path, "rb")
    return pa.input_stream(path, compression=compression)


class _Checked:
    """Tells damaged compressed data from a passing fault of the disk."""

    def __init__(self, stream: ByteStream, path: str) -> None:
        self._stream = stream
        self._path = path

    def read(self, size: int, /) -> bytes:
        try:
            return self._stream.read(size)
        except (lzma.LZMAError, EOFError) as error:
            raise self._damaged(error) from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> BadRecordError:
        return BadRecordError(f"{self._path} cannot be decompressed: {error}")


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
                raise BadRecordError(f"{self._path} is not {self._charset}: {error.reason}") from error
            if text or not data:
                return text.encode()
