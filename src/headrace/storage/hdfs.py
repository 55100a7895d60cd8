"""HDFS: settings, the connection of this process to a name service, and the file system.

A file gets its name by a rename. The name node renames in one step, and refuses a name that is taken unless it is asked
to replace it. That is what ``link`` is on POSIX. The client has no Java in it, so tasks have it as well as the driver.
Settings come from Hadoop's own files on the driver's machine, and from the job's.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import io
import os
import re
import threading
import time
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

from headrace.common.configuration import is_hadoop_key
from headrace.common.durable import Permissions
from headrace.common.errors import CheckpointStorageError
from headrace.storage.file_system import Entry, EntryKind
from headrace.storage.remote import PIECE, FetchedStream, PassingChunks, RemoteFileSystem, is_panic, shown_option

if TYPE_CHECKING:
    from typing_extensions import Buffer


Settings = tuple[tuple[str, str], ...]

FAMILY: Final = "hdfs_"
"""How options begin that are for HDFS alone and are none of Hadoop's."""

PRINCIPAL: Final = "hdfs_kerberos_principal"
KEYTAB: Final = "hdfs_kerberos_keytab"
TICKET_CACHE: Final = "hdfs_kerberos_cache"
_CONF_DIR: Final = "hdfs_conf_dir"

_NAMES: Final = frozenset({PRINCIPAL, KEYTAB, TICKET_CACHE, _CONF_DIR})

_DEFAULTS: Final = {"dfs.client.failover.max.attempts": "4", "dfs.client.socket-timeout": "30000"}
"""A name node that refuses connections is asked for some 20 s; then the epoch fails, and begins again. The other one is
how long a data node may take to answer a reader, who asks the next one then, well before the request is given up."""

NAME_NODES: Final = "dfs.ha.namenodes."
"""How the key begins that names the name nodes of a name service."""

_ADDRESS: Final = "dfs.namenode.rpc-address."
_DEFAULT_FS: Final = "fs.defaultFS"
_UMASK: Final = "fs.permissions.umask-mode"

_USED: Final = (
    "dfs.client.",
    "dfs.data.transfer.protection",
    NAME_NODES,
    "dfs.namenode.rpc-address",
    "dfs.nameservices",
    _DEFAULT_FS,
    _UMASK,
    "fs.viewfs.mounttable.",
    "hadoop.security.authentication",
    "hadoop.security.key.provider.path",
)
"""What of Hadoop's files says how a cluster is reached; so only this goes to tasks, where the files may be missing."""

DEADLINE_SECONDS: Final = 60.0
"""How long one request may take. The client itself waits without end for a name node that does not answer."""

MOST_GIVEN_UP: Final = 64
"""How many requests that were given up may wait for their answers: each keeps a thread and connections."""

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
"""What would go wrong again."""

_CLIENT_ERROR: Final = re.compile(r'[A-Za-z]+\("(.*)"\)')
"""A class of the client's own errors, and what it says."""

_LOST_BLOCK: Final = "All DataNodes failed"
_DATA_NODE: Final = re.compile(r'host_name: "([^"]*)".*?xfer_port: ([0-9]+)')
_LONGEST_TEXT: Final = 300

_DISCONNECTED: Final = "disconnected"
"""What the client says, besides errors of the system, when a connection has broken."""


def is_of_hdfs(key: str) -> bool:
    """Tell whether an option is for HDFS alone."""
    return key.startswith(FAMILY) or is_hadoop_key(key)


