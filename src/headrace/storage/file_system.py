"""One protocol for every kind of storage, and POSIX file systems: a local disk, NFS, a mounted volume.

Exactly-once rests on few operations, which each storage does in its own way: to create a file exclusively, to write one
that is there whole or not at all, and to give it another name once. A :class:`FileSystem` does these. What is built on
them is written once: :class:`~headrace.storage.folder.Folder` for checkpoints,
:class:`~headrace.storage.files.FileStore` for input, and what sinks of files publish.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import hashlib
import io
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, NamedTuple, cast

import pyarrow as pa

from headrace.common.durable import (
    Permissions,
    append,
    create_exclusively,
    make_folder,
    move,
    remove,
    sync_folder,
    write_file,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer


class EntryKind(enum.Enum):
    """The kind of an entry. A listing does not follow links; ``stat`` does, and knows pipes and the like."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


class Entry(NamedTuple):
    """A file or folder as the storage describes it.

    Attributes:
        name: the last part of its path.
        kind: what it is.
        size: bytes; None where a listing does not tell it.
        mtime_ns: when it was modified, in nanoseconds since the epoch. Of an object only the seconds are that; the rest
            is a digest of its version, so that a change within the second is seen.
        mode: the permissions, as POSIX has them; 0 where there are none.
    """

    name: str
    kind: EntryKind
    size: int | None = None
    mtime_ns: int = 0
    mode: int = 0


@dataclass(eq=False)
class MappedFile:
    """The bytes of a file that never changes.

    Attributes:
        buffer: as long as the file; only what was fetched may be read.
        is_surplus: whether it should be closed when it can be done without, to make room for others.
        is_damaged: whether a checksum was wrong. It is not handed out again: the file may be put back as it was.
    """

    buffer: pa.Buffer
    is_surplus: bool = False
    is_damaged: bool = False

    def fetch(self, start: int, stop: int) -> None:
        """See to it that these bytes can be read; all can at once, unless a class says otherwise.

        Raises:
            FileNotFoundError: when the file is needed for that and has been removed.
            OSError: when it cannot be read.
        """


def new_digest() -> Any:
    """Begin the digest by which names know content: 64 bits of SHA-256, which processors compute themselves."""
    return hashlib.sha256(usedforsecurity=False)


def digest_text(digest: Any) -> str:
    """A digest as names have it."""
    text: str = digest.hexdigest()[:16]
    return text


class StagedFile(io.RawIOBase):
    """A file that is written to its end; it is not visible before it is kept."""

    def writable(self) -> bool:
        return True

    @abstractmethod
    def finish(self) -> tuple[int, str]:
        """End the file; gives its size and the digest of its content."""

    @abstractmethod
    def keep(self, path: str) -> None:
        """Give it a path; its content is durable then, its name after :meth:`FileSystem.make_durable`."""

    @abstractmethod
    def discard(self) -> None:
        """Remove it. Writers of formats may still want to end it when they are collected; that is dropped."""


