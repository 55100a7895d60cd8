"""State files of an object store in this process: whole, in memory while small, else in an unnamed temporary file."""

from __future__ import annotations

import mmap
import tempfile
import threading
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

_IN_MEMORY_BYTES: Final = 8 << 20
"""A file up to this size is held in memory."""

_KEPT_BYTES: Final = 64 << 20
"""How much of what was written is kept until it is read."""


def spooled(chunks: Iterable[bytes]) -> pa.Buffer:
    """The bytes of a file as it comes in; when they are many, a disk has them, as long as the buffer is there."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as file:
        for chunk in chunks:
            file.write(chunk)
        size = file.tell()
        if size <= _IN_MEMORY_BYTES:
            file.seek(0)
            return pa.py_buffer(file.read())
        file.flush()
        return pa.py_buffer(mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ))


class WrittenFiles:
    """What this process has just written, and so need not be fetched when it is read: each once, the newest of them."""

    def __init__(self, limit: int = _KEPT_BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._files: dict[tuple[str, str], bytes] = {}
        self._lock = threading.Lock()

    def keep(self, key: tuple[str, str], content: bytes) -> None:
        """A file was written."""
        self.take(key)
        with self._lock:
            self._files[key] = content
            self._size += len(content)
            while self._size > self._limit:
                self._size -= len(self._files.pop(next(iter(self._files))))

    def take(self, key: tuple[str, str]) -> bytes | None:
        """A file's content, if it is still here; from now on it is not."""
        with self._lock:
            content = self._files.pop(key, None)
            self._size -= len(content or b"")
            return content
