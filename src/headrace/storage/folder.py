"""Folders on any storage: those of checkpoints, with the few operations that exactness rests on, and those of sinks.

A checkpoint knows names, not paths. A file is there wholly or not at all. A sink's files stay hidden until they are
published, once.
"""

from __future__ import annotations

import contextlib
import errno
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.common.durable import Permissions, target_of_temporary
from headrace.common.errors import CheckpointError
from headrace.storage.file_system import AppendLog, EntryKind, FileSystem, PosixFileSystem, StagedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from typing_extensions import Buffer

    from headrace.storage.file_system import MappedFile


_SEGMENT: Final = re.compile("[0-9]{10}")

_PARALLEL_READS: Final = 16
"""How many segments are read at the same time."""


@dataclass(unsafe_hash=True)
class Folder:
    """A folder of named files, and of further folders; picklable, so that tasks can open it.

    Who may read and write what is in it belongs to the folder, and passes on to the folders in it. ``str()`` gives what
    users call it. A file and a log never have the same name.

    Attributes:
        file_system: the storage that it is on.
        path: where it is there.
        permissions: who may read and write what is made in it.
    """

    file_system: FileSystem
    path: str
    permissions: Permissions = Permissions.OWNER

    def __str__(self) -> str:
        return self.file_system.locate(self.path)

    def locate(self, name: str) -> str:
        """The path or URI by which users know a file in it."""
        return f"{self}/{name}"

    def folder(self, name: str) -> Folder:
        """A folder in it, which need not exist."""
        return replace(self, path=self._file(name))

    def make(self) -> None:
        """Make the folder and those above it, durably; what exists is left alone.

        Raises:
            OSError: when it cannot be made.
        """
        self.file_system.make_folder(self.path, self.permissions)

    def open_to_others(self) -> str | None:
        """How to keep out whoever may write here although he is not meant to; None where there is nobody."""
        # A folder that was there before keeps its mode, and whoever may write to it may put anything in place of ours.
        meant = self.permissions.of_folders
        found = None if meant is None or self.file_system.is_flat else self.file_system.stat(self.path)
        if meant is None or found is None or not found.mode & ~meant & 0o022:
            return None
        return f"its mode is {found.mode:o}: {self.file_system.chmod} {meant:o} {self}"

    # --- files -------------------------------------------------------------------------------------------------------

    def create(self, name: str, content: bytes) -> bool:
        """Create a durable file with its whole content in one step, unless it exists.

        Returns:
            Whether this call created it: of two processes exactly one does.

        Raises:
            OSError: when that cannot be told, or the file cannot be written.
        """
        return self.file_system.create(self._file(name), content, self.permissions)

    def write(self, name: str, chunks: Iterable[Buffer], *, durable: bool = True) -> None:
        """Write a file; one that exists is replaced.

        Args:
            name: the file.
            chunks: its content.
            durable: whether it is certain to outlast a power failure when this returns.

        Raises:
            OSError: when it cannot be written whole, or is not known to be durable.
        """
        self.file_system.put(self._file(name), chunks, self.permissions, durable=durable)

    def read(self, name: str) -> bytes:
        """The whole content of a file.

        Raises:
            FileNotFoundError: when there is none.
            IsADirectoryError: when something else is in its place.
            OSError: when it cannot be read.
        """
        return self.file_system.read(self._file(name))

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """A part of a file, fewer bytes where it ends before; errors as with :meth:`read`."""
        return self.file_system.read_range(self._file(name), start, length)

    def map(self, name: str) -> MappedFile:
        """The bytes of a file that never changes, in memory only as far as they are touched.

        What was fetched stays readable when the file is removed. Errors as with :meth:`read`.
        """
        return self.file_system.map(self._file(name))

    def size(self, name: str) -> int | None:
        """How many bytes a file has; None when there is none."""
        found = self.file_system.stat(self._file(name))
        return None if found is None or found.kind is EntryKind.FOLDER else found.size

    def names(self) -> list[str]:
        """The names of all that is in the folder, sorted; without what a writer has not finished.

        Raises:
            OSError: when it cannot be listed; a missing folder may also count as an empty one.
        """
        return sorted(name for name in self.file_system.names(self.path) if target_of_temporary(name) is None)

    def remove(self, name: str) -> bool:
        """Remove a file; whether there may have been one. Nothing else that has its name is touched."""
        return self.file_system.remove(self._file(name))

    def remove_all(self, names: Sequence[str]) -> list[str]:
        """Remove files, as :meth:`remove` does; the names of those that may have been there."""
        if not self.file_system.is_flat:
            return [name for name in names if self.remove(name)]
        self.file_system.remove_all([self._file(name) for name in names])
        return list(names)

    def remove_unfinished(self, is_over: Callable[[str], bool]) -> list[str]:
        """Remove what writers have left that died while they wrote.

        On a flat storage they leave nothing: a put is whole or not there, and of one in several parts a rule of the
        bucket removes what was left.

        Args:
            is_over: whether nobody can still be writing the file or log of that name.

        Returns:
            The names of the removed files.
        """
        if self.file_system.is_flat:
            return []
        over = list[str]()
        for entry in sorted(self.file_system.list_folder(self.path), key=lambda entry: entry.name):
            target = target_of_temporary(entry.name)
            if target is not None and is_over(target):
                over.append(entry.name)
            elif not self.file_system.can_append and entry.kind is EntryKind.FOLDER and is_over(entry.name):
                self.folder(entry.name).remove_unfinished(_is_segment)
        return [name for name in over if self.file_system.remove(f"{self.path}/{name}")]

    def remove_empty_folders(self) -> None:
        """Remove the folders in it, and itself, as far as they are empty; nothing where folders are but names."""
        if self.file_system.is_flat:
            return
        for folder in [*self.file_system.folders(self.path), self.path]:
            self.file_system.remove_folder(folder)

    # --- logs --------------------------------------------------------------------------------------------------------

    def start_log(self, name: str) -> AppendLog:
        """A new log.

        Raises:
            FileExistsError: when something has that name.
            OSError: when it cannot be created.
        """
        if self.file_system.can_append:
            return self.file_system.start_log(self._file(name), self.permissions)
        segments = self.folder(name)
        if not self.file_system.is_flat:
            if self.size(name) is not None:
                raise FileExistsError(errno.EEXIST, "there is a file of that name", str(segments))
            segments.make()
        return SegmentedLog(name, segments)

    def read_log(self, name: str, length: int) -> bytes:
        """The first bytes of a log, fewer where it ends before; errors as with :meth:`read`."""
        segments = self._segments_of(name)
        # A log that was copied here from another storage may be a file where others are segments.
        return _read_segments(self.folder(name), segments, length) if segments else self.read_range(name, 0, length)

    def remove_log(self, name: str) -> bool:
        """Remove a log; whether there may have been one. Nothing else that has its name is touched."""
        folder, segments = self.folder(name), self._segments_of(name)
        folder.remove_all(segments[1:])
        folder.remove_all(segments[:1])  # the first holds the name, so it comes last
        unfinished = [] if self.file_system.can_append else folder.remove_unfinished(_is_segment)
        if segments or unfinished:
            self.file_system.remove_folder(folder.path)
            return True
        return self.size(name) is not None and self.remove(name)

    def _segments_of(self, name: str) -> list[str]:
        """The names of the segments of a log, in their order; none where it is a file."""
        path = self._file(name)
        if self.file_system.can_append:
            found = self.file_system.stat(path)
            if found is None or found.kind is not EntryKind.FOLDER:
                return []
        return sorted(filter(_is_segment, self.file_system.names(path)))

    def _file(self, name: str) -> str:
        return f"{self.path}/{checked_name(name)}"


