"""Folders of checkpoints on any storage, with the few operations that exactness rests on.

A checkpoint knows names, not paths. A file is there wholly or not at all.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.common.durable import Permissions, target_of_temporary
from headrace.common.errors import CheckpointError
from headrace.storage.file_system import EntryKind, FileSystem, MappedFile, PosixFileSystem

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(unsafe_hash=True)
class Folder:
    """A folder of named files, and of further folders; picklable, so that tasks can open it.

    The permissions of what is in it belong to the folder, and pass on to the folders in it. ``str()`` gives what
    users call it.

    Attributes:
        file_system: the storage that it is on.
        path: where it is there.
        permissions: those of what is made in it.
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
        """Return how to keep out users that should not be able to write here; None if there are none."""
        # A folder that was there before keeps its mode, and its writers may put anything in place of ours.
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
            OSError: when that is not known, or the file cannot be written.
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
        """The size of a file in bytes; None if it does not exist."""
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
            is_over: whether no process can still be writing the file of that name.

        Returns:
            The names of the removed files.
        """
        if self.file_system.is_flat:
            return []
        targets = ((name, target_of_temporary(name)) for name in sorted(self.file_system.names(self.path)))
        over = [name for name, target in targets if target is not None and is_over(target)]
        return [name for name in over if self.file_system.remove(f"{self.path}/{name}")]

    def remove_empty_folders(self) -> None:
        """Remove the folders in it, and itself, as far as they are empty; nothing where folders are but names."""
        if self.file_system.is_flat:
            return
        for folder in [*self.file_system.folders(self.path), self.path]:
            self.file_system.remove_folder(folder)

    def _file(self, name: str) -> str:
        return f"{self.path}/{checked_name(name)}"


def posix_folder(path: Path, permissions: Permissions = Permissions.OWNER) -> Folder:
    """A folder that driver and executors see under the same path.

    Args:
        path: the folder.
        permissions: those of what is made in it.
    """
    return Folder(PosixFileSystem(), str(path).rstrip("/"), permissions)


def checked_name(name: str) -> str:
    """A name, if it can be that of a file in a folder.

    Raises:
        CheckpointError: when it would lead elsewhere.
    """
    if name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise CheckpointError(f"{name!r} cannot be the name of a file in a checkpoint directory")
    return name


def folder_name(uid: str) -> str:
    """The name of an operator's folder: readable, and another one for every uid, whatever is in it."""
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", uid)[:60]
    return f"{readable}-{hashlib.blake2b(uid.encode(), digest_size=8).hexdigest()}"


def source_folder(storage: Folder, uid: str) -> Folder:
    """The folder of a checkpoint directory that belongs to one source; made when it is needed."""
    return storage.folder("sources").folder(folder_name(uid))


def sink_folder(storage: Folder, uid: str) -> Folder:
    """The folder of a checkpoint directory that belongs to one sink; made when it is needed."""
    return storage.folder("sinks").folder(folder_name(uid))
