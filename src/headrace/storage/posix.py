"""Folders of a POSIX file system: a local disk, NFS, a mounted volume."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from headrace.common.durable import (
    AppendedFile,
    Permissions,
    create_exclusively,
    make_folder,
    remove,
    size_of,
    target_of_temporary,
    write_file,
)
from headrace.storage.folder import Folder, Log, MappedFile, checked_name
from headrace.storage.segments import Segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True)
class PosixFolder(Folder):
    """A folder that driver and executors see under the same path.

    Attributes:
        path: the folder.
        permissions: who may read and write what is made in it.
    """

    path: Path
    permissions: Permissions = Permissions.OWNER

    def __str__(self) -> str:
        return str(self.path)

    def folder(self, name: str) -> PosixFolder:
        return PosixFolder(self.path / checked_name(name), self.permissions)

    def make(self) -> None:
        make_folder(self.path, self.permissions)

    def open_to_others(self) -> str | None:
        # A folder that was there before keeps its mode, and who may write to it may put what he likes in our places.
        meant = self.permissions.of_folders
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if meant is None or not mode & ~meant & 0o022:
            return None
        return f"its mode is {mode:o}: chmod {meant:o}"

    def create(self, name: str, content: bytes) -> bool:
        return create_exclusively(self._file(name), content, self.permissions)

    def write(self, name: str, chunks: Iterable[Buffer], *, durable: bool = True) -> None:
        write_file(self._file(name), chunks, self.permissions, durable=durable)

    def read(self, name: str) -> bytes:
        with self._open(name) as file:
            return file.read()

    def read_range(self, name: str, start: int, length: int) -> bytes:
        with self._open(name) as file:
            file.seek(start)
            return file.read(length)

    def map(self, name: str) -> MappedFile:
        path = self._file(name)
        info = path.stat()
        _check_regular(path, info)
        if not info.st_size:
            return MappedFile(pa.py_buffer(b""))
        with pa.memory_map(os.fsencode(path), "r") as file:  # a name need not be UTF-8
            return MappedFile(file.read_buffer())

    def size(self, name: str) -> int | None:
        return size_of(self._file(name))

    def names(self) -> list[str]:
        return sorted(name for name in os.listdir(self.path) if target_of_temporary(name) is None)

    def remove(self, name: str) -> bool:
        return remove(self._file(name))

    def remove_unfinished(self, is_over: Callable[[str], bool]) -> list[str]:
        targets = ((name, target_of_temporary(name)) for name in sorted(os.listdir(self.path)))
        over = [name for name, target in targets if target is not None and is_over(target)]
        return [name for name in over if remove(self.path / name)]

    def remove_empty_folders(self) -> None:
        for path, _, _ in os.walk(self.path, topdown=False):
            with contextlib.suppress(OSError):  # there is something in it
                os.rmdir(path)

    def start_log(self, name: str) -> Log:
        return _PosixLog(AppendedFile(self._file(name), self.permissions))

    def read_log(self, name: str, length: int) -> bytes:
        if self._file(name).is_dir():  # copied here from an object store
            segments = Segments(self.folder(name))
            if segments.names:
                return segments.read(length)
        return self.read_range(name, 0, length)

    def remove_log(self, name: str) -> bool:
        if not self._file(name).is_dir():
            return self.remove(name)
        segments = Segments(self.folder(name))
        segments.remove()
        if segments.names:
            with contextlib.suppress(OSError):  # there is something of others in it
                self._file(name).rmdir()
        return bool(segments.names)

    def _file(self, name: str) -> Path:
        return self.path / checked_name(name)

    @contextlib.contextmanager
    def _open(self, name: str) -> Iterator[BinaryIO]:
        path = f"{self.path}/{checked_name(name)}"  # a Path takes as long to make as a small file to read
        # A pipe would be waited for, until somebody writes to it.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            _check_regular(path, os.fstat(file.fileno()))
            yield file


def _check_regular(path: Path | str, info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is no file", str(path))


class _PosixLog(Log):
    def __init__(self, file: AppendedFile) -> None:
        self._file = file
        self.name = file.path.name
        self.size = 0

    def append(self, data: bytes) -> None:
        self._file.append(data)
        self.size = self._file.size

    def make_durable(self) -> None:
        self._file.make_durable()

    def close(self) -> None:
        self._file.close()
