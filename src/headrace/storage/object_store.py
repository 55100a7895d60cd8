"""Object stores: S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage.

A folder is a prefix of keys. What POSIX does with ``link`` is a conditional put here; a put is whole and durable when
it returns, and a listing shows every put that was answered. What POSIX does with ``rename`` is a copy that replaces
nothing: one step of the store, which fails when what is copied is not there any more.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import uuid
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final

from headrace.common.durable import Permissions
from headrace.common.errors import CheckpointStorageError
from headrace.storage.file_system import Entry, Kind
from headrace.storage.object_client import NO_BUCKET, Options, client, translated
from headrace.storage.remote import PIECE, FetchedStream, RemoteFileSystem

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Buffer

_TRIES: Final = 2
"""How often a file is tried to be created whose put was sent, but not answered: the store's client cannot tell one that
was done from another's, so it does not try again itself."""

_IN_DOUBT: Final = (errno.EIO, errno.EAGAIN)

_MARK: Final = "writer"
"""The attribute of an object that says which call has created it."""

_SINGLE_PUT_BYTES: Final = 16 << 20
"""What is larger is sent in several parts, without a copy of the whole."""

_BLOCK_BYTES: Final = 4 << 20
_NANOS: Final = 1_000_000_000

_COPY_OPTION: Final = "copy_if_not_exists"
_WAYS_OF_COPYING: Final = ("header: if-none-match: *", "multipart")
"""How S3 is asked to replace nothing: by a header of the copy, which not all that speak like S3 heed; or when the parts
that were copied are put together, which is not one step any more, but hardly less."""


