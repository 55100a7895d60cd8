"""Folders of HDFS: a file gets its name by a rename, which fails when the name is taken."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from headrace.common.durable import Permissions, target_of_temporary
from headrace.storage.fetched_files import PIECE, FetchedFiles, PassingChunks
from headrace.storage.folder import Folder, checked_name
from headrace.storage.segments import SegmentedLog, Segments, is_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Buffer

    from headrace.storage.folder import Log, MappedFile
    from headrace.storage.hdfs_client import Hdfs

_fetched = FetchedFiles()


@dataclass(frozen=True, slots=True)
class HdfsFolder(Folder):
    """A folder of a name service.

    Attributes:
        hdfs: the name service.
        path: the folder, with a slash at its beginning and none at its end.
        permissions: who may read and write what is made in it.
    """

    hdfs: Hdfs
    path: str
    permissions: Permissions = Permissions.OWNER

    def __str__(self) -> str:
        return self.hdfs.locate(self.path)

    def folder(self, name: str) -> HdfsFolder:
        return HdfsFolder(self.hdfs, self._file(name), self.permissions)

    def make(self) -> None:
        self.hdfs.make_folder(self.path, self.permissions.of_folders)

    def open_to_others(self) -> str | None:
        found, meant = self.hdfs.status(self.path), self.permissions.of_folders
        if found is None or meant is None or not found.mode & ~meant & 0o022:
            return None
        return f"its mode is {found.mode:o}: hdfs dfs -chmod {meant:o} {self}"

    def create(self, name: str, content: bytes) -> bool:
        target = self._file(name)
        temporary = self.hdfs.write_beside(target, [content], self.permissions.of_files)
        try:
            self.hdfs.rename(temporary, target)
        except FileExistsError:
            self.hdfs.remove(temporary)
            return False
        except FileNotFoundError as error:
            raise self.hdfs.in_doubt(target) from error
        return True

    def write(self, name: str, chunks: Iterable[Buffer], *, durable: bool = True) -> None:
        target = self._file(name)
        _fetched.forget((self, name))
        passing = PassingChunks(chunks)
        temporary = self.hdfs.write_beside(target, passing, self.permissions.of_files, durable=durable)
        self.hdfs.replace(temporary, target)
        if passing.content is not None:
            _fetched.written.keep((self, name), passing.content)

    def read(self, name: str) -> bytes:
        reader = self.hdfs.open(self._file(name))
        return reader.range(0, reader.size)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        return self.hdfs.open(self._file(name)).range(start, length)

    def map(self, name: str) -> MappedFile:
        return _fetched.map((self, name), partial(self._beginning, name), partial(self._stream, name))

    def _beginning(self, name: str) -> tuple[int, bytes]:
        reader = self.hdfs.open(self._file(name))
        return reader.size, reader.range(0, PIECE)

    def _stream(self, name: str, start: int, stop: int) -> Iterator[bytes]:
        yield from self.hdfs.open(self._file(name)).stream(start, stop)

    def size(self, name: str) -> int | None:
        found = self.hdfs.status(self._file(name))
        return None if found is None or found.is_folder else found.size

    def names(self) -> list[str]:
        return sorted(entry.name for entry in self.hdfs.listing(self.path) if target_of_temporary(entry.name) is None)

    def remove(self, name: str) -> bool:
        _fetched.forget((self, name))
        return self.hdfs.remove(self._file(name))

    def remove_unfinished(self, is_over: Callable[[str], bool]) -> list[str]:
        over = list[str]()
        for entry in self.hdfs.listing(self.path):
            target = target_of_temporary(entry.name)
            if target is not None and is_over(target):
                over.append(entry.name)
            elif entry.is_folder and is_over(entry.name):  # a log
                self.folder(entry.name).remove_unfinished(is_segment)
        return [name for name in over if self.remove(name)]

    def start_log(self, name: str) -> Log:
        segments = self.folder(name)
        if self.size(name) is not None:
            raise FileExistsError(errno.EEXIST, "there is a file of that name", str(segments))
        segments.make()
        return SegmentedLog(name, segments)

    def read_log(self, name: str, length: int) -> bytes:
        segments = Segments(self.folder(name))
        # One that was copied here from a POSIX folder is a file.
        return segments.read(length) if segments.names else self.read_range(name, 0, length)

    def remove_log(self, name: str) -> bool:
        segments = Segments(self.folder(name))
        segments.remove()
        unfinished = self.folder(name).remove_unfinished(is_segment)
        if segments.names or unfinished:
            self.hdfs.remove_empty(self._file(name))
            return True
        return self.remove(name)

    def _file(self, name: str) -> str:
        return f"{self.path}/{checked_name(name)}"
