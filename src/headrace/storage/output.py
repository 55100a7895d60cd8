"""Where sinks put files: what is staged stays hidden until it is shown, once."""

from __future__ import annotations

import contextlib
import errno
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headrace.storage.file_system import FileSystem, Kind, StagedFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_PUT_TOGETHER: Final = re.compile(r"[0-9a-f]{32}")

_MARK: Final = "owner"
"""The file that says that an area is its committer's, where folders cannot be renamed."""


@dataclass(frozen=True)
class OutputTree:
    """A folder of a user's, with what is below it; picklable.

    Paths in it are relative, their parts between slashes. ``str()`` gives what users call it.

    An *area* is a folder that belongs to one committer. Once it has been taken away, that committer can show nothing
    out of it any more, whatever it was doing. Where folders are real, a rename takes it away. On a flat storage an area
    has a mark. Whoever takes the area away removes the mark first, then all that is in it. A committer that has put
    something there looks for the mark before it shows that. If the mark was still there, its successor sees what was
    put; if not, nothing is shown. And a publication fails when what it publishes is gone.

    Attributes:
        file_system: the storage.
        base: the folder.
    """

    file_system: FileSystem
    base: str

    def __str__(self) -> str:
        return self.file_system.locate(self.base)

    def locate(self, path: str) -> str:
        """The path or URI by which users know a file in it."""
        return f"{self}/{path}" if path else str(self)

    def for_committing(self, folder: str) -> OutputTree:
        """The tree as a committer uses it.

        Args:
            folder: where it may try what it relies on.

        Raises:
            CheckpointStorageError: when files cannot be shown exclusively here.
        """
        return replace(self, file_system=self.file_system.for_publishing(self._path(folder)))

    # --- staging -----------------------------------------------------------------------------------------------------

    def stage(self, folder: str, name: str) -> StagedFile:
        """A new file.

        Args:
            folder: where it will be; it is made.
            name: what it may be called there while it is written; nobody else has that name.
        """
        self.file_system.make_folder(self._path(folder))
        return self.file_system.stage(f"{self._path(folder)}/{name}")

    def keep(self, file: StagedFile, path: str) -> None:
        """Have a finished file durably be there under a path; that may want :meth:`make_durable` as well."""
        file.keep(self._path(path))

    def open_area(self, area: str) -> None:
        """Make an area; one that exists is left alone."""
        if self.file_system.is_flat:
            self.file_system.put(self._path(f"{area}/{_MARK}"), [])
        else:
            self.file_system.make_folder(self._path(area))

    def has_area(self, area: str) -> bool:
        """Whether an area is there."""
        sign = f"{area}/{_MARK}" if self.file_system.is_flat else area
        return self.file_system.stat(self._path(sign)) is not None

    def areas(self, folder: str) -> list[str]:
        """The names of all folders in a folder, those of areas among them; none when there is no such folder."""
        with contextlib.suppress(FileNotFoundError):
            entries = self.file_system.list_folder(self._path(folder))
            return sorted(entry.name for entry in entries if entry.kind is Kind.FOLDER)
        return []

    def put_together(self, area: str, name: str, blocks: Iterable[bytes]) -> None:
        """Write a durable new file in an area.

        Raises:
            FileNotFoundError: when the area has been taken away.
        """
        path = f"{area}/{name}"
        self.file_system.write_new(self._path(path), blocks)
        if self.file_system.is_flat and not self.has_area(area):
            self.remove(path)
            raise FileNotFoundError(errno.ENOENT, "it has been taken away", self.locate(area))

    def take_away(self, area: str, other: str) -> None:
        """Take an area away from its committer; what was put together there may be left.

        Args:
            area: the area; when it is gone already, nothing happens.
            other: what it may be called from now on.
        """
        if self.file_system.is_flat:
            self.remove(f"{area}/{_MARK}")
            self.clear_area(area)
        else:
            with contextlib.suppress(FileNotFoundError):  # another one that starts has just done it
                self.file_system.publish(self._path(area), self._path(other))

    def clear_area(self, area: str) -> None:
        """Remove what was put together in an area, and the area unless somebody else has put something there."""
        with contextlib.suppress(FileNotFoundError):  # another one that starts has just done it
            for entry in self.file_system.list_folder(self._path(area)):
                if _PUT_TOGETHER.fullmatch(entry.name) or (self.file_system.is_flat and entry.name == _MARK):
                    self.remove(f"{area}/{entry.name}")
            self.file_system.remove_folder(self._path(area))

    # --- files -------------------------------------------------------------------------------------------------------

    def show(self, source: str, target: str) -> bool:
        """Have a file be there under another name, once; it loses the one that it had.

        Returns:
            False when something has that name already, as far as can be told: somebody else, or a try before this, may
            have been faster. The file keeps its name then.

        Raises:
            FileNotFoundError: when it is not there (any more); ``filename`` says where.
        """
        self.file_system.make_folder(self._path(target).rpartition("/")[0])
        return self.file_system.publish(self._path(source), self._path(target))

    def size(self, path: str) -> int | None:
        """How many bytes a file has; None when there is none."""
        found = self.file_system.stat(self._path(path))
        return None if found is None else found.size

    def blocks(self, path: str) -> Iterator[bytes]:
        """A file's content.

        Raises:
            FileNotFoundError: when there is none.
        """
        return self.file_system.blocks(self._path(path))

    def remove(self, path: str) -> bool:
        """Remove a file; whether there may have been one. A folder that has its name is left alone."""
        return self.file_system.remove(self._path(path))

    def make_durable(self, paths: Iterable[str]) -> None:
        """Return when the names of files will outlast a power failure."""
        self.file_system.make_durable(map(self._path, paths))

    def confirm(self, found: Sequence[str]) -> None:
        """Return when files that have their names will keep them, although no call has answered that it gave these.

        Args:
            found: the files; :meth:`make_durable` was called for them.

        Raises:
            OSError: when that cannot be told, or one is gone.
        """
        if not found:
            return
        self.file_system.settle(self._path(found[0]).rpartition("/")[0])
        for path in found:  # the server that has answered may be another one than that which showed them
            if self.size(path) is None:
                raise OSError(errno.EIO, "it was there, and is gone before that was certain", self.locate(path))

    def files(self, folder: str, without: str | None = None) -> Iterator[str]:
        """All files below a folder.

        Args:
            folder: the folder, which need not exist.
            without: how the names of folders begin that are passed over.
        """
        found = self.file_system.walk(self._path(folder), lambda name: without is None or not name.startswith(without))
        return (path[len(self.base) + 1 :] for path, _ in found)

    def remove_empty_folders(self, folder: str) -> None:
        """Remove folders below a folder that are empty, and like which there is one in the tree itself; then itself.

        Those like which there is none may be somebody else's.
        """
        if self.file_system.is_flat:
            return
        root = self._path(folder)
        for path in self.file_system.folders(root):
            like = self.file_system.stat(self._path(path[len(root) + 1 :]))
            if like is not None and like.kind is Kind.FOLDER:
                self.file_system.remove_folder(path)
        self.file_system.remove_folder(root)

    def _path(self, path: str) -> str:
        return f"{self.base}/{path}" if path else self.base
