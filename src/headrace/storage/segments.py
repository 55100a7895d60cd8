"""Logs in pieces: where nothing can be appended to a file, a log is a folder of segments, named by their numbers."""

from __future__ import annotations

import errno
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from headrace.storage.folder import Log

if TYPE_CHECKING:
    from headrace.storage.folder import Folder

_NAME: Final = re.compile("[0-9]{10}")

_PARALLEL_READS: Final = 16
"""How many segments are read at the same time."""


def segment(number: int) -> str:
    """The name of a segment. The first is empty: it claims the name of the log."""
    return f"{number:010d}"


def is_segment(name: str) -> bool:
    """Whether a name is that of a segment."""
    return _NAME.fullmatch(name) is not None


class Segments:
    """The segments of one log.

    Args:
        folder: where they are; whatever else is there is left alone.

    Attributes:
        names: all that there are, in their order.

    Raises:
        OSError: when they cannot be listed.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.names = [name for name in folder.names() if is_segment(name)]

    def read(self, length: int) -> bytes:
        """The first bytes of the log, fewer where it ends, or a segment is missing, before."""
        names = [name for number, name in enumerate(self.names) if name == segment(number)]
        content = bytearray()
        with ThreadPoolExecutor(_PARALLEL_READS) as readers:
            for start in range(0, len(names), _PARALLEL_READS):
                content += b"".join(readers.map(self._folder.read, names[start : start + _PARALLEL_READS]))
                if len(content) >= length:
                    break
        return bytes(content[:length])

    def remove(self) -> None:
        """Remove them; the first, which holds the name, comes last."""
        self._folder.remove_all(self.names[1:])
        self._folder.remove_all(self.names[:1])


class SegmentedLog(Log):
    """A log whose every durable piece is a file, named by its number; the first is empty and claims the name.

    Args:
        name: its name.
        folder: where the segments are.

    Raises:
        FileExistsError: when there is such a log.
        OSError: when it cannot be created.
    """

    def __init__(self, name: str, folder: Folder) -> None:
        if not folder.create(segment(0), b""):
            raise FileExistsError(errno.EEXIST, "there is such a log", str(folder))
        self.name = name
        self.size = 0
        self._folder = folder
        self._number = 0
        self._waiting: list[bytes] = []

    def append(self, data: bytes) -> None:
        self._waiting.append(data)
        self.size += len(data)

    def make_durable(self) -> None:
        content = b"".join(self._waiting)
        if not content:
            return
        self._number += 1
        if not self._folder.create(segment(self._number), content):
            where = self._folder.locate(segment(self._number))
            raise OSError(errno.EEXIST, "somebody else has written to the log", where)
        self._waiting = []

    def close(self) -> None:
        """Nothing is held open."""
