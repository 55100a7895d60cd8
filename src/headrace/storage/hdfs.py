"""HDFS: the connection of this process to a name service, and the file system.

A file gets its name by a rename. The name node renames in one step, and refuses a name that is taken unless the request
replaces it. That is what ``link`` is on POSIX. The client has no Java in it, so tasks have it as well as the driver.
"""

from __future__ import annotations

import contextlib
import errno
import io
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from headrace.common.durable import Permissions
from headrace.common.errors import CheckpointStorageError
from headrace.storage.file_system import Entry, EntryKind
from headrace.storage.remote import PIECE, FetchedStream, RemoteFileSystem, gathered, is_panic
from headrace.storage.settings import FAMILY, KEYTAB, NAME_NODES, PRINCIPAL, TICKET_CACHE, umask_of

if TYPE_CHECKING:
    from typing_extensions import Buffer


Settings = tuple[tuple[str, str], ...]

DEADLINE_SECONDS: Final = 60.0
"""The time limit of a request. The client itself waits without end for a name node that does not answer."""

MOST_GIVEN_UP: Final = 64
"""The most requests that were given up and wait for their answers: each keeps a thread and connections."""

_MOMENT_SECONDS: Final = 0.05

_RPC_ERROR: Final = re.compile(r'(?:Fatal)?RPCError\("(?:[a-z]+\.)*([A-Za-z$]+)", "(.*?)(?:\\n\\tat |"\)$)', re.DOTALL)
"""The class of Java's exception, and what it says, without its stack."""

_ERRNO: Final = {
    "AccessControlException": errno.EACCES,
    "DSQuotaExceededException": errno.EDQUOT,
    "NSQuotaExceededException": errno.EDQUOT,
    "ParentNotDirectoryException": errno.ENOTDIR,
    "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
}
_ERRNO_OF_KINDS: Final[tuple[tuple[type[OSError], int], ...]] = (
    (FileNotFoundError, errno.ENOENT),
    (FileExistsError, errno.EEXIST),
    (ConnectionResetError, errno.ECONNRESET),
    (BrokenPipeError, errno.EPIPE),
    (ConnectionAbortedError, errno.ECONNABORTED),
)
_NEVER: Final = ("InvalidPathException", "UnsupportedOperationException")
_NEVER_OF_CLIENT: Final = ("InvalidArgument", "InvalidPath", "UrlParseError", "UnsupportedFeature")
"""The errors that another attempt would meet again."""

_CLIENT_ERROR: Final = re.compile(r'[A-Za-z]+\("(.*)"\)')
"""A class of the client's own errors, and what it says."""

_LOST_BLOCK: Final = "All DataNodes failed"
_DATA_NODE: Final = re.compile(r'host_name: "([^"]*)".*?xfer_port: ([0-9]+)')
_LONGEST_TEXT: Final = 300

_DISCONNECTED: Final = "disconnected"
"""The client's errors, besides those of the system, when a connection has broken."""


class Connection:
    """A client of a name service that does not wait for ever.

    Each request has a thread of its own, since the client has no time limit. The thread of a request that
    is given up stays until an answer comes, or the system reports that the connection is gone; it keeps no process from
    ending. When many of them wait, no others are made before one is over.

    Args:
        authority: the URI of the name service.
        settings: how to reach it.

    Raises:
        CheckpointStorageError: when the library is missing, or a setting is wrong.
    """

    def __init__(self, authority: str, settings: Settings) -> None:
        self._authority = authority
        self._settings = dict(settings)
        self._lock = threading.Lock()
        self._given_up: list[Future[Any]] = []
        self._client = _new_client(authority, self._settings)

    def ask(self, where: str, request: Callable[[Any], Any]) -> Any:
        """The answer to a request that may be sent twice: once more, a moment later, when the connection breaks.

        At once would be too early: the client might send it on the connection whose end it is still about to learn.

        Args:
            where: what it is about.
            request: makes it, with the client, and waits for the answer.

        Raises:
            CheckpointStorageError: when it would go wrong again.
            OSError: for whatever may pass. It may have been done all the same, or be done later.
        """
        try:
            return self.ask_once(where, request)
        except ConnectionError:
            time.sleep(_MOMENT_SECONDS)
            return self.ask_once(where, request)

    def ask_once(self, where: str, request: Callable[[Any], Any]) -> Any:
        """The answer to a request that is sent once; arguments and errors as with :meth:`ask`."""
        self._refuse_more(where)
        client = self._client
        answer: Future[Any] = Future()
        threading.Thread(target=_answer, args=(request, client, answer), name="headrace-hdfs", daemon=True).start()
        if not wait([answer], DEADLINE_SECONDS).done:
            self._give_up(answer, client)
            raise OSError(errno.ETIMEDOUT, f"no answer within {DEADLINE_SECONDS:.0f} s", where)
        with translated(where):
            return answer.result()

    def _refuse_more(self, where: str) -> None:
        with self._lock:
            self._given_up = [answer for answer in self._given_up if not answer.done()]
            waiting = len(self._given_up)
        if waiting >= MOST_GIVEN_UP:
            raise OSError(
                errno.EAGAIN,
                f"{waiting} requests to {self._authority} were given up and still wait, each with a thread and "
                "connections, so no other is sent: its nodes accept connections, but do not answer. It goes on when "
                "they answer or the connections end; or start the job again",
                where,
            )

    def _give_up(self, answer: Future[Any], client: object) -> None:
        """Begin anew, with the next name node first."""
        with self._lock:
            self._given_up.append(answer)
            if client is not self._client:
                return
            for key, value in self._settings.items():
                if key.startswith(NAME_NODES):
                    first, _, rest = value.partition(",")
                    self._settings[key] = f"{rest},{first}" if rest else first
            self._client = _new_client(self._authority, self._settings)