def complete_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The settings of a client: Hadoop's by their own names, and the options of the family.

    Args:
        options: all options of storages; those for others are left out.

    Raises:
        CheckpointStorageError: when an option is unknown, or Hadoop's files cannot be read.
    """
    own = {key: value for key, value in options.items() if key.startswith(FAMILY)}
    for key in own.keys() - _NAMES:
        close = difflib.get_close_matches(key, _NAMES, n=2, cutoff=0.5)
        known = " or ".join(map(shown_option, close or sorted(_NAMES)))
        raise CheckpointStorageError(f"{shown_option(key)} is not an option of HDFS: did you mean {known}?")
    folder = own.pop(_CONF_DIR, None)
    settings = _DEFAULTS | _site_settings(folder) | {k: v for k, v in options.items() if is_hadoop_key(k)} | own
    return {
        key: ",".join(map(str.strip, value.split(","))) if key.startswith(NAME_NODES) else value
        for key, value in settings.items()
    }


def check_settings(authority: str, settings: Mapping[str, str]) -> None:
    """See to it that settings say what the client has to know.

    Args:
        authority: the URI of the name service; that of ``fs.defaultFS`` when it has no name in it.
        settings: as :func:`complete_settings` gives them.

    Raises:
        CheckpointStorageError: saying what is missing, and where it is set.
    """
    umask_of(settings)
    if KEYTAB in settings and PRINCIPAL not in settings:
        raise CheckpointStorageError(
            f"{shown_option(KEYTAB)} needs {shown_option(PRINCIPAL)}, which says whose keytab it is"
        )
    name = urlsplit(authority).netloc
    if not name:
        default = settings.get(_DEFAULT_FS)
        if default is None:
            raise CheckpointStorageError(
                f"hdfs:/// is the file system of {_DEFAULT_FS}, and that is not set: {_where_to_set(_DEFAULT_FS)}; or "
                "write it into the URI, as hdfs://<name service or host:port>/<folder>"
            )
        if default.startswith("viewfs:"):
            return
        name = urlsplit(default).netloc
        if not default.startswith("hdfs:") or not name:
            raise CheckpointStorageError(
                f"{_DEFAULT_FS} is {default!r}, which is not on HDFS: write hdfs://<name service or host:port>/<folder>"
            )
    if ":" not in name:
        _check_name_service(name, settings)


def _check_name_service(name: str, settings: Mapping[str, str]) -> None:
    known = sorted(key.removeprefix(NAME_NODES) for key in settings if key.startswith(NAME_NODES))
    if name not in known:
        key = f"{NAME_NODES}{name}"
        others = f" (known are {', '.join(known)})" if known else ""
        raise CheckpointStorageError(
            f"hdfs://{name}: there is no name service {name!r}{others}, as {key} is not set: {_where_to_set(key)}, "
            f"with {_ADDRESS}{name}.<name node> for each. A name node by itself is given with its port: hdfs://{name}:8020"
        )
    keys = [f"{_ADDRESS}{name}.{node}" for node in settings[f"{NAME_NODES}{name}"].split(",")]
    if not any(key in settings for key in keys):
        raise CheckpointStorageError(
            f"hdfs://{name}: where its name nodes are is not said: {_where_to_set(' and '.join(keys))}"
        )
    for key in keys:
        if key in settings and not re.search(":[0-9]+$", settings[key]):
            raise CheckpointStorageError(f"{key} is {settings[key]!r}: it needs a port, 8020 as a rule")


def _where_to_set(key: str) -> str:
    place = _usual_folder()
    looked = f"{place} (HADOOP_CONF_DIR)" if place else "HADOOP_CONF_DIR (which is not set)"
    return (
        f"set {key} in the files of {looked} or of {shown_option(_CONF_DIR)}, or in the job, as headrace.storage.{key}"
    )


def umask_of(settings: Mapping[str, str]) -> int:
    """The umask of files that are made for all.

    Raises:
        CheckpointStorageError: when it is no umask.
    """
    text = settings.get(_UMASK, "022").strip()
    if re.fullmatch("[01]?[0-7]{3}", text):
        return int(text, 8)
    allowed = 0
    for clause in text.split(","):
        found = re.fullmatch(r"\s*([ugoa]+)=([rwx]*)\s*", clause)
        if found is None:
            raise CheckpointStorageError(f"{_UMASK} is {text!r}: expected 022, or u=rwx,g=rx,o=rx, say")
        bits = sum({"r": 4, "w": 2, "x": 1}[letter] for letter in set(found[2]))
        for who in set(found[1].replace("a", "ugo")):
            allowed |= bits << {"u": 6, "g": 3, "o": 0}[who]
    return ~allowed & 0o777


def _site_settings(folder: str | None) -> dict[str, str]:
    """Read the settings in Hadoop's files."""
    found: dict[str, str] = {}
    place = folder or _usual_folder()
    for name in ("core-site.xml", "hdfs-site.xml") if place else ():
        path = Path(str(place), name)
        try:
            properties = ET.parse(path).getroot().iter("property")
        except FileNotFoundError as error:
            if folder is not None and name == "core-site.xml":
                raise CheckpointStorageError(f"{shown_option(_CONF_DIR)}: there is no {path}") from error
            continue
        except (OSError, ET.ParseError) as error:
            raise CheckpointStorageError(f"Hadoop's settings cannot be read: {path}: {error}") from error
        pairs = ((item.findtext("name") or "", item.findtext("value") or "") for item in properties)
        found |= {key.strip(): value.strip() for key, value in pairs if key.strip().startswith(_USED)}
    return found


