"""Folders of an object store: S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage.

A folder is a prefix of keys. What POSIX does with ``link`` is a conditional put here; a put is whole and durable when
it returns, and a listing shows every put that was answered. There is no appending: a log is a folder of segments.
"""

from __future__ import annotations

import contextlib
import errno
import uuid
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from headrace.storage.fetched_files import PIECE, FetchedFiles
from headrace.storage.folder import Folder, checked_name
from headrace.storage.object_client import NO_BUCKET, client, translated
from headrace.storage.segments import SegmentedLog, Segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from typing_extensions import Buffer

    from headrace.storage.folder import Log, MappedFile

_TRIES: Final = 2
"""How often a file is tried to be created whose put was sent, but not answered: the store's client cannot tell one that
was done from another's, so it does not try again itself."""

_IN_DOUBT: Final = (errno.EIO, errno.EAGAIN)

_MARK: Final = "writer"
"""The attribute of an object that says which call has created it."""

_SINGLE_PUT_BYTES: Final = 16 << 20
"""What is larger is sent in several parts, without a copy of the whole."""

_fetched = FetchedFiles()


@dataclass(frozen=True, slots=True)
class ObjectFolder(Folder):
    """A prefix of keys in a bucket or container.

    Attributes:
        bucket: the URL of the bucket.
        prefix: of all keys, without slashes at its ends.
        options: how to reach the store, by names of object_store; not shown, since there are secrets among them.
    """

    bucket: str
    prefix: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.bucket}/{self.prefix}" if self.prefix else self.bucket

    def folder(self, name: str) -> ObjectFolder:
        return ObjectFolder(self.bucket, self._key(name), self.options)

    def make(self) -> None:
        """A prefix needs no making."""

    def open_to_others(self) -> str | None:
        """Who may write is the bucket's affair, and cannot be seen from here."""
        return None

    def create(self, name: str, content: bytes) -> bool:
        # A put may have been done although its answer was an error, or none; sent again, it would find itself. So who
        # has created the file is told by a mark, not by the answer.
        mark = uuid.uuid4().hex
        for attempt in range(1, _TRIES + 1):
            try:
                return self._create(name, content, mark)
            except OSError as error:
                if attempt == _TRIES or error.errno not in _IN_DOUBT:
                    raise
        raise AssertionError("the last try returns or raises")

    def _create(self, name: str, content: bytes, mark: str) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with translated(self.locate(name), NO_BUCKET):
            try:
                obstore.put(
                    self._store(),
                    self._key(name),
                    content,
                    mode="create",
                    use_multipart=False,
                    attributes={_MARK: mark},
                )
            except AlreadyExistsError:
                return self._mark_of(name) == mark
        return True

    def _mark_of(self, name: str) -> str | None:
        import obstore

        try:
            found = obstore.get(self._store(), self._key(name), options={"head": True})
        except FileNotFoundError as error:
            # A conflict with another request on the same key, or somebody has removed it since.
            where = self.locate(name)
            raise OSError(errno.EAGAIN, "the store reports a conflict, but nothing has the name", where) from error
        attributes: dict[str, str] = found.attributes
        return attributes.get(_MARK)

    def write(self, name: str, chunks: Iterable[Buffer], *, durable: bool = True) -> None:
        import obstore

        views = (memoryview(chunk).cast("B") for chunk in chunks)
        first, is_all = _first_views(views, _SINGLE_PUT_BYTES)
        _fetched.forget((self, name))
        with translated(self.locate(name), NO_BUCKET):
            if is_all:
                content = b"".join(first)
                obstore.put(self._store(), self._key(name), content, use_multipart=False)
                _fetched.written.keep((self, name), content)
            else:
                obstore.put(self._store(), self._key(name), chain(first, views))

    def read(self, name: str) -> bytes:
        import obstore

        with self._reading(name):
            return bytes(obstore.get(self._store(), self._key(name)).bytes())

    def read_range(self, name: str, start: int, length: int) -> bytes:
        import obstore

        if not length:
            return b""
        try:
            with self._reading(name):
                return bytes(obstore.get_range(self._store(), self._key(name), start=start, length=length))
        except (FileNotFoundError, IsADirectoryError):
            raise
        except OSError:  # that a range begins behind the end is an error like any other
            size = self.size(name)
            if size is None or start < size:
                raise
            return b""

    def map(self, name: str) -> MappedFile:
        return _fetched.map((self, name), partial(self._beginning, name), partial(self._stream, name))

    def _beginning(self, name: str) -> tuple[int, bytes]:
        """The size of a file, and its first piece."""
        import obstore

        try:
            with self._reading(name):
                found = obstore.get(self._store(), self._key(name), options={"range": (0, PIECE)})
                return int(found.meta["size"]), bytes(found.bytes())
        except (FileNotFoundError, IsADirectoryError):
            raise
        except OSError:  # an empty file has no first piece
            if self.size(name) == 0:
                return 0, b""
            raise

    def _stream(self, name: str, start: int, stop: int) -> Iterator[Buffer]:
        """A part of a file as it comes in.

        Raises:
            OSError: when not all of it comes, or something else.
        """
        import obstore

        at = start
        with self._reading(name):
            for chunk in obstore.get(self._store(), self._key(name), options={"range": (start, stop)}).stream():
                at += len(chunk)
                if at > stop:
                    break
                yield chunk
        if at != stop:
            where = self.locate(name)
            raise OSError(errno.EIO, f"bytes {start} to {stop} were asked for, and {at - start} have come", where)

    def size(self, name: str) -> int | None:
        import obstore

        try:
            with translated(self.locate(name)):
                return int(obstore.head(self._store(), self._key(name))["size"])
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        # Tools put an object in the place of a folder, too: so as to have an empty one.
        return sorted(key.rpartition("/")[2] for key in self._keys() if key != self.prefix)

    def remove(self, name: str) -> bool:
        import obstore

        _fetched.forget((self, name))
        try:
            with translated(self.locate(name)):
                obstore.delete(self._store(), self._key(name))
        except FileNotFoundError:
            return False
        return True

    def remove_all(self, names: Sequence[str]) -> list[str]:
        import obstore

        keys = [self._key(name) for name in names]
        for name in names:
            _fetched.forget((self, name))
        try:
            with translated(str(self)):
                obstore.delete(self._store(), keys)
        except FileNotFoundError:  # some stores mind, and some of them stop there
            for name in names:
                self.remove(name)
        return list(names)

    def remove_unfinished(self, is_over: Callable[[str], bool]) -> list[str]:
        """A put is whole or not there; of one in several parts a rule of the bucket removes what was left."""
        return []

    def start_log(self, name: str) -> Log:
        return SegmentedLog(name, self.folder(name))

    def read_log(self, name: str, length: int) -> bytes:
        segments = Segments(self.folder(name))
        # One that was copied here from a POSIX folder is a file.
        return segments.read(length) if segments.names else self.read_range(name, 0, length)

    def remove_log(self, name: str) -> bool:
        segments = Segments(self.folder(name))
        segments.remove()
        return bool(segments.names) or (self.size(name) is not None and self.remove(name))

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        where = self.locate(name)
        try:
            with translated(where):
                yield
        except FileNotFoundError as error:
            if self.folder(name)._keys():
                raise IsADirectoryError(errno.EISDIR, "there are objects below it, as in a folder", where) from error
            raise

    def _keys(self) -> list[str]:
        """The keys of all that is in the folder, and of what stands for itself."""
        import obstore

        with translated(str(self)):
            found = obstore.list_with_delimiter(self._store(), self.prefix or None)
        return [*(entry["path"] for entry in found["objects"]), *(key.rstrip("/") for key in found["common_prefixes"])]

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{checked_name(name)}" if self.prefix else checked_name(name)

    def _store(self) -> Any:
        return client(self.bucket, self.options)


def _first_views(views: Iterator[memoryview], most: int) -> tuple[list[memoryview], bool]:
    """The first chunks of a file, up to more than so many bytes; and whether these are all."""
    first, size = [], 0
    for view in views:
        first.append(view)
        size += view.nbytes
        if size > most:
            return first, False
    return first, True