@lru_cache(maxsize=8)
def connection(authority: str, settings: Settings) -> Connection:
    """This process's connection to a name service; arguments and errors as with :class:`Connection`."""
    return Connection(authority, settings)


def _answer(request: Callable[[Any], object], client: object, answer: Future[Any]) -> None:
    try:
        answer.set_result(request(client))
    except BaseException as error:
        answer.set_exception(error)


def _new_client(authority: str, settings: dict[str, str]) -> Any:
    try:
        from hdfs_native import Client
    except ImportError as error:
        raise CheckpointStorageError(
            f"{authority}: HDFS needs a library that is not installed: pip install 'headrace[hdfs]', on executors too"
        ) from error
    config = {key: value for key, value in settings.items() if not key.startswith(FAMILY)}
    is_named = bool(authority.partition("://")[2])
    try:
        client = Client(
            authority if is_named else None,  # the one of fs.defaultFS
            config,
            kerberos_principal=settings.get(PRINCIPAL),
            kerberos_keytab=settings.get(KEYTAB),
            kerberos_cache=settings.get(TICKET_CACHE),
        )
        # What is around it closes files when they are forgotten, which is a request that waits without end.
        return client.inner
    except Exception as error:  # it has no class of its own for what is wrong with a setting
        raise CheckpointStorageError(f"{authority} cannot be reached with these settings: {_text_of(error)}") from error


@contextlib.contextmanager
def translated(where: str) -> Iterator[None]:
    """Has errors of the client be those of the system.

    Args:
        where: what it was about.
    """
    try:
        yield
    except OSError as error:
        raise OSError(_errno_of(error), _text_of(error), where) from error
    except RuntimeError as error:
        raise _of_rpc(error, where) from error
    except UnicodeEncodeError as error:
        raise CheckpointStorageError(f"{where!r}: HDFS's names are text, which this is not") from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise OSError(errno.EIO, f"the client of HDFS has broken down ({_text_of(error)})", where) from error


def _errno_of(error: OSError) -> int:
    """The number of an error to which the client gives none."""
    if _DISCONNECTED in str(error):
        return errno.ECONNRESET
    if error.errno is not None:
        return error.errno
    return next((code for kind, code in _ERRNO_OF_KINDS if isinstance(error, kind)), errno.EIO)


def _of_rpc(error: RuntimeError, where: str) -> OSError:
    """Translate an error of the name node, or one of the client about its arguments."""
    said = _RPC_ERROR.match(str(error))
    if said is None:
        if str(error).startswith(_NEVER_OF_CLIENT):
            return CheckpointStorageError(f"{where}: {_text_of(error)}")
        return OSError(errno.EIO, _text_of(error), where)
    kind, text = said[1], said[2].replace('\\"', '"')
    if kind in _NEVER:
        return CheckpointStorageError(f"{where}: {kind}: {text}")
    return OSError(_ERRNO.get(kind, errno.EIO), f"{kind}: {text}", where)


