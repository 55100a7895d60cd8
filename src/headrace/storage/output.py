"""Where sinks put files: what is staged stays hidden until it is shown, once."""

from __future__ import annotations

import hashlib
import io
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Buffer

_PUT_TOGETHER: Final = re.compile(r"[0-9a-f]{32}")


def is_put_together(file: str) -> bool:
    """Whether a file in an area has a name that committers give to what they put together."""
    return _PUT_TOGETHER.fullmatch(file) is not None


class ContentDigest:
    """What names know content by: 64 bits of SHA-256, which processors compute themselves."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(usedforsecurity=False)

    def update(self, block: Buffer) -> None:
        """The content goes on."""
        self._hash.update(block)

    def text(self) -> str:
        """The digest of the content so far."""
        return self._hash.hexdigest()[:16]


class OutputTree(ABC):
    """A folder of a user's, with what is below it; picklable.

    Paths in it are relative, their parts between slashes. ``str()`` gives what users call it.

    An *area* is a folder that belongs to one committer. Once it has been taken away, that committer can show nothing
    out of it any more, whatever it was doing.
    """

    @abstractmethod
    def __str__(self) -> str: ...

    def locate(self, path: str) -> str:
        """What users call a file in it."""
        return f"{self}/{path}" if path else str(self)

    @abstractmethod
    def for_committing(self, folder: str) -> OutputTree:
        """The tree as a committer uses it.

        Args:
            folder: where it may try what it relies on.

        Raises:
            CheckpointStorageError: when files cannot be shown exclusively here.
        """

    # --- staging -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def stage(self, folder: str, name: str) -> StagedFile:
        """A new file.

        Args:
            folder: where it will be; it is made.
            name: what it may be called there while it is written; nobody else has that name.
        """

    @abstractmethod
    def open_area(self, area: str) -> None:
        """Make an area; one that exists is left alone."""

    @abstractmethod
    def has_area(self, area: str) -> bool:
        """Whether an area is there."""

    @abstractmethod
    def areas(self, folder: str) -> list[str]:
        """The names of all folders in a folder, those of areas among them; none when there is no such folder."""

    @abstractmethod
    def put_together(self, area: str, name: str, blocks: Iterable[bytes]) -> None:
        """Write a durable new file in an area.

        Raises:
            FileNotFoundError: when the area has been taken away.
        """

    @abstractmethod
    def take_away(self, area: str, other: str) -> None:
        """Take an area away from its committer; what was put together there may be left.

        Args:
            area: the area; when it is gone already, nothing happens.
            other: what it may be called from now on.
        """

    @abstractmethod
    def clear_area(self, area: str) -> None:
        """Remove what was put together in an area, and the area unless somebody else has put something there."""

    # --- files -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def show(self, source: str, target: str) -> bool:
        """Have a file be there under another name, once; it loses the one that it had.

        Returns:
            False when something has that name already, as far as can be told: somebody else, or a try before this, may
            have been faster. The file keeps its name then.

        Raises:
            FileNotFoundError: when it is not there (any more); ``filename`` says where.
        """

    @abstractmethod
    def size(self, path: str) -> int | None:
        """How many bytes a file has; None when there is none."""

    @abstractmethod
    def blocks(self, path: str) -> Iterator[bytes]:
        """A file's content.

        Raises:
            FileNotFoundError: when there is none.
        """

    @abstractmethod
    def remove(self, path: str) -> bool:
        """Remove a file; whether there may have been one. A folder that has its name is left alone."""

    @abstractmethod
    def make_durable(self, paths: Iterable[str]) -> None:
        """Return when the names of files will outlast a power failure."""

    def confirm(self, found: Sequence[str]) -> None:
        """Return when files that have their names will keep them, although no call has answered that it gave these.

        Args:
            found: the files; :meth:`make_durable` was called for them.

        Raises:
            OSError: when that cannot be told, or one is gone.
        """

    @abstractmethod
    def files(self, folder: str, without: str | None = None) -> Iterator[str]:
        """All files below a folder.

        Args:
            folder: the folder, which need not exist.
            without: how the names of folders begin that are passed over.
        """

    @abstractmethod
    def remove_empty_folders(self, folder: str) -> None:
        """Remove folders below a folder that are empty, and like which there is one in the tree itself; then itself.

        Those like which there is none may be somebody else's.
        """


class StagedFile(io.RawIOBase):
    """A file that is written to its end; nobody sees it before it is kept."""

    def writable(self) -> bool:
        return True

    @abstractmethod
    def finish(self) -> tuple[int, str]:
        """Nothing more comes; gives its size and the digest of its content."""

    @abstractmethod
    def keep(self, path: str) -> None:
        """Have it durably be there under a name; that may want :meth:`OutputTree.make_durable` as well."""

    @abstractmethod
    def discard(self) -> None:
        """Remove it. Writers of formats may still want to end it when they are collected; that is dropped."""
