"""Byte streams of files, decompressed and transcoded to UTF-8 as they are read."""

from __future__ import annotations

import codecs
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.common.errors import ConfigurationError, CorruptFileError
from headrace.formats.compression import open_decompressed
from headrace.storage.files import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.formats.compression import ByteStream
    from headrace.storage.files import InputFile

_PROBE = '\n\r,;"0aZ'


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
    with open_decompressed(file) as stream:
        yield stream if is_line_safe(charset) else _Transcoder(stream, charset, file.path)


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
