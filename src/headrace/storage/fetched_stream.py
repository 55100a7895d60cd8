"""Files of users on a remote store, as Python and Arrow read files."""

from __future__ import annotations

import errno
import io
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_READ_BYTES: Final = 1 << 16
_LARGEST_READ_BYTES: Final = 8 << 20
"""How much is fetched at once, at first and when reading goes on and on."""


class FetchedStream(io.RawIOBase):
    """Bytes that are fetched as they are read: little at first, then more and more at a time.

    Args:
        path: what users call the file.
        size: how many bytes it has.
        fetch: gives the bytes from a position on, as many as the second argument says, or raises.
    """

    def __init__(self, path: str, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._path = path
        self._size = size
        self._fetch = fetch
        self._at = 0
        self._start = 0
        self._block = b""
        self._ahead = _FIRST_READ_BYTES

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view) and self._at < self._size:
            block = self._buffered(len(view) - filled)
            view[filled : filled + len(block)] = block
            filled += len(block)
            self._at += len(block)
        return filled

    def _buffered(self, wanted: int) -> memoryview:
        """Some of the next bytes, at most ``wanted``."""
        within = self._at - self._start
        if not 0 <= within < len(self._block):
            goes_on = bool(self._block) and self._at == self._start + len(self._block)
            self._ahead = min(2 * self._ahead, _LARGEST_READ_BYTES) if goes_on else _FIRST_READ_BYTES
            length = min(max(wanted, self._ahead), self._size - self._at)
            self._start, within = self._at, 0
            self._block = self._fetch(self._at, length)
            if len(self._block) != length:
                raise OSError(errno.EIO, f"the store gave {len(self._block)} bytes instead of {length}", self._path)
        return memoryview(self._block)[within : within + wanted]
