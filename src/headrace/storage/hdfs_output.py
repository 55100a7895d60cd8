"""Output on HDFS: what is staged is shown by a rename that replaces nothing."""

from __future__ import annotations

import contextlib
import errno
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.storage.output import OutputTree, is_put_together
from headrace.storage.spooled_file import SpooledFile

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.storage.hdfs_client import Hdfs
    from headrace.storage.output import StagedFile

_BLOCK_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class HdfsOutput(OutputTree):
    """A folder of a name service.

    Attributes:
        hdfs: the name service.
        base: the folder, with a slash at its beginning and none at its end.
    """

    hdfs: Hdfs
    base: str

    def __str__(self) -> str:
        return self.hdfs.locate(self.base)

    def for_committing(self, folder: str) -> HdfsOutput:
        """A rename needs no trying."""
        return self

    def stage(self, folder: str, name: str) -> StagedFile:
        self.hdfs.make_folder(self._path(folder))
        return SpooledFile(partial(self._send, _joined(folder, name)))

    def open_area(self, area: str) -> None:
        self.hdfs.make_folder(self._path(area))

    def has_area(self, area: str) -> bool:
        return self.hdfs.status(self._path(area)) is not None

    def areas(self, folder: str) -> list[str]:
        return sorted(entry.name for entry in self.hdfs.listing(self._path(folder)))

    def put_together(self, area: str, name: str, blocks: Iterable[bytes]) -> None:
        path = self._path(f"{area}/{name}")
        try:
            self.hdfs.write(path, blocks)
        except BaseException:
            with contextlib.suppress(OSError):
                self.hdfs.remove(path)
            raise

    def take_away(self, area: str, other: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # another one that starts has just done it
            self.hdfs.rename(self._path(area), self._path(other))

    def clear_area(self, area: str) -> None:
        folder = self._path(area)
        for entry in self.hdfs.listing(folder):
            if is_put_together(entry.name):
                self.hdfs.remove(f"{folder}/{entry.name}")
        self.hdfs.remove_empty(folder)

    def show(self, source: str, target: str) -> bool:
        self.hdfs.make_folder(self._path(target).rpartition("/")[0])
        try:
            self.hdfs.rename(self._path(source), self._path(target))
        except FileExistsError:
            return False
        return True

    def size(self, path: str) -> int | None:
        found = self.hdfs.status(self._path(path))
        return None if found is None else found.size

    def blocks(self, path: str) -> Iterator[bytes]:
        reader = self.hdfs.open(self._path(path))
        yield from reader.stream(0, reader.size)

    def remove(self, path: str) -> bool:
        return self.hdfs.remove(self._path(path))

    def make_durable(self, paths: Iterable[str]) -> None:
        """A rename that was answered is durable."""

    def confirm(self, found: Sequence[str]) -> None:
        if not found:
            return
        self.hdfs.settle(self._path(found[0]).rpartition("/")[0])
        for path in found:  # the name node that has answered may be another one than that which showed them
            if self.size(path) is None:
                raise OSError(errno.EIO, "it was there, and is gone before that was certain", self.locate(path))

    def files(self, folder: str, without: str | None = None) -> Iterator[str]:
        for entry in self.hdfs.listing(self._path(folder)):
            path = _joined(folder, entry.name)
            if not entry.is_folder:
                yield path
            elif without is None or not entry.name.startswith(without):
                yield from self.files(path, without)

    def remove_empty_folders(self, folder: str) -> None:
        for below in self._folders(folder, ""):
            like = self.hdfs.status(self._path(below))
            if like is not None and like.is_folder:
                self.hdfs.remove_empty(self._path(f"{folder}/{below}"))
        self.hdfs.remove_empty(self._path(folder))

    def _folders(self, folder: str, below: str) -> Iterator[str]:
        """The folders below a folder, by their paths from there on; the deepest come first."""
        for entry in self.hdfs.listing(self._path(_joined(folder, below))):
            if entry.is_folder:
                path = _joined(below, entry.name)
                yield from self._folders(folder, path)
                yield path

    def _send(self, temporary: str, path: str, content: io.BufferedIOBase, size: int) -> None:
        """Write a file under one name, and give it another when it is whole."""
        self.hdfs.write(self._path(temporary), iter(lambda: content.read(_BLOCK_BYTES), b""))
        self.hdfs.replace(self._path(temporary), self._path(path))

    def _path(self, path: str) -> str:
        return f"{self.base}/{path}" if path else self.base or "/"


def _joined(folder: str, name: str) -> str:
    return "/".join(filter(None, [folder, name]))
