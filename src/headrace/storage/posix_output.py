"""Output on a POSIX file system: what is staged is shown by a rename."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from headrace.common.durable import AppendedFile, append, make_folder, move, remove, size_of, sync_folders
from headrace.storage.output import ContentDigest, OutputTree, StagedFile, is_put_together

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_BUFFER_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class PosixOutput(OutputTree):
    """A folder that driver and executors see under the same path.

    Attributes:
        base: the folder.
    """

    base: Path

    def __str__(self) -> str:
        return str(self.base)

    def for_committing(self, folder: str) -> PosixOutput:
        """A rename needs no trying."""
        return self

    def stage(self, folder: str, name: str) -> StagedFile:
        make_folder(self._path(folder))
        return _ReopenedFile(self.base, self._path(folder) / name)

    def open_area(self, area: str) -> None:
        make_folder(self._path(area))

    def has_area(self, area: str) -> bool:
        return self._path(area).exists()

    def areas(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._path(folder)))
        except FileNotFoundError:
            return []

    def put_together(self, area: str, name: str, blocks: Iterable[bytes]) -> None:
        merged = AppendedFile(self._path(area) / name)
        try:
            for block in blocks:
                merged.append(block)
            merged.make_durable()
        except BaseException:
            merged.path.unlink(missing_ok=True)
            raise
        finally:
            merged.close()

    def take_away(self, area: str, other: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # another one that starts has just done it
            move(self._path(area), self._path(other))

    def clear_area(self, area: str) -> None:
        folder = self._path(area)
        with contextlib.suppress(FileNotFoundError):  # another one that starts has just done it
            for path in folder.iterdir():
                if is_put_together(path.name):
                    remove(path)
            if not any(folder.iterdir()):
                folder.rmdir()

    def show(self, source: str, target: str) -> bool:
        make_folder(self._path(target).parent)
        move(self._path(source), self._path(target))
        return True

    def size(self, path: str) -> int | None:
        return size_of(self._path(path))

    def blocks(self, path: str) -> Iterator[bytes]:
        with self._path(path).open("rb") as file:
            while block := file.read(_BUFFER_BYTES):
                yield block

    def remove(self, path: str) -> bool:
        return remove(self._path(path))

    def make_durable(self, paths: Iterable[str]) -> None:
        sync_folders(self._path(path).parent for path in paths)

    def files(self, folder: str, without: str | None = None) -> Iterator[str]:
        for found, folders, files in os.walk(self._path(folder), onerror=_unless_forbidden):
            if without is not None:
                folders[:] = [inner for inner in folders if not inner.startswith(without)]
            below = os.path.relpath(found, self.base)
            yield from files if below == "." else (f"{below}/{file}" for file in files)

    def remove_empty_folders(self, folder: str) -> None:
        root = self._path(folder)
        found = [path for path in root.rglob("*") if path.is_dir() and not path.is_symlink()]
        mirrored = [path for path in found if (self.base / path.relative_to(root)).is_dir()]
        for path in [*sorted(mirrored, reverse=True), root]:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()

    def _path(self, path: str) -> Path:
        return self.base / path


def _unless_forbidden(error: OSError) -> None:
    """What is not there hides nothing, and what may not be looked into, ``lost+found`` say, is none of ours."""
    if not isinstance(error, FileNotFoundError | PermissionError):
        raise error


class _ReopenedFile(StagedFile):
    """Appends to a file.

    The file is open only while something is written to it, so that a sink with very many buckets does not need as
    many open files.
    """

    def __init__(self, base: Path, path: Path) -> None:
        self._base = base
        self._path = path
        self._written = 0
        self._buffer = bytearray()
        self._is_discarded = False

    def write(self, data: object, /) -> int:
        view = memoryview(cast("bytes", data))
        if not self._is_discarded:
            self._buffer += view
        if len(self._buffer) >= _BUFFER_BYTES:
            self._spill()
        return view.nbytes

    def tell(self) -> int:
        return self._written + len(self._buffer)

    def finish(self) -> tuple[int, str]:
        self._spill(durable=True)
        digest, size = ContentDigest(), 0
        with self._path.open("rb") as file:  # as it is on the disk
            while block := file.read(_BUFFER_BYTES):
                digest.update(block)
                size += len(block)
        return size, digest.text()

    def keep(self, path: str) -> None:
        move(self._path, self._base / path)

    def discard(self) -> None:
        self._is_discarded = True
        self._buffer = bytearray()
        self._path.unlink(missing_ok=True)

    def _spill(self, *, durable: bool = False) -> None:
        append(self._path, self._buffer, self._written, durable=durable)
        self._written += len(self._buffer)
        self._buffer = bytearray()
