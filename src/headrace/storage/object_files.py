"""Files of users on an object store: objects, with the slashes in their keys for folders."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.storage.fetched_stream import FetchedStream
from headrace.storage.files import FileStatus, FileStore, has_wildcards, is_hidden, matches
from headrace.storage.object_client import client, translated

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Mapping

    from headrace.storage.object_client import Options

_NANOS: Final = 1_000_000_000


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
            yield from self._listed("/".join(parts[:fixed]), lambda names: matches(names, pattern))
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
        return FetchedStream(path, status.size, partial(self.fetch, self._key(path)))

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