def _usual_folder() -> str | None:
    home = os.environ.get("HADOOP_HOME")
    return os.environ.get("HADOOP_CONF_DIR") or (f"{home}/etc/hadoop" if home else None)


class Connection:
    """A client of a name service that does not wait for ever.

    Each request has a thread of its own, since the client cannot be told when to give up. The thread of a request that
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

    def _give_up(self, answer: Future[Any], client: Any) -> None:
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


def _answer(request: Callable[[Any], Any], client: Any, answer: Future[Any]) -> None:
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
        raise CheckpointStorageError(f"{authority} cannot be reached with these settings: {_told(error)}") from error


@contextlib.contextmanager
def translated(where: str) -> Iterator[None]:
    """Has errors of the client be those of the system.

    Args:
        where: what it was about.
    """
    try:
        yield
    except OSError as error:
        raise OSError(_errno_of(error), _told(error), where) from error
    except RuntimeError as error:
        raise _of_rpc(error, where) from error
    except UnicodeEncodeError as error:
        raise CheckpointStorageError(f"{where!r}: HDFS's names are text, which this is not") from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise OSError(errno.EIO, f"the client of HDFS has broken down ({_told(error)})", where) from error


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
            return CheckpointStorageError(f"{where}: {_told(error)}")
        return OSError(errno.EIO, _told(error), where)
    kind, text = said[1], said[2].replace('\\"', '"')
    if kind in _NEVER:
        return CheckpointStorageError(f"{where}: {kind}: {text}")
    return OSError(_ERRNO.get(kind, errno.EIO), f"{kind}: {text}", where)


def _told(error: BaseException) -> str:
    """Shorten an error's message, without Java's stack."""
    text = str(error).partition("\n")[0]
    if _LOST_BLOCK in text:  # all that is known of the nodes follows
        nodes = ", ".join(":".join(found) for found in _DATA_NODE.findall(text))
        return f"no data node gives a block of it (asked were {nodes})" if nodes else "no data node has a block of it"
    wrapped = _CLIENT_ERROR.fullmatch(text)
    text = wrapped[1] if wrapped else text
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} …"


_BLOCK_BYTES: Final = 4 << 20
"""How much is sent and fetched at once."""

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
        return found is not None and found.kind is not EntryKind.FOLDER and self._delete(path)

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


def _entry(found: Any) -> Entry:
    kind = EntryKind.FOLDER if found.isdir else EntryKind.FILE
    mtime_ns = found.modification_time * _NANOS_PER_MILLI
    return Entry(found.path.rpartition("/")[2], kind, found.length, mtime_ns, found.permission & 0o7777)
