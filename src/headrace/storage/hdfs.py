"""HDFS: a file gets its name by a rename, which fails when the name is taken.

The name node renames in one step, and without asking to replace it refuses a name that is taken. That is what ``link``
is on POSIX. The client has no Java in it, so tasks have it as well as the driver.
"""

from __future__ import annotations

import contextlib
import errno
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from headrace.common.durable import Permissions
from headrace.storage.file_system import Entry, Kind
from headrace.storage.hdfs_connection import Settings, connection, umask_of
from headrace.storage.remote import PIECE, FetchedStream, PassingChunks, RemoteFileSystem

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Buffer

    from headrace.storage.hdfs_connection import Connection

_BLOCK_BYTES: Final = 4 << 20
"""How much is sent and fetched at once."""

_AS_IT_IS: Final = 2**64 - 1
"""The access time that changes none; clusters that keep none refuse any other one."""

_NANOS_PER_MILLI: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class HdfsFileSystem(RemoteFileSystem):
    """One name service.

    Attributes:
        root: its URI without a path.
        settings: how to reach it; not shown, since there may be secrets among them.
    """

    root: str
    settings: Settings = field(default=(), repr=False)
    chmod: ClassVar[str] = "hdfs dfs -chmod"

    def connect(self) -> Connection:
        """The connection of this process."""
        return connection(self.root, self.settings)

    # --- looking -----------------------------------------------------------------------------------------------------

    def stat(self, path: str) -> Entry | None:
        try:
            return _entry(self._ask(path, lambda client: client.get_file_info(path or "/")))
        except FileNotFoundError:
            return None

    def list_folder(self, folder: str) -> list[Entry]:
        try:
            found = self._ask(folder, lambda client: list(client.list_status(folder or "/", False)))
        except FileNotFoundError:
            return []
        return [_entry(entry) for entry in found if entry.path != folder]  # a file is all that is below itself

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        reader = self.reader(path)
        return reader.range(0, reader.size)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self.reader(path).range(start, length)

    def open(self, path: str) -> io.RawIOBase:
        reader = self.reader(path)
        return FetchedStream(self.locate(path), reader.size, reader.range)

    def blocks(self, path: str) -> Iterator[bytes]:
        reader = self.reader(path)
        yield from reader.stream(0, reader.size)

    def reader(self, path: str) -> HdfsReader:
        """A file, to be read.

        Raises:
            IsADirectoryError: when it is a folder.
        """
        try:
            return HdfsReader(self, path, self._ask(path, lambda client: client.read(path)))
        except FileNotFoundError as error:
            if self._is_folder(path):
                raise IsADirectoryError(errno.EISDIR, "it is a folder", self.locate(path)) from error
            raise

    def _beginning(self, path: str) -> tuple[int, bytes]:
        reader = self.reader(path)
        return reader.size, reader.range(0, PIECE)

    def _stream(self, path: str, start: int, stop: int) -> Iterator[bytes]:
        yield from self.reader(path).stream(start, stop)

    # --- writing -----------------------------------------------------------------------------------------------------

    def make_folder(self, folder: str, permissions: Permissions = Permissions.UMASK) -> None:
        mode = self._mode(permissions.of_folders, 0o777)
        self._ask(folder, lambda client: client.mkdirs(folder or "/", mode, True))

    def create(self, path: str, content: bytes, permissions: Permissions = Permissions.UMASK) -> bool:
        temporary = self.write_beside(path, [content], permissions)
        try:
            self.rename(temporary, path)
        except FileExistsError:
            self.remove(temporary)
            return False
        except FileNotFoundError as error:
            raise self._in_doubt(path) from error
        return True

    def put(
        self, path: str, chunks: Iterable[Buffer], permissions: Permissions = Permissions.UMASK, *, durable: bool = True
    ) -> None:
        self._is_obsolete(path)
        passing = PassingChunks(chunks)
        self.replace(self.write_beside(path, passing, permissions, durable=durable), path)
        self._is_written(path, passing.content)

    def write_new(self, path: str, blocks: Iterable[bytes]) -> None:
        try:
            self._write(path, blocks)
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(path)
            raise

    def write_beside(
        self, path: str, chunks: Iterable[Buffer], permissions: Permissions = Permissions.UMASK, *, durable: bool = True
    ) -> str:
        """Write a file under a temporary name in the same folder; gives its path."""
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
        try:
            self._write(temporary, chunks, permissions, durable=durable)
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise
        return temporary

    def _send(self, staged: str, path: str, content: io.BufferedIOBase, size: int) -> None:
        self._write(staged, iter(lambda: content.read(_BLOCK_BYTES), b""))
        self.replace(staged, path)

    def _write(
        self, path: str, chunks: Iterable[Buffer], permissions: Permissions = Permissions.UMASK, *, durable: bool = True
    ) -> None:
        """Write a file, which others see grow; its folder is there, or that is an error."""
        from hdfs_native import WriteOptions

        mode = self._mode(permissions.of_files, 0o666)
        options = WriteOptions(overwrite=True, permission=mode, create_parent=False)
        writer = self._ask(path, lambda client: client.create(path, options))
        for chunk in chunks:
            view = memoryview(chunk).cast("B")
            for at in range(0, len(view), _BLOCK_BYTES):
                block = view[at : at + _BLOCK_BYTES]
                self._ask_once(path, lambda _, block=block: writer.write(block))  # type: ignore[misc]
        if durable:
            self._ask_once(path, lambda _: writer.hsync())
        self._ask_once(path, lambda _: writer.close())

    def _mode(self, meant: int | None, everything: int) -> int:
        return everything & ~umask_of(dict(self.settings)) if meant is None else meant

    # --- names -------------------------------------------------------------------------------------------------------

    def publish(self, source: str, target: str) -> bool:
        # A rename that was answered is durable.
        try:
            self.rename(source, target)
        except FileExistsError:
            return False
        return True

    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another name, in one step.

        Raises:
            FileExistsError: when the name is taken; by somebody else for certain, since the source is still there.
            FileNotFoundError: when there is no source (any more): a try before this one may have been done whose answer
                was lost. Or when the target's folder is missing.
        """
        self._ask(source, lambda client: client.rename(source, target, False))

    def replace(self, source: str, target: str) -> None:
        """The same, in the place of a file that may have the name.

        Raises:
            OSError: also when it may have been done, but its answer was lost.
        """
        try:
            self._ask(source, lambda client: client.rename(source, target, True))
        except FileNotFoundError as error:
            raise self._in_doubt(target) from error

    def _in_doubt(self, path: str) -> OSError:
        """The error to raise when a file may have got a name, or not."""
        where = self.locate(path)
        return OSError(errno.EIO, "what was to get this name is gone: it has it, or somebody has removed it", where)

    def settle(self, folder: str) -> None:
        # What the name node did can be seen at once, but is in its journal only when it answers, and all before that
        # with it. So it is asked for a change, and answers: the folder gets the modification time that it has.
        found = self._ask(folder, lambda client: client.get_file_info(folder or "/"))
        self._ask(folder, lambda client: client.set_times(folder or "/", found.modification_time, _AS_IT_IS))

    def remove(self, path: str) -> bool:
        self._is_obsolete(path)
        found = self.stat(path)
        return found is not None and found.kind is not Kind.FOLDER and self._delete(path)

    def remove_folder(self, folder: str) -> None:
        try:
            self._delete(folder)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise

    def _delete(self, path: str) -> bool:
        return bool(self._ask(path, lambda client: client.delete(path, False)))

    def _ask(self, path: str, request: Callable[[Any], Any]) -> Any:
        return self.connect().ask(self.locate(path), request)

    def _ask_once(self, path: str, request: Callable[[Any], Any]) -> Any:
        return self.connect().ask_once(self.locate(path), request)


class HdfsReader:
    """A file as it was when it was opened.

    Attributes:
        size: how many bytes it has.
    """

    def __init__(self, hdfs: HdfsFileSystem, path: str, inner: Any) -> None:
        self.size = inner.file_length()
        self._hdfs = hdfs
        self._path = path
        self._inner = inner

    def range(self, start: int, length: int) -> bytes:
        """A part of it, fewer bytes where it ends before.

        Raises:
            OSError: when it cannot be read, or not all of it comes.
        """
        stop = min(start + length, self.size)
        # In pieces, since each request has a deadline
        return b"".join(self._piece(at, min(_BLOCK_BYTES, stop - at)) for at in range(start, stop, _BLOCK_BYTES))

    def _piece(self, start: int, wanted: int) -> bytes:
        where = self._hdfs.locate(self._path)
        content = bytes(self._hdfs.connect().ask(where, lambda _: self._inner.read_range(start, wanted)))
        if len(content) != wanted:
            what = f"{wanted} bytes from {start} on were asked for, and {len(content)} have come"
            raise OSError(errno.EIO, what, where)
        return content

    def stream(self, start: int, stop: int) -> Iterator[bytes]:
        """A part of it as it comes in.

        Raises:
            OSError: when it cannot be read, or ends before.
        """
        if stop > self.size:
            raise OSError(
                errno.EIO, f"{stop} bytes were expected, and it has {self.size}", self._hdfs.locate(self._path)
            )
        for at in range(start, stop, _BLOCK_BYTES):
            yield self._piece(at, min(_BLOCK_BYTES, stop - at))


def _entry(found: Any) -> Entry:
    kind = Kind.FOLDER if found.isdir else Kind.FILE
    mtime_ns = found.modification_time * _NANOS_PER_MILLI
    return Entry(found.path.rpartition("/")[2], kind, found.length, mtime_ns, found.permission & 0o7777)