@dataclass(frozen=True, slots=True)
class ObjectStore(RemoteFileSystem):
    """A bucket or container; who may read and write it is its own affair, and cannot be seen from here.

    Attributes:
        root: the URL of the bucket.
        options: how to reach it; not shown, since there are secrets among them.
    """

    root: str
    options: Options = field(default=(), repr=False)
    is_flat: ClassVar[bool] = True

    # --- looking -----------------------------------------------------------------------------------------------------

    def stat(self, path: str) -> Entry | None:
        import obstore

        if not path:
            return None
        try:
            with translated(self.locate(path)):
                return _entry(obstore.head(self._client(), _key(path)))
        except FileNotFoundError:
            return None

    def list_folder(self, folder: str) -> list[Entry]:
        files, folders = self._below(folder)
        # Tools put an object in the place of a folder, too: so as to have an empty one.
        found = [_entry(file) for file in files if file["path"] != _key(folder)]
        return found + [Entry(key.rstrip("/").rpartition("/")[2], Kind.FOLDER) for key in folders]

    def _below(self, folder: str) -> tuple[Sequence[Mapping[str, Any]], Sequence[str]]:
        """The objects of a folder, also what stands for itself, and the prefixes of the folders in it."""
        import obstore

        with translated(self.locate(folder)):
            found = obstore.list_with_delimiter(self._client(), _key(folder) or None)
        return found["objects"], found["common_prefixes"]

    def walk(self, folder: str, enter: Callable[[str], bool]) -> Iterator[tuple[str, Entry]]:
        import obstore

        key = _key(folder)
        start = len(key) + 1 if key else 0
        with translated(self.locate(folder)):
            for entries in obstore.list(self._client(), key or None):
                for entry in entries:
                    if all(map(enter, entry["path"][start:].split("/")[:-1])):
                        yield f"/{entry['path']}", _entry(entry)

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        import obstore

        with self._reading(path):
            return bytes(obstore.get(self._client(), _key(path)).bytes())

    def read_range(self, path: str, start: int, length: int) -> bytes:
        import obstore

        if not length:
            return b""
        try:
            with self._reading(path):
                return bytes(obstore.get_range(self._client(), _key(path), start=start, length=length))
        except (FileNotFoundError, IsADirectoryError):
            raise
        except OSError:  # that a range begins behind the end is an error like any other
            found = self.stat(path)
            if found is None or start < (found.size or 0):
                raise
            return b""

    def open(self, path: str) -> io.RawIOBase:
        found = self.stat(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "no such object", self.locate(path))
        return FetchedStream(self.locate(path), found.size or 0, partial(self.read_range, path))

    def blocks(self, path: str) -> Iterator[bytes]:
        import obstore

        with translated(self.locate(path)):
            for block in obstore.get(self._client(), _key(path)).stream(_BLOCK_BYTES):
                yield bytes(block)

    def _beginning(self, path: str) -> tuple[int, bytes]:
        import obstore

        try:
            with self._reading(path):
                found = obstore.get(self._client(), _key(path), options={"range": (0, PIECE)})
                return int(found.meta["size"]), bytes(found.bytes())
        except (FileNotFoundError, IsADirectoryError):
            raise
        except OSError:  # an empty file has no first piece
            empty = self.stat(path)
            if empty is not None and empty.size == 0:
                return 0, b""
            raise

    def _stream(self, path: str, start: int, stop: int) -> Iterator[Buffer]:
        import obstore

        at = start
        with self._reading(path):
            for chunk in obstore.get(self._client(), _key(path), options={"range": (start, stop)}).stream():
                at += len(chunk)
                if at > stop:
                    break
                yield chunk
        if at != stop:
            where = self.locate(path)
            raise OSError(errno.EIO, f"bytes {start} to {stop} were asked for, and {at - start} have come", where)

    @contextlib.contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        where = self.locate(path)
        try:
            with translated(where):
                yield
        except FileNotFoundError as error:
            if any(self._below(path)):
                raise IsADirectoryError(errno.EISDIR, "there are objects below it, as in a folder", where) from error
            raise

    # --- writing -----------------------------------------------------------------------------------------------------

    def make_folder(self, folder: str, permissions: Permissions = Permissions.UMASK) -> None:
        """A prefix needs no making."""

    def create(self, path: str, content: bytes, permissions: Permissions = Permissions.UMASK) -> bool:
        # A put may have been done although its answer was an error, or none; sent again, it would find itself. So who
        # has created the file is told by a mark, not by the answer.
        mark = uuid.uuid4().hex
        for attempt in range(1, _TRIES + 1):
            try:
                return self._create(path, content, mark)
            except OSError as error:
                if attempt == _TRIES or error.errno not in _IN_DOUBT:
                    raise
        raise AssertionError("the last try returns or raises")

    def _create(self, path: str, content: bytes, mark: str) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        more: dict[str, Any] = {"mode": "create", "use_multipart": False, "attributes": {_MARK: mark}}
        with translated(self.locate(path), NO_BUCKET):
            try:
                obstore.put(self._client(), _key(path), content, **more)
            except AlreadyExistsError:
                return self._mark_of(path) == mark
        return True

    def _mark_of(self, path: str) -> str | None:
        import obstore

        try:
            found = obstore.get(self._client(), _key(path), options={"head": True})
        except FileNotFoundError as error:
            # A conflict with another request on the same key, or somebody has removed it since.
            where = self.locate(path)
            raise OSError(errno.EAGAIN, "the store reports a conflict, but nothing has the name", where) from error
        attributes: dict[str, str] = found.attributes
        return attributes.get(_MARK)

    def put(
        self, path: str, chunks: Iterable[Buffer], permissions: Permissions = Permissions.UMASK, *, durable: bool = True
    ) -> None:
        views = (memoryview(chunk).cast("B") for chunk in chunks)
        first, is_all = _first_views(views, _SINGLE_PUT_BYTES)
        self._is_obsolete(path)
        content = b"".join(first) if is_all else None
        self._put(path, chain(first, views) if content is None else content)
        self._is_written(path, content)

    def write_new(self, path: str, blocks: Iterable[bytes]) -> None:
        file = self.stage(path)
        try:
            for block in blocks:
                file.write(block)
            file.keep(path)
        finally:
            file.discard()

    def _send(self, staged: str, path: str, content: io.BufferedIOBase, size: int) -> None:
        whole = size <= _SINGLE_PUT_BYTES
        self._put(path, content.read() if whole else iter(lambda: content.read(_BLOCK_BYTES), b""))

    def _put(self, path: str, content: bytes | Iterator[Buffer]) -> None:
        import obstore

        more = {"use_multipart": False} if isinstance(content, bytes) else {}
        with translated(self.locate(path), NO_BUCKET):
            obstore.put(self._client(), _key(path), content, **more)

    # --- names -------------------------------------------------------------------------------------------------------

    def for_publishing(self, folder: str) -> ObjectStore:
        ways = [self]
        if self.root.startswith(("s3:", "s3a:")) and _COPY_OPTION not in dict(self.options):
            ways = [replace(self, options=(*self.options, (_COPY_OPTION, way))) for way in _WAYS_OF_COPYING]
        for store in ways:
            if store._publishes_exclusively(f"{folder}/probe-{uuid.uuid4().hex}"):
                return store
        raise CheckpointStorageError(
            f"{self.root}: the store does not copy objects without replacing others, so output could be shown twice; "
            "headrace.storage.copy-if-not-exists says how it is asked to"
        )

    def _publishes_exclusively(self, folder: str) -> bool:
        """Whether of two files with one target the second keeps its path."""
        first, second, target = (f"{folder}/{name}" for name in ("first", "second", "target"))
        try:
            self._put(first, b"1")
            self._put(second, b"2")
            try:
                return self.publish(first, target) and not self.publish(second, target)
            except OSError as error:
                if not isinstance(error, CheckpointStorageError) and "501 " not in str(error):
                    raise
                return False
        finally:
            with contextlib.suppress(OSError):
                for path in (first, second, target):
                    self.remove(path)

    def publish(self, source: str, target: str) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with translated(self.locate(source)):
            try:
                obstore.copy(self._client(), _key(source), _key(target), overwrite=False)
            except AlreadyExistsError:
                return False
        self.remove(source)
        return True

    def remove(self, path: str) -> bool:
        import obstore

        self._is_obsolete(path)
        try:
            with translated(self.locate(path)):
                obstore.delete(self._client(), _key(path))
        except FileNotFoundError:
            return False
        return True

    def remove_all(self, paths: Sequence[str]) -> None:
        import obstore

        for path in paths:
            self._is_obsolete(path)
        try:
            with translated(self.locate(paths[0].rpartition("/")[0] if paths else "")):
                obstore.delete(self._client(), list(map(_key, paths)))
        except FileNotFoundError:  # some stores mind, and some of them stop there
            for path in paths:
                self.remove(path)

    def _client(self) -> Any:
        return client(self.root, self.options)


def _key(path: str) -> str:
    return path.strip("/")


def _entry(found: Mapping[str, Any]) -> Entry:
    # Of the time only the seconds are the same whoever is asked.
    seconds = int(found["last_modified"].timestamp())
    version = f"{found['e_tag']}"
    if not version.endswith('"'):  # as Azure lists it, but does not say it when the object is asked for
        version = f'"{version}"'
    digest = int.from_bytes(hashlib.blake2b(version.encode(), digest_size=8).digest()) % _NANOS
    return Entry(found["path"].rpartition("/")[2], Kind.FILE, found["size"], seconds * _NANOS + digest)


def _first_views(views: Iterator[memoryview], most: int) -> tuple[list[memoryview], bool]:
    """The first chunks of a file, up to more than so many bytes; and whether these are all."""
    first, size = [], 0
    for view in views:
        first.append(view)
        size += view.nbytes
        if size > most:
            return first, False
    return first, True