def posix_folder(path: Path, permissions: Permissions = Permissions.OWNER) -> Folder:
    """A folder that driver and executors see under the same path.

    Args:
        path: the folder.
        permissions: who may read and write what is made in it.
    """
    return Folder(PosixFileSystem(), str(path).rstrip("/"), permissions)


def checked_name(name: str) -> str:
    """A name, if it can be that of a file in a folder.

    Raises:
        CheckpointError: when it would lead elsewhere.
    """
    if name in ("", ".", "..") or any(character in name for character in "/\\\0"):
        raise CheckpointError(f"{name!r} cannot be the name of a file in a checkpoint directory")
    return name


class SegmentedLog(AppendLog):
    """A log where nothing can be appended to a file: a folder of segments, which are named by their numbers.

    Every durable piece is a segment, created exclusively. The first is empty and claims the name of the log.

    Args:
        name: its name.
        folder: where the segments are; whatever else is there is left alone.

    Raises:
        FileExistsError: when there is such a log.
        OSError: when it cannot be created.
    """

    def __init__(self, name: str, folder: Folder) -> None:
        if not folder.create(_segment(0), b""):
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
        if not self._folder.create(_segment(self._number), content):
            where = self._folder.locate(_segment(self._number))
            raise OSError(errno.EEXIST, "somebody else has written to the log", where)
        self._waiting = []

    def close(self) -> None:
        """Nothing is held open."""


