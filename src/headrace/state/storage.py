"""Where state files live: a flat set of named, immutable files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from headrace.common.durable import Permissions, make_folder, remove, write_file
from headrace.common.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterable

    Chunks = Iterable["bytes | pa.Buffer"]


class StateStorage(Protocol):
    """A place for state files. A name stands for the same bytes for ever, so writing it again is harmless."""

    def write(self, name: str, chunks: Chunks) -> None:
        """Stores a file; it is there wholly or not at all, and durable when this returns."""

    def map(self, name: str) -> pa.Buffer:
        """The bytes of a file, mapped into memory rather than read, where that is possible.

        Raises:
            FileNotFoundError: when there is no such file.
        """

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""

    def delete(self, name: str) -> None:
        """Removes a file; nothing happens when there is none. What is mapped already stays readable."""

    def list(self) -> list[str]:
        """The names of all files, sorted."""


class DirectoryStorage:
    """State files in a directory of a file system, which is created when it is missing.

    Args:
        path: the directory.
        permissions: who may read and write what is in it.
    """

    def __init__(self, path: str | os.PathLike[str], permissions: Permissions = Permissions.OWNER) -> None:
        self.path = Path(path)
        self._permissions = permissions
        self._made = False

    def write(self, name: str, chunks: Chunks) -> None:
        """Stores a file through a temporary one, which is flushed to disk and renamed."""
        target = self._file(name)
        if not self._made:
            make_folder(self.path, self._permissions)
            self._made = True
        write_file(target, chunks, self._permissions)

    def map(self, name: str) -> pa.Buffer:
        """The bytes of a file, mapped into memory."""
        path = self._file(name)
        if not path.stat().st_size:
            return pa.py_buffer(b"")
        if path.is_dir():
            raise FileNotFoundError(name)
        with pa.memory_map(str(path), "r") as file:
            return file.read_buffer()

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return self._file(name).exists()

    def delete(self, name: str) -> None:
        """Removes a file, if there is one."""
        remove(self._file(name))

    def list(self) -> list[str]:
        """The names of all files, sorted; what a writer has not finished is left out."""
        if not self.path.is_dir():
            return []
        return sorted(entry.name for entry in os.scandir(self.path) if not entry.name.startswith("."))

    def _file(self, name: str) -> Path:
        if not name or name.startswith(".") or "/" in name or "\\" in name:
            raise StateError(f"{name!r} cannot be the name of a state file")
        return self.path / name


class MemoryStorage:
    """State files in the memory of this process: for tests and for jobs that need no recovery."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def write(self, name: str, chunks: Chunks) -> None:
        """Stores a file."""
        self.files[name] = b"".join(memoryview(chunk) for chunk in chunks)

    def map(self, name: str) -> pa.Buffer:
        """The bytes of a file."""
        try:
            return pa.py_buffer(self.files[name])
        except KeyError:
            raise FileNotFoundError(name) from None

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return name in self.files

    def delete(self, name: str) -> None:
        """Removes a file, if there is one."""
        self.files.pop(name, None)

    def list(self) -> list[str]:
        """The names of all files, sorted."""
        return sorted(self.files)