class TakenOutput(io.RawIOBase):
    """A file that can only be appended to, of which what was written is taken away."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        block = bytes(data)
        self._blocks.append(block)
        self._size += len(block)
        return len(block)

    def tell(self) -> int:
        return self._size

    def take(self) -> bytes:
        """The bytes written since the last call."""
        blocks, self._blocks = self._blocks, []
        return b"".join(blocks)


class FileSystem(ABC):
    """A storage with files, which paths name; picklable and hashable.

    A path begins with a slash and has none at its end; the root is the empty path. An operation that fails with an
    ``OSError`` may succeed when it is tried again; it may also have been done all the same. What would fail again
    raises a ``CheckpointStorageError``.

    Attributes:
        root: what comes before a path in a URI; empty on POSIX.
        is_flat: whether folders are but the beginnings of names, which need no making and cannot be renamed.
        chmod: the user's command that changes permissions; empty where files have none.
    """

    root: str
    is_flat: ClassVar[bool] = False
    chmod: ClassVar[str] = ""

    def locate(self, path: str) -> str:
        """The path or URI by which users know a file."""
        return f"{self.root}{path}" or "/"

    # --- looking -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def stat(self, path: str) -> Entry | None:
        """Describe what has a path; None when nothing has. Links are followed."""

    @abstractmethod
    def list_folder(self, folder: str) -> list[Entry]:
        """All that is in a folder, in any order.

        Raises:
            FileNotFoundError: when there is no such folder; where that is not known, the list is empty.
        """

    def names(self, folder: str) -> list[str]:
        """The names of all that is in a folder; as :meth:`list_folder`."""
        return [entry.name for entry in self.list_folder(folder)]

    def walk(self, folder: str, enter: Callable[[str], bool] | None = None) -> Iterator[tuple[str, Entry]]:
        """The paths of all files below a folder, with what listings tell of them.

        A folder that is missing or may not be looked into (``lost+found``, say) hides nothing of the job's. Links to
        folders are not followed.

        Args:
            folder: the folder.
            enter: returns whether a folder of a name is looked into; all are when left out.
        """
        try:
            entries = self.list_folder(folder)
        except (FileNotFoundError, PermissionError):
            return
        for entry in entries:
            path = f"{folder}/{entry.name}"
            if entry.kind is EntryKind.FOLDER:
                if enter is None or enter(entry.name):
                    yield from self.walk(path, enter)
            elif entry.kind is not EntryKind.LINK or not self._leads_to_folder(path):
                yield path, entry

    def _leads_to_folder(self, link: str) -> bool:
        try:
            return self._is_folder(link)
        except OSError:  # it may not be followed
            return False

    def folders(self, folder: str) -> Iterator[str]:
        """The paths of all folders below a folder, those that are deeper first."""
        try:
            entries = self.list_folder(folder)
        except FileNotFoundError:
            return
        for entry in entries:
            if entry.kind is EntryKind.FOLDER:
                path = f"{folder}/{entry.name}"
                yield from self.folders(path)
                yield path

    def _is_folder(self, path: str) -> bool:
        found = self.stat(path)
        return found is not None and found.kind is EntryKind.FOLDER

    def resolve(self, folder: str) -> str:
        """The path of a folder to which links may lead."""
        return folder

    # --- reading: FileNotFoundError when there is no file, IsADirectoryError when something else is in its place ------

    @abstractmethod
    def read(self, path: str) -> bytes:
        """The whole content of a file."""

    @abstractmethod
    def read_range(self, path: str, start: int, length: int) -> bytes:
        """A part of a file, fewer bytes where it ends before."""

    @abstractmethod
    def map(self, path: str) -> MappedFile:
        """The bytes of a file that never changes, in memory only as far as they are touched.

        What was fetched stays readable when the file is removed.
        """

    @abstractmethod
    def open(self, path: str) -> io.RawIOBase:
        """The bytes of a file, from anywhere in it."""

    @abstractmethod
    def open_for_arrow(self, path: str) -> pa.NativeFile:
        """The same for Arrow."""

    @abstractmethod
    def blocks(self, path: str) -> Iterator[bytes]:
        """The content of a file in blocks of some MiB."""

    # --- writing: an OSError when not all of it could be written -----------------------------------------------------

    @abstractmethod
    def make_folder(self, folder: str, permissions: Permissions = Permissions.UMASK) -> None:
        """Make a folder and those above it, durably; what exists is left alone."""

    @abstractmethod
    def create(self, path: str, content: bytes, permissions: Permissions = Permissions.UMASK) -> bool:
        """Create a durable file with its whole content in one step, unless it exists.

        Returns:
            Whether this call created it: of two processes exactly one does.

        Raises:
            OSError: when that is not known, or the file cannot be written.
        """

    @abstractmethod
    def put(
        self, path: str, chunks: Iterable[Buffer], permissions: Permissions = Permissions.UMASK, *, durable: bool = True
    ) -> None:
        """Write a file that is there wholly or not at all; one that exists is replaced.

        Args:
            path: the file.
            chunks: its content.
            permissions: its readers and writers.
            durable: whether it is certain to outlast a power failure when this returns.
        """

    @abstractmethod
    def write_new(self, path: str, blocks: Iterable[bytes]) -> None:
        """Write a durable file under a path that no other process has or reads.

        Raises:
            FileNotFoundError: when its folder is gone, where folders are more than names.
        """

    @abstractmethod
    def stage(self, path: str) -> StagedFile:
        """Begin a file that is not visible yet.

        Args:
            path: where it may be while it is written; the folder exists, and no other process has that path.
        """

    # --- names -------------------------------------------------------------------------------------------------------

    def for_publishing(self, folder: str) -> FileSystem:
        """The file system as :meth:`publish` needs it.

        Args:
            folder: where it may try that.

        Raises:
            CheckpointStorageError: when it cannot publish exclusively.
        """
        return self

    @abstractmethod
    def publish(self, source: str, target: str) -> bool:
        """Give a file, or a folder unless the storage is flat, another path in one step; it loses the one that it had.

        Returns:
            False when something has that path already, as far as is known: another process, or an earlier attempt, may
            have been faster. The file keeps its path then.

        Raises:
            FileNotFoundError: when it is not there (any more); ``filename`` says where.
        """

    def make_durable(self, paths: Iterable[str]) -> None:
        """Return when paths that :meth:`publish` and :meth:`StagedFile.keep` gave will outlast a power failure."""

    def settle(self, folder: str) -> None:
        """Return when what can be seen in a folder will outlast a failure of the storage.

        Raises:
            OSError: when that is not known.
        """

    @abstractmethod
    def remove(self, path: str) -> bool:
        """Remove a file; whether there may have been one. A folder that has its path is left alone."""

    def remove_all(self, paths: Sequence[str]) -> None:
        """Remove files, in few requests where the storage can."""
        for path in paths:
            self.remove(path)

    def remove_folder(self, folder: str) -> None:
        """Remove a folder, unless there is something in it."""


_BUFFER_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class PosixFileSystem(FileSystem):
    """The files that driver and executors see under the same path."""

    root: str = ""
    chmod: ClassVar[str] = "chmod"

    def stat(self, path: str) -> Entry | None:
        try:
            info = os.stat(path or "/")
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno == errno.ELOOP:
                return None  # ELOOP: a link that leads round in a circle
            raise
        name, mode = path.rpartition("/")[2], info.st_mode
        kind = EntryKind.FILE if stat.S_ISREG(mode) else EntryKind.FOLDER if stat.S_ISDIR(mode) else EntryKind.OTHER
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
        write_file(Path(path), blocks)

    def stage(self, path: str) -> StagedFile:
        return _ReopenedFile(Path(path))

    def publish(self, source: str, target: str) -> bool:
        move(Path(source), Path(target))
        return True

    def make_durable(self, paths: Iterable[str]) -> None:
        for folder in sorted(set(map(os.path.dirname, paths))):
            sync_folder(Path(folder))

    def remove(self, path: str) -> bool:
        return remove(Path(path))

    def remove_folder(self, folder: str) -> None:
        with contextlib.suppress(OSError):  # there is something in it
            os.rmdir(folder)


def _kind_of(entry: os.DirEntry[str]) -> EntryKind:
    if entry.is_symlink():
        return EntryKind.LINK
    return EntryKind.FOLDER if entry.is_dir() else EntryKind.FILE


@contextlib.contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    # A pipe would be waited for, until it is written to.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        _check_regular(path, os.fstat(file.fileno()))
        yield file


def _check_regular(path: str, info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is no file", path)


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
        digest, size = new_digest(), 0
        with self._path.open("rb") as file:  # as it is on the disk
            while block := file.read(_BUFFER_BYTES):
                digest.update(block)
                size += len(block)
        return size, digest_text(digest)

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