def _segment(number: int) -> str:
    return f"{number:010d}"


def _is_segment(name: str) -> bool:
    return _SEGMENT.fullmatch(name) is not None


def _read_segments(folder: Folder, segments: Sequence[str], length: int) -> bytes:
    """The first bytes of a log, fewer where it ends, or a segment is missing, before."""
    names = [name for number, name in enumerate(segments) if name == _segment(number)]
    content = bytearray()
    with ThreadPoolExecutor(_PARALLEL_READS) as readers:
        for start in range(0, len(names), _PARALLEL_READS):
            content += b"".join(readers.map(folder.read, names[start : start + _PARALLEL_READS]))
            if len(content) >= length:
                break
    return bytes(content[:length])


_PUT_TOGETHER: Final = re.compile(r"[0-9a-f]{32}")

_MARK: Final = "owner"
"""The file that says that a publishing folder is not fenced, where folders cannot be renamed."""


@dataclass(frozen=True)
class OutputTree:
    """A folder of a user's, with what is below it; picklable.

    Paths in it are relative, their parts between slashes. ``str()`` gives what users call it.

    A *publishing folder* belongs to one committer. Once it is fenced, that committer can publish nothing from it,
    whatever it was doing. Where folders are real, a rename fences it. On a flat storage the folder holds a mark. Who
    fences the folder removes the mark first, then all that is in it. A committer that has written a file there looks
    for the mark before it publishes the file. If the mark was still there, its successor sees the file; if not, nothing
    is published. And a publication fails when what it publishes is gone.

    Attributes:
        file_system: the storage.
        base: the folder.
    """

    file_system: FileSystem
    base: str

    def __str__(self) -> str:
        return self.file_system.locate(self.base)

    def locate(self, path: str) -> str:
        """The path or URI by which users know a file in it."""
        return f"{self}/{path}" if path else str(self)

    def for_committing(self, folder: str) -> OutputTree:
        """The tree as a committer uses it.

        Args:
            folder: where it may try what it relies on.

        Raises:
            CheckpointStorageError: when files cannot be published exclusively here.
        """
        return replace(self, file_system=self.file_system.for_publishing(self._path(folder)))

    # --- staging -----------------------------------------------------------------------------------------------------

    def stage(self, folder: str, name: str) -> StagedFile:
        """A new file.

        Args:
            folder: where it will be; it is made.
            name: what it may be called there while it is written; nobody else has that name.
        """
        self.file_system.make_folder(self._path(folder))
        return self.file_system.stage(f"{self._path(folder)}/{name}")

    def keep(self, file: StagedFile, path: str) -> None:
        """Have a finished file durably be there under a path; that may want :meth:`make_durable` as well."""
        file.keep(self._path(path))

    def make_publishing_folder(self, folder: str) -> None:
        """Make a publishing folder; one that exists is left alone."""
        if self.file_system.is_flat:
            self.file_system.put(self._path(f"{folder}/{_MARK}"), [])
        else:
            self.file_system.make_folder(self._path(folder))

    def has_publishing_folder(self, folder: str) -> bool:
        """Tell whether a publishing folder is there, and not fenced."""
        sign = f"{folder}/{_MARK}" if self.file_system.is_flat else folder
        return self.file_system.stat(self._path(sign)) is not None

    def folder_names(self, folder: str) -> list[str]:
        """The names of all folders in a folder; none when there is no such folder."""
        with contextlib.suppress(FileNotFoundError):
            entries = self.file_system.list_folder(self._path(folder))
            return sorted(entry.name for entry in entries if entry.kind is EntryKind.FOLDER)
        return []

    def write_for_publishing(self, folder: str, name: str, blocks: Iterable[bytes]) -> None:
        """Write a durable new file in a publishing folder.

        Raises:
            FileNotFoundError: when the folder is fenced.
        """
        path = f"{folder}/{name}"
        self.file_system.write_new(self._path(path), blocks)
        if self.file_system.is_flat and not self.has_publishing_folder(folder):
            self.remove(path)
            raise FileNotFoundError(errno.ENOENT, "it has been taken away", self.locate(folder))

    def fence(self, folder: str, other: str) -> None:
        """Fence a publishing folder, so that its committer publishes nothing any more; its files may be left.

        Args:
            folder: when it is gone already, nothing happens.
            other: what it may be called from now on.
        """
        if self.file_system.is_flat:
            self.remove(f"{folder}/{_MARK}")
            self.clear_publishing_folder(folder)
        else:
            with contextlib.suppress(FileNotFoundError):  # another one that starts has just done it
                self.file_system.publish(self._path(folder), self._path(other))

    def clear_publishing_folder(self, folder: str) -> None:
        """Remove what was written for publishing, and the folder unless there is something else in it."""
        with contextlib.suppress(FileNotFoundError):  # another one that starts has just done it
            for entry in self.file_system.list_folder(self._path(folder)):
                if _PUT_TOGETHER.fullmatch(entry.name) or (self.file_system.is_flat and entry.name == _MARK):
                    self.remove(f"{folder}/{entry.name}")
            self.file_system.remove_folder(self._path(folder))

    # --- files -------------------------------------------------------------------------------------------------------

    def publish(self, source: str, target: str) -> bool:
        """Give a file another path, once; it loses the one that it had.

        Returns:
            False when something has that name already, as far as can be told: somebody else, or a try before this, may
            have been faster. The file keeps its name then.

        Raises:
            FileNotFoundError: when it is not there (any more); ``filename`` says where.
        """
        self.file_system.make_folder(self._path(target).rpartition("/")[0])
        return self.file_system.publish(self._path(source), self._path(target))

    def size(self, path: str) -> int | None:
        """How many bytes a file has; None when there is none."""
        found = self.file_system.stat(self._path(path))
        return None if found is None else found.size

    def blocks(self, path: str) -> Iterator[bytes]:
        """A file's content.

        Raises:
            FileNotFoundError: when there is none.
        """
        return self.file_system.blocks(self._path(path))

    def remove(self, path: str) -> bool:
        """Remove a file; whether there may have been one. A folder that has its name is left alone."""
        return self.file_system.remove(self._path(path))

    def make_durable(self, paths: Iterable[str]) -> None:
        """Return when the names of files will outlast a power failure."""
        self.file_system.make_durable(map(self._path, paths))

    def confirm(self, found: Sequence[str]) -> None:
        """Return when files that have their names will keep them, although no call has answered that it gave these.

        Args:
            found: the files; :meth:`make_durable` was called for them.

        Raises:
            OSError: when that cannot be told, or one is gone.
        """
        if not found:
            return
        self.file_system.settle(self._path(found[0]).rpartition("/")[0])
        for path in found:  # the server that has answered may be another one than that which published them
            if self.size(path) is None:
                raise OSError(errno.EIO, "it was there, and is gone before that was certain", self.locate(path))

    def files(self, folder: str, without: str | None = None) -> Iterator[str]:
        """All files below a folder.

        Args:
            folder: the folder, which need not exist.
            without: how the names of folders begin that are passed over.
        """
        found = self.file_system.walk(self._path(folder), lambda name: without is None or not name.startswith(without))
        return (path[len(self.base) + 1 :] for path, _ in found)

    def remove_empty_folders(self, folder: str) -> None:
        """Remove folders below a folder that are empty, and like which there is one in the tree itself; then itself.

        Those like which there is none may be somebody else's.
        """
        if self.file_system.is_flat:
            return
        root = self._path(folder)
        for path in self.file_system.folders(root):
            like = self.file_system.stat(self._path(path[len(root) + 1 :]))
            if like is not None and like.kind is EntryKind.FOLDER:
                self.file_system.remove_folder(path)
        self.file_system.remove_folder(root)

    def _path(self, path: str) -> str:
        return f"{self.base}/{path}" if path else self.base