def _text_of(error: BaseException) -> str:
    """Shorten an error's message, without Java's stack."""
    text = str(error).partition("\n")[0]
    if _LOST_BLOCK in text:  # all that is known of the nodes follows
        nodes = ", ".join(":".join(found) for found in _DATA_NODE.findall(text))
        return f"no data node gives a block of it (asked were {nodes})" if nodes else "no data node has a block of it"
    wrapped = _CLIENT_ERROR.fullmatch(text)
    text = wrapped[1] if wrapped else text
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} …"


_BLOCK_BYTES: Final = 4 << 20
"""The bytes that are sent and fetched at once."""

_ALL: Final = 2**62

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
        return self.read_range(path, 0, _ALL)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self._range(path, self._opened(path), start, length)

    def open(self, path: str) -> io.RawIOBase:
        opened = self._opened(path)
        return FetchedStream(self.locate(path), opened.file_length(), partial(self._range, path, opened))

    def blocks(self, path: str) -> Iterator[bytes]:
        opened = self._opened(path)
        return self._pieces(path, opened, 0, opened.file_length())

    def _opened(self, path: str) -> Any:
        """The client's reader of a file, which has what the file had when it was opened.

        Raises:
            IsADirectoryError: when it is a folder.
        """
        try:
            return self._ask(path, lambda client: client.read(path))
        except FileNotFoundError as error:
            if self._is_folder(path):
                raise IsADirectoryError(errno.EISDIR, "it is a folder", self.locate(path)) from error
            raise

    def _range(self, path: str, opened: Any, start: int, length: int) -> bytes:
        """A part of a file, fewer bytes where it ends before."""
        return b"".join(self._pieces(path, opened, start, min(start + length, opened.file_length())))

    def _pieces(self, path: str, opened: Any, start: int, stop: int) -> Iterator[bytes]:
        # Each request has a deadline, which the whole of a large file would miss.
        return (self._piece(path, opened, at, min(_BLOCK_BYTES, stop - at)) for at in range(start, stop, _BLOCK_BYTES))

    def _piece(self, path: str, opened: Any, start: int, wanted: int) -> bytes:
        content = bytes(self._ask(path, lambda _: opened.read_range(start, wanted)))
        if len(content) != wanted:
            what = f"{wanted} bytes from {start} on were asked for, and {len(content)} have come"
            raise OSError(errno.EIO, what, self.locate(path))
        return content

    def _beginning(self, path: str) -> tuple[int, bytes]:
        opened = self._opened(path)
        return opened.file_length(), self._range(path, opened, 0, PIECE)

    def _stream(self, path: str, start: int, stop: int) -> Iterator[bytes]:
        opened = self._opened(path)
        size = opened.file_length()
        if stop > size:
            raise OSError(errno.EIO, f"{stop} bytes were expected, and it has {size}", self.locate(path))
        yield from self._pieces(path, opened, start, stop)

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
        content, written = gathered(chunks)
        self.replace(self.write_beside(path, written, permissions, durable=durable), path)
        self._is_written(path, content)

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

        def append(block: memoryview) -> None:
            self._ask_once(path, lambda _: writer.write(block))

        for chunk in chunks:
            view = memoryview(chunk).cast("B")
            for at in range(0, len(view), _BLOCK_BYTES):
                append(view[at : at + _BLOCK_BYTES])
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
            FileExistsError: when the name is taken; by another process for certain, since the source is still there.
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
        # with it. So it gets a request for a change, and answers: the folder gets the modification time that it has.
        found = self._ask(folder, lambda client: client.get_file_info(folder or "/"))
        self._ask(folder, lambda client: client.set_times(folder or "/", found.modification_time, _AS_IT_IS))

    def remove(self, path: str) -> bool:
        self._is_obsolete(path)
        found = self.stat(path)
        return found is not None and found.kind is not EntryKind.FOLDER and self._delete(path)

    def remove_folder(self, folder: str) -> None:
        try:
            self._delete(folder)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise

    def _delete(self, path: str) -> bool:
        return bool(self._ask(path, lambda client: client.delete(path, False)))

    def _ask(self, path: str, request: Callable[[Any], object]) -> Any:
        return self.connect().ask(self.locate(path), request)

    def _ask_once(self, path: str, request: Callable[[Any], object]) -> Any:
        return self.connect().ask_once(self.locate(path), request)


def _entry(found: Any) -> Entry:
    kind = EntryKind.FOLDER if found.isdir else EntryKind.FILE
    mtime_ns = found.modification_time * _NANOS_PER_MILLI
    return Entry(found.path.rpartition("/")[2], kind, found.length, mtime_ns, found.permission & 0o7777)
