"""POSIX file systems: a local disk, NFS, a mounted volume. What is durable there, ``headrace.common.durable`` knows."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Final, cast

import pyarrow as pa

from headrace.common.durable import (
    AppendedFile,
    Permissions,
    append,
    create_exclusively,
    make_folder,
    move,
    remove,
    sync_folders,
    write_file,
)
from headrace.storage.file_system import ContentDigest, Entry, FileSystem, Kind, Log, MappedFile, StagedFile
from headrace.storage.folder import Folder

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Iterator

    from typing_extensions import Buffer

_BUFFER_BYTES: Final = 1 << 20


def posix_folder(path: Path, permissions: Permissions = Permissions.OWNER) -> Folder:
    """A folder that driver and executors see under the same path.

    Args:
        path: the folder.
        permissions: who may read and write what is made in it.
    """
    return Folder(PosixFileSystem(), str(path).rstrip("/"), permissions)


@dataclass(frozen=True, slots=True)
class PosixFileSystem(FileSystem):
    """The files that driver and executors see under the same path."""

    root: str = ""
    can_append: ClassVar[bool] = True
    chmod: ClassVar[str] = "chmod"

    def stat(self, path: str) -> Entry | None:
        try:
            info = os.stat(path or "/")
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno == errno.ELOOP:
                return None  # ELOOP: a link that leads round in a circle
            raise
        name, mode = path.rpartition("/")[2], info.st_mode
        kind = Kind.FILE if stat.S_ISREG(mode) else Kind.FOLDER if stat.S_ISDIR(mode) else Kind.OTHER
        return Entry(name, kind, info.st_size, info.st_mtime_ns, stat.S_IMODE(mode))

    def list_folder(self, folder: str) -> list[Entry]:
        with os.scandir(folder or "/") as entries:
            return [Entry(entry.name, _kind_of(entry)) for entry in entries]

    def names(self, folder: str) -> list[str]:
        return os.listdir(folder or "/")

    def resolve(self, folder: str) -> str:
        return os.path.realpath(folder or "/")

    def read(self, path: str) -> bytes:
        with _opened(path) as file:
            return file.read()

    def read_range(self, path: str, start: int, length: int) -> bytes:
        with _opened(path) as file:
            file.seek(start)
            return file.read(length)

    def map(self, path: str) -> MappedFile:
        info = os.stat(path)
        _check_regular(path, info)
        if not info.st_size:
            return MappedFile(pa.py_buffer(b""))
        with pa.memory_map(os.fsencode(path), "r") as file:  # a name need not be UTF-8
            return MappedFile(file.read_buffer())

    def open(self, path: str) -> io.RawIOBase:
        return Path(path).open("rb", buffering=0)

    def open_for_arrow(self, path: str) -> pa.NativeFile:
        # Not mapped into memory: if the file were cut short meanwhile, touching it would kill the process. The path as
        # bytes, for a name may hold bytes that are no text.
        return pa.OSFile(os.fsencode(path))

    def blocks(self, path: str) -> Iterator[bytes]:
        with Path(path).open("rb") as file:
            while block := file.read(_BUFFER_BYTES):
                yield block

    def make_folder(self, folder: str, permissions: Permissions = Permissions.UMASK) -> None:
        make_folder(Path(folder or "/"), permissions)

    def create(self, path: str, content: bytes, permissions: Permissions = Permissions.UMASK) -> bool:
        return create_exclusively(Path(path), content, permissions)

    def put(
        self, path: str, chunks: Iterable[Buffer], permissions: Permissions = Permissions.UMASK, *, durable: bool = True
    ) -> None:
        write_file(Path(path), chunks, permissions, durable=durable)

    def write_new(self, path: str, blocks: Iterable[bytes]) -> None:
        file = AppendedFile(Path(path))
        try:
            for block in blocks:
                file.append(block)
            file.make_durable()
        except BaseException:
            file.path.unlink(missing_ok=True)
            raise
        finally:
            file.close()

    def stage(self, path: str) -> StagedFile:
        return _ReopenedFile(Path(path))

    def start_log(self, path: str, permissions: Permissions) -> Log:
        return _PosixLog(AppendedFile(Path(path), permissions))

    def publish(self, source: str, target: str) -> bool:
        move(Path(source), Path(target))
        return True

    def make_durable(self, paths: Iterable[str]) -> None:
        sync_folders(Path(path).parent for path in paths)

    def remove(self, path: str) -> bool:
        return remove(Path(path))

    def remove_folder(self, folder: str) -> None:
        with contextlib.suppress(OSError):  # there is something in it
            os.rmdir(folder)


def _kind_of(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return Kind.LINK
    return Kind.FOLDER if entry.is_dir() else Kind.FILE


@contextlib.contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    # A pipe would be waited for, until somebody writes to it.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        _check_regular(path, os.fstat(file.fileno()))
        yield file


def _check_regular(path: str, info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is no file", path)


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


class _ReopenedFile(StagedFile):
    """Appends to a file.

    The file is open only while something is written to it, so that a sink with very many buckets does not need as
    many open files.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = 0
        self._buffer = bytearray()
        self._is_discarded = False

    def write(self, data: object, /) -> int:
        view = memoryview(cast("bytes", data))
        if not self._is_discarded:
            self._buffer += view
        if len(self._buffer) >= _BUFFER_BYTES:
            self._spill()
        return view.nbytes

    def tell(self) -> int:
        return self._written + len(self._buffer)

    def finish(self) -> tuple[int, str]:
        self._spill(durable=True)
        digest, size = ContentDigest(), 0
        with self._path.open("rb") as file:  # as it is on the disk
            while block := file.read(_BUFFER_BYTES):
                digest.update(block)
                size += len(block)
        return size, digest.text()

    def keep(self, path: str) -> None:
        move(self._path, Path(path))

    def discard(self) -> None:
        self._is_discarded = True
        self._buffer = bytearray()
        self._path.unlink(missing_ok=True)

    def _spill(self, *, durable: bool = False) -> None:
        append(self._path, self._buffer, self._written, durable=durable)
        self._written += len(self._buffer)
        self._buffer = bytearray()
