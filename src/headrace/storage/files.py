"""Files of users, which sources read: by paths and patterns, wherever they are.

A file must not be overlooked because a folder cannot be listed for a while: what cannot be looked at is an error.
"""

import fnmatch
import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pyarrow as pa

from headrace.common.errors import InfrastructureError
from headrace.storage.file_system import Entry, EntryKind, FileSystem

_WILDCARDS: Final = frozenset("*?[")


def shown(path: str) -> str:
    """A path for messages and records; bytes of it that are no text are shown as escapes."""
    return os.fsencode(path).decode("utf-8", errors="backslashreplace")


def has_wildcards(part: str) -> bool:
    """Tell whether there are characters in a path, or in one part of it, that stand for others."""
    return not _WILDCARDS.isdisjoint(part)


def is_hidden(name: str) -> bool:
    """Tell whether a file or folder is one of those that are left out unless they are named in full.

    As in Spark, ``_day=7`` is none of them: a folder of a field whose name begins with an underscore.
    """
    if name.startswith("_"):
        return "=" not in name
    return name.startswith(".") or name == "lost+found"  # the file system's own, at the root of a volume


def matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Tell whether a pattern stands for a file, or for a folder that it is visible in.

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
        mtime_ns: when it was modified, as an :class:`~headrace.storage.file_system.Entry` has it.
    """

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class FileStore:
    """The files of one storage; picklable. Paths are URIs, or absolute POSIX paths.

    Attributes:
        file_system: the storage.
    """

    file_system: FileSystem

    def find(self, path: str) -> Iterator[FileStatus]:
        """All files that a path stands for, each once.

        A folder stands for the files in it and in its folders; a pattern for what matches it: ``*``, ``?`` and
        ``[...]`` within a name, ``**`` for any folders. What is hidden is left out unless it is named in full. Empty
        files are left out: they hold no records, and may be about to be written. So is what is no file.

        Raises:
            InfrastructureError: naming a folder or a file that cannot be looked at.
            OSError: likewise.
        """
        within = self.within(path)
        if self.file_system.is_flat:
            found: Iterator[FileStatus | None] = self._find_by_prefix(path, within)
        elif self.is_pattern(path):
            found = chain.from_iterable(map(self._below, self._matching(within)))
        else:
            found = self._below(within)
        for status in found:
            if status is not None and status.size:
                yield status

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or a folder."""
        within = self.within(path)
        return self.file_system.stat(within) is not None or self._is_prefix(within)

    def may_be_folder(self, path: str) -> bool:
        """Tell whether a path is a folder, as far as a storage without folders can tell."""
        if self.file_system.is_flat:
            return True
        found = self._stat(self.within(path))
        return found is not None and found.kind is EntryKind.FOLDER

    def is_lost(self, folder: str) -> bool:
        """Tell whether a folder that was there is gone; false where a folder without files is none."""
        return not self.file_system.is_flat and self._stat(self.within(folder)) is None

    def missing(self, path: str) -> str | None:
        """Say what is wrong with a path that is no pattern; None when there is something to read."""
        within = self.within(path)
        found = self.file_system.stat(within)
        if found is not None:
            return f"{shown(path)} is neither a file nor a folder" if found.kind is EntryKind.OTHER else None
        return None if self._is_prefix(within) else f"there is no file or folder {shown(path)}"

    def status(self, path: str) -> FileStatus | None:
        """A file's status now; None when there is no file (any more).

        Raises:
            OSError: when that is not known.
        """
        within = self.within(path)
        return self._status(within, self.file_system.stat(within))

    def open(self, path: str) -> io.RawIOBase:
        """A file's bytes, from anywhere in it.

        Raises:
            OSError: when there is none, or it cannot be read.
        """
        return self.file_system.open(self.within(path))

    def open_for_arrow(self, path: str) -> pa.NativeFile:
        """The same for Arrow."""
        return self.file_system.open_for_arrow(self.within(path))

    def is_pattern(self, path: str) -> bool:
        """Tell whether a path is a pattern, and not the name of something that exists."""
        return has_wildcards(path) and not self.exists(path)

    # --- folders that are only the beginnings of names ---------------------------------------------------------------

    def _is_prefix(self, within: str) -> bool:
        return self.file_system.is_flat and any(True for _ in self.file_system.walk(within))

    def _find_by_prefix(self, path: str, within: str) -> Iterator[FileStatus | None]:
        if self.is_pattern(path):
            parts = within.split("/")
            fixed = next(number for number, part in enumerate(parts) if has_wildcards(part))
            pattern = parts[fixed:]
            yield from self._with_prefix("/".join(parts[:fixed]), lambda names: matches(names, pattern))
        elif (found := self.status(path)) is not None:
            yield found
        else:
            yield from self._with_prefix(within, lambda names: not any(map(is_hidden, names)))

    def _with_prefix(self, prefix: str, is_meant: Callable[[list[str]], bool]) -> Iterator[FileStatus | None]:
        """The files below a prefix whose names from there on are meant."""
        for path, entry in self.file_system.walk(prefix):
            if entry.size and is_meant(path[len(prefix) + 1 :].split("/")):
                yield self._status(path, entry)

    # --- folders that can be listed ----------------------------------------------------------------------------------

    def _matching(self, pattern: str) -> list[str]:
        """The visible files and folders that match a pattern."""
        found = [""]
        for part in pattern.strip("/").split("/"):
            found = list(dict.fromkeys(match for folder in found for match in self._step(folder, part)))
        return found

    def _step(self, folder: str, part: str) -> Iterator[str]:
        """All that matches the next part of a pattern."""
        if part == "**":
            yield folder
            for entry in self._visible(folder):
                if entry.kind is EntryKind.FOLDER:
                    yield from self._step(f"{folder}/{entry.name}", part)
        elif has_wildcards(part):
            names = (entry.name for entry in self._visible(folder))
            yield from (f"{folder}/{name}" for name in names if fnmatch.fnmatchcase(name, part))
        elif self._stat(path := f"{folder}/{part}") is not None:
            yield path

    def _below(self, path: str) -> Iterator[FileStatus | None]:
        """The file ``path``, or all visible files below the folder ``path``; None for what is no file.

        A folder that can be reached by several ways is gone through once, by a way without links if there is one.
        """
        found = self._stat(path)
        if found is None or found.kind is not EntryKind.FOLDER:
            yield self._status(path, found)
            return
        folders, links, seen = [path], list[str](), set[str]()
        while folders or links:
            if not folders:
                links.sort(reverse=True)
                folders.append(links.pop())
            folder = folders.pop()
            real = self.file_system.resolve(folder)
            if real in seen:
                continue
            seen.add(real)
            for entry in self._visible(folder):
                inner = f"{folder}/{entry.name}"
                if entry.kind is EntryKind.FOLDER:
                    folders.append(inner)
                    continue
                behind = entry if entry.size is not None else self._stat(inner)
                if behind is not None and behind.kind is EntryKind.FOLDER:
                    links.append(inner)
                else:
                    yield self._status(inner, behind)

    def _visible(self, folder: str) -> list[Entry]:
        """All that is visible in a folder; nothing when it is gone, or no folder."""
        try:
            return [entry for entry in self.file_system.list_folder(folder) if not is_hidden(entry.name)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._unseen(folder, error) from error

    def _stat(self, path: str) -> Entry | None:
        try:
            return self.file_system.stat(path)
        except OSError as error:
            raise self._unseen(path, error) from error

    def _unseen(self, path: str, error: OSError) -> Exception:
        """The error to raise when a path cannot be looked at; a remote storage has said enough itself."""
        if self.file_system.root:
            return error
        return InfrastructureError(
            f"{shown(path or '/')} cannot be looked at ({error.strerror}), so files may be overlooked: let the user "
            "that runs the job read it, or give it a name that starts with a dot"
        )

    # --- all storages ------------------------------------------------------------------------------------------------

    def _status(self, path: str, found: Entry | None) -> FileStatus | None:
        if found is None or found.kind is not EntryKind.FILE:
            return None
        return FileStatus(self.file_system.locate(path), found.size or 0, found.mtime_ns)

    def within(self, path: str) -> str:
        """A path without what comes before it in a URI.

        Raises:
            FileNotFoundError: when it is on another storage.
        """
        root = self.file_system.root
        if not path.startswith(root):
            raise FileNotFoundError(2, f"it is not on {root}", path)
        return path[len(root) :].rstrip("/")


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
