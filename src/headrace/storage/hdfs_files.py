"""Files of users on HDFS."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.storage.fetched_stream import FetchedStream
from headrace.storage.files import FileStatus, FileStore, has_wildcards, is_hidden, matches

if TYPE_CHECKING:
    import io
    from collections.abc import Collection, Iterator

    from headrace.storage.hdfs_client import Hdfs, HdfsStatus

_NANOS_PER_MILLI: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class HdfsFiles(FileStore):
    """The files of a name service; paths are URIs that begin with it."""

    hdfs: Hdfs

    def find(self, path: str) -> Iterator[FileStatus]:
        within = self._within(path)
        if self.is_pattern(path):
            parts = within.strip("/").split("/")
            fixed = next(number for number, part in enumerate(parts) if has_wildcards(part))
            root, pattern = "/".join(["", *parts[:fixed]]), parts[fixed:]
            walked = self._walk(root or "/", (), frozenset(pattern))
            yield from (file for names, file in walked if matches(names, pattern))
            return
        found = self.status(path)
        if found is not None:
            yield from [found] if found.size else []
            return
        yield from (file for names, file in self._walk(within, (), frozenset()) if not is_hidden(names[-1]))

    def exists(self, path: str) -> bool:
        return self.hdfs.status(self._within(path)) is not None

    def is_lost(self, folder: str) -> bool:
        return not self.exists(folder)

    def status(self, path: str) -> FileStatus | None:
        within = self._within(path)
        found = self.hdfs.status(within)
        return None if found is None or found.is_folder else self._status(within, found)

    def open(self, path: str) -> io.RawIOBase:
        reader = self.hdfs.open(self._within(path))
        return FetchedStream(path, reader.size, reader.range)

    def open_for_arrow(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(self.open(path), mode="r")

    def _walk(
        self, folder: str, names: tuple[str, ...], meant: Collection[str]
    ) -> Iterator[tuple[list[str], FileStatus]]:
        """The files below a folder that hold something, with their names from there on.

        Args:
            folder: the folder.
            names: how one comes there.
            meant: the hidden folders that are looked into.
        """
        for entry in self.hdfs.listing(folder):
            path = f"{folder.rstrip('/')}/{entry.name}"
            if not entry.is_folder:
                if entry.size:
                    yield [*names, entry.name], self._status(path, entry)
            elif not is_hidden(entry.name) or entry.name in meant:
                yield from self._walk(path, (*names, entry.name), meant)

    def _status(self, within: str, found: HdfsStatus) -> FileStatus:
        return FileStatus(self.hdfs.locate(within), found.size, found.modified * _NANOS_PER_MILLI)

    def _within(self, path: str) -> str:
        if not path.startswith(self.hdfs.authority):
            raise FileNotFoundError(errno.ENOENT, f"it is not on {self.hdfs.authority}", path)
        return path[len(self.hdfs.authority) :] or "/"
