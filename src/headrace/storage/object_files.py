"""Files of users on an object store: objects, with the slashes in their keys for folders."""

from __future__ import annotations

import fnmatch
import hashlib
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.storage.files import FileStatus, FileStore, has_wildcards, is_hidden
from headrace.storage.object_client import client, translated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.storage.object_client import Options

_NANOS: Final = 1_000_000_000

_FIRST_READ_BYTES: Final = 1 << 16
_LARGEST_READ_BYTES: Final = 8 << 20
"""How much is fetched at once, at first and when reading goes on and on."""


@dataclass(frozen=True, slots=True)
class ObjectFiles(FileStore):
    """The objects of a bucket; paths are URIs that begin with it.

    Attributes:
        bucket: its URL.
        options: how to reach it; not shown, since there are secrets among them.
    """

    bucket: str
    options: Options = field(default=(), repr=False)

    def find(self, path: str) -> Iterator[FileStatus]:
        parts = self._key(path).split("/") if self._key(path) else []
        if self.is_pattern(path):
            fixed = next(number for number, part in enumerate(parts) if has_wildcards(part))
            pattern = parts[fixed:]
            yield from self._listed("/".join(parts[:fixed]), lambda names: _matches(names, pattern))
            return
        found = self.status(path) if parts else None
        if found is not None:
            yield from [found] if found.size else []
            return
        yield from self._listed("/".join(parts), lambda names: not any(map(is_hidden, names)))

    def exists(self, path: str) -> bool:
        return self.status(path) is not None or any(self._entries(self._key(path)))

    def is_lost(self, folder: str) -> bool:
        return False

    def status(self, path: str) -> FileStatus | None:
        import obstore

        key = self._key(path)
        if not key:
            return None
        try:
            with translated(path):
                return self._status(obstore.head(self._client(), key))
        except FileNotFoundError:
            return None

    def open(self, path: str) -> io.RawIOBase:
        status = self.status(path)
        if status is None:
            raise FileNotFoundError(2, "no such object", path)
        return _ObjectStream(self, path, self._key(path), status.size)

    def open_for_arrow(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(self.open(path), mode="r")

    def fetch(self, key: str, start: int, length: int) -> bytes:
        """A part of an object.

        Raises:
            OSError: when it cannot be read.
        """
        import obstore

        with translated(f"{self.bucket}/{key}"):
            return bytes(obstore.get_range(self._client(), key, start=start, length=length))

    def _listed(self, prefix: str, is_meant: Any) -> Iterator[FileStatus]:
        """The objects below a prefix whose names from there on are meant, but for empty ones."""
        start = len(prefix) + 1 if prefix else 0
        for entry in self._entries(prefix):
            if entry["size"] and is_meant(entry["path"][start:].split("/")):
                yield self._status(entry)

    def _entries(self, prefix: str) -> Iterator[Mapping[str, Any]]:
        import obstore

        with translated(f"{self.bucket}/{prefix}"):
            for entries in obstore.list(self._client(), prefix or None):
                yield from entries

    def _status(self, entry: Mapping[str, Any]) -> FileStatus:
        # Of the time only the seconds are the same whoever is asked.
        seconds = int(entry["last_modified"].timestamp())
        version = f"{entry['e_tag']}"
        if not version.endswith('"'):  # as Azure lists it, but does not say it when the object is asked for
            version = f'"{version}"'
        digest = int.from_bytes(hashlib.blake2b(version.encode(), digest_size=8).digest()) % _NANOS
        return FileStatus(f"{self.bucket}/{entry['path']}", entry["size"], seconds * _NANOS + digest)

    def _key(self, path: str) -> str:
        return path[len(self.bucket) :].strip("/")

    def _client(self) -> Any:
        return client(self.bucket, self.options)


class _ObjectStream(io.RawIOBase):
    """An object's bytes, fetched as they are read: little at first, then more and more at a time."""

    def __init__(self, files: ObjectFiles, path: str, key: str, size: int) -> None:
        self._files = files
        self._path = path
        self._key = key
        self._size = size
        self._at = 0
        self._start = 0
        self._block = b""
        self._ahead = _FIRST_READ_BYTES

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view) and self._at < self._size:
            block = self._buffered(len(view) - filled)
            view[filled : filled + len(block)] = block
            filled += len(block)
            self._at += len(block)
        return filled

    def _buffered(self, wanted: int) -> memoryview:
        """Some of the next bytes, at most ``wanted``."""
        within = self._at - self._start
        if not 0 <= within < len(self._block):
            goes_on = bool(self._block) and self._at == self._start + len(self._block)
            self._ahead = min(2 * self._ahead, _LARGEST_READ_BYTES) if goes_on else _FIRST_READ_BYTES
            length = min(max(wanted, self._ahead), self._size - self._at)
            self._start, within = self._at, 0
            self._block = self._files.fetch(self._key, self._at, length)
            if len(self._block) != length:
                raise OSError(5, f"the store gave {len(self._block)} bytes instead of {length}", self._path)
        return memoryview(self._block)[within : within + wanted]


def _matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a pattern stands for an object, or for a folder that it is visible in.

    Args:
        names: the parts of the object's key.
        pattern: the parts of the pattern, the first of which has wildcards.
    """
    if not pattern:
        return not any(map(is_hidden, names))
    if not names:
        return False
    if pattern[0] == "**":
        return _matches(names, pattern[1:]) or (not is_hidden(names[0]) and _matches(names[1:], pattern))
    if not has_wildcards(pattern[0]):
        return names[0] == pattern[0] and _matches(names[1:], pattern[1:])
    return not is_hidden(names[0]) and fnmatch.fnmatchcase(names[0], pattern[0]) and _matches(names[1:], pattern[1:])
