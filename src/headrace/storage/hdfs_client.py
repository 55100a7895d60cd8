"""HDFS as the rest of the storage needs it: the few operations of a name service.

The name node renames in one step, and without asking to replace it refuses a name that is taken. That is what ``link``
is on POSIX. The client has no Java in it, so tasks have it as well as the driver.
"""

from __future__ import annotations

import contextlib
import errno
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headrace.storage.hdfs_connection import connection
from headrace.storage.hdfs_settings import umask_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Buffer

    from headrace.storage.hdfs_connection import Connection, Settings

_BLOCK_BYTES: Final = 4 << 20
"""How much is sent and fetched at once."""

_AS_IT_IS: Final = 2**64 - 1
"""The access time that changes none; clusters that keep none refuse any other one."""


@dataclass(frozen=True, slots=True)
class HdfsStatus:
    """What the name node says of a name.

    Attributes:
        name: the last part of the path.
        size: bytes; 0 of a folder.
        is_folder: whether it is one.
        mode: who may read and write it.
        modified: in milliseconds since the epoch.
    """

    name: str
    size: int
    is_folder: bool
    mode: int
    modified: int


@dataclass(frozen=True, slots=True)
class Hdfs:
    """One name service; picklable. Paths begin with a slash.

    All methods raise ``OSError`` for what may pass, ``FileNotFoundError`` and ``PermissionError`` among it, and
    ``CheckpointStorageError`` for what would go wrong again.

    Attributes:
        authority: the URI without a path.
        settings: how to reach it; not shown, since there may be secrets among them.
    """

    authority: str
    settings: Settings = field(default=(), repr=False)

    def locate(self, path: str) -> str:
        """The URI of a path."""
        return f"{self.authority}{path}"

    def connect(self) -> Connection:
        """The connection of this process."""
        return connection(self.authority, self.settings)

    def status(self, path: str) -> HdfsStatus | None:
        """What has a name; None when nothing has."""
        try:
            return _status(self._ask(path, lambda client: client.get_file_info(path)))
        except FileNotFoundError:
            return None

    def listing(self, folder: str) -> list[HdfsStatus]:
        """What is in a folder; nothing where it is none."""
        try:
            found = self._ask(folder, lambda client: list(client.list_status(folder, False)))
        except FileNotFoundError:
            return []
        return [_status(entry) for entry in found if entry.path != folder]  # a file is all that is below itself

    def make_folder(self, path: str, mode: int | None = None) -> None:
        """Make a folder and those above it; one that exists is left alone.

        Args:
            path: the folder.
            mode: who may read and write it; None for whoever the umask of the settings lets.
        """
        given = 0o777 & ~self._umask if mode is None else mode
        self._ask(path, lambda client: client.mkdirs(path, given, True))

    def open(self, path: str) -> HdfsReader:
        """A file, to be read.

        Raises:
            IsADirectoryError: when it is a folder.
        """
        try:
            return HdfsReader(self, path, self._ask(path, lambda client: client.read(path)))
        except FileNotFoundError as error:
            found = self.status(path)
            if found is not None and found.is_folder:
                raise IsADirectoryError(errno.EISDIR, "it is a folder", self.locate(path)) from error
            raise

    def write(self, path: str, chunks: Iterable[Buffer], mode: int | None = None, *, durable: bool = True) -> None:
        """Write a file, which others see grow; its folder is there, or that is an error. Modes as of folders."""
        from hdfs_native import WriteOptions

        given = 0o666 & ~self._umask if mode is None else mode
        options = WriteOptions(overwrite=True, permission=given, create_parent=False)
        writer = self._ask(path, lambda client: client.create(path, options))
        for chunk in chunks:
            view = memoryview(chunk).cast("B")
            for at in range(0, len(view), _BLOCK_BYTES):
                block = view[at : at + _BLOCK_BYTES]
                self._ask_once(path, lambda _, block=block: writer.write(block))  # type: ignore[misc]
        if durable:
            self._ask_once(path, lambda _: writer.hsync())
        self._ask_once(path, lambda _: writer.close())

    def write_beside(
        self, path: str, chunks: Iterable[Buffer], mode: int | None = None, *, durable: bool = True
    ) -> str:
        """Write a file under a temporary name in the same folder; gives its path."""
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
        try:
            self.write(temporary, chunks, mode, durable=durable)
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise
        return temporary

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
            raise self.in_doubt(target) from error

    def settle(self, folder: str) -> None:
        """Return when all that the name node did before will outlast it.

        What it did can be seen at once, but is in its journal only when it answers, and all before that with it. So it
        is asked for a change, and answers: the folder gets the modification time that it has.

        Raises:
            FileNotFoundError: when there is no such folder.
        """
        found = _status(self._ask(folder, lambda client: client.get_file_info(folder)))
        self._ask(folder, lambda client: client.set_times(folder, found.modified, _AS_IT_IS))

    def in_doubt(self, path: str) -> OSError:
        """What to raise when a file may have got a name, or not."""
        where = self.locate(path)
        return OSError(errno.EIO, "what was to get this name is gone: it has it, or somebody has removed it", where)

    def remove(self, path: str) -> bool:
        """Remove a file; whether there was one. A folder of that name is left alone."""
        found = self.status(path)
        return found is not None and not found.is_folder and self._delete(path)

    def remove_empty(self, folder: str) -> None:
        """Remove a folder, unless there is something in it."""
        try:
            self._delete(folder)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise

    @property
    def _umask(self) -> int:
        return umask_of(dict(self.settings))

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

    def __init__(self, hdfs: Hdfs, path: str, inner: Any) -> None:
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


def _status(found: Any) -> HdfsStatus:
    name = found.path.rpartition("/")[2]
    return HdfsStatus(name, found.length, found.isdir, found.permission & 0o7777, found.modification_time)
