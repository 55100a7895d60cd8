"""Files of users, which sources read: by paths and patterns, wherever they are.

A file must not be overlooked because a folder cannot be listed for a while: what cannot be looked at is an error.
"""

from __future__ import annotations

import fnmatch
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

_WILDCARDS: Final = frozenset("*?[")


def shown(path: str) -> str:
    """A path for messages and records; bytes of it that are no text are shown as escapes."""
    return os.fsencode(path).decode("utf-8", errors="backslashreplace")


def has_wildcards(part: str) -> bool:
    """Whether there are characters in a path, or in one part of it, that stand for others."""
    return not _WILDCARDS.isdisjoint(part)


def is_hidden(name: str) -> bool:
    """Whether a file or folder is one of those that are left out unless they are named in full.

    As in Spark, ``_day=7`` is none of them: a folder of a field whose name begins with an underscore.
    """
    if name.startswith("_"):
        return "=" not in name
    return name.startswith(".") or name == "lost+found"  # the file system's own, at the root of a volume


def matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a pattern stands for a file, or for a folder that it is visible in.

    Args:
        names: the parts of the file's path.
        pattern: the parts of the pattern, the first of which has wildcards.
    """
    if not pattern:
        return not any(map(is_hidden, names))
    if not names:
        return False
    if pattern[0] == "**":
        return matches(names, pattern[1:]) or (not is_hidden(names[0]) and matches(names[1:], pattern))
    if not has_wildcards(pattern[0]):
        return names[0] == pattern[0] and matches(names[1:], pattern[1:])
    return not is_hidden(names[0]) and fnmatch.fnmatchcase(names[0], pattern[0]) and matches(names[1:], pattern[1:])


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file as it was found.

    Attributes:
        path: the absolute path, or the URI; bytes of a path that are no text are surrogates, as Python has them.
        size: bytes.
        mtime_ns: when it was modified, in nanoseconds since the epoch. Of an object only the seconds are that; the rest
            is a digest of its version, so that a change within the second is seen.
    """

    path: str
    size: int
    mtime_ns: int


class FileStore(ABC):
    """Where files are; picklable."""

    @abstractmethod
    def find(self, path: str) -> Iterator[FileStatus]:
        """All files that a path stands for, each once.

        A folder stands for the files in it and in its folders; a pattern for what matches it: ``*``, ``?`` and
        ``[...]`` within a name, ``**`` for any folders. What is hidden is left out unless it is named in full. Empty
        files are left out: they hold no records, and may be about to be written. So is what is no file.

        Raises:
            InfrastructureError: naming a folder or a file that cannot be looked at.
            OSError: likewise.
        """

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder."""

    @abstractmethod
    def is_lost(self, folder: str) -> bool:
        """Whether a folder that was there is gone; false where a folder without files is none."""

    def missing(self, path: str) -> str | None:
        """What is wrong with a path that is no pattern and at which there is nothing to read; None when there is."""
        return None if self.exists(path) else f"there is no file or folder {shown(path)}"

    @abstractmethod
    def status(self, path: str) -> FileStatus | None:
        """A file's status now; None when there is no file (any more).

        Raises:
            OSError: when that cannot be told.
        """

    @abstractmethod
    def open(self, path: str) -> io.RawIOBase:
        """A file's bytes, from anywhere in it.

        Raises:
            OSError: when there is none, or it cannot be read.
        """

    @abstractmethod
    def open_for_arrow(self, path: str) -> pa.NativeFile:
        """The same for Arrow."""

    def is_pattern(self, path: str) -> bool:
        """Whether a path is a pattern, and not the name of something that exists."""
        return has_wildcards(path) and not self.exists(path)


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that is read.

    Attributes:
        store: where it is.
        path: the file.
        size: its bytes.
    """

    store: FileStore
    path: str
    size: int

    def open(self) -> io.RawIOBase:
        """Its bytes; errors as with :meth:`FileStore.open`."""
        return self.store.open(self.path)

    def open_for_arrow(self) -> pa.NativeFile:
        """The same for Arrow."""
        return self.store.open_for_arrow(self.path)
