"""What a checkpoint directory is made of: folders of named files, with the few operations that exactness rests on.

Whoever keeps something there knows names, not paths: the same code works on a POSIX folder and on an object store. A
file is there wholly or not at all. An operation that fails with an ``OSError`` may work when it is tried again; it may
also have been done all the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from headrace.common.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa
    from typing_extensions import Buffer


class MappedFile:
    """The bytes of a file that never changes.

    Attributes:
        buffer: as long as the file; only what was fetched may be read.
        is_surplus: whether whoever holds it should let go of it when it can be done without, to make room for others.
        is_damaged: whether a checksum was wrong. It is not handed out again: the file may be put back as it was.
    """

    def __init__(self, buffer: pa.Buffer) -> None:
        self.buffer = buffer
        self.is_surplus = False
        self.is_damaged = False

    def fetch(self, start: int, stop: int) -> None:
        """See to it that these bytes can be read; all can at once, unless a class says otherwise.

        Raises:
            FileNotFoundError: when the file is needed for that and has been removed.
            OSError: when it cannot be read.
        """


class Folder(ABC):
    """A folder of named files, and of further folders; picklable, so that tasks can open it.

    Who may read and write what is in it belongs to the folder, and passes on to the folders in it. ``str()`` gives what
    users call it. A file and a log never have the same name.
    """

    @abstractmethod
    def __str__(self) -> str: ...

    def locate(self, name: str) -> str:
        """What users call a file in it."""
        return f"{self}/{name}"

    @abstractmethod
    def folder(self, name: str) -> Folder:
        """A folder in it, which need not exist."""

    @abstractmethod
    def make(self) -> None:
        """Make the folder and those above it, durably; what exists is left alone.

        Raises:
            OSError: when it cannot be made.
        """

    @abstractmethod
    def open_to_others(self) -> str | None:
        """How to keep out whoever may write here although he is not meant to; None where there is nobody."""

    # --- files -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def create(self, name: str, content: bytes) -> bool:
        """Create a durable file with its whole content in one step, unless it exists.

        Returns:
            Whether this call created it: of two processes exactly one does.

        Raises:
            OSError: when that cannot be told, or the file cannot be written.
        """

    @abstractmethod
    def write(self, name: str, chunks: Iterable[Buffer], *, durable: bool = True) -> None:
        """Write a file; one that exists is replaced.

        Args:
            name: the file.
            chunks: its content.
            durable: whether it is certain to outlast a power failure when this returns.

        Raises:
            OSError: when it cannot be written whole, or is not known to be durable.
        """

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The whole content of a file.

        Raises:
            FileNotFoundError: when there is none.
            IsADirectoryError: when something else is in its place.
            OSError: when it cannot be read.
        """

    @abstractmethod
    def read_range(self, name: str, start: int, length: int) -> bytes:
        """A part of a file, fewer bytes where it ends before; errors as with :meth:`read`."""

    @abstractmethod
    def map(self, name: str) -> MappedFile:
        """The bytes of a file that never changes, in memory only as far as they are touched.

        What was fetched stays readable when the file is removed. Errors as with :meth:`read`.
        """

    @abstractmethod
    def size(self, name: str) -> int | None:
        """How many bytes a file has; None when there is none."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of all that is in the folder, sorted; without what a writer has not finished.

        Raises:
            OSError: when it cannot be listed; a missing folder may also count as an empty one.
        """

    @abstractmethod
    def remove(self, name: str) -> bool:
        """Remove a file; whether there may have been one. Nothing else that has its name is touched."""

    def remove_all(self, names: Sequence[str]) -> list[str]:
        """Remove files, as :meth:`remove` does; the names of those that may have been there."""
        return [name for name in names if self.remove(name)]

    @abstractmethod
    def remove_unfinished(self, is_over: Callable[[str], bool]) -> list[str]:
        """Remove what writers have left that died while they wrote.

        Args:
            is_over: whether nobody can still be writing the file or log of that name.

        Returns:
            The names of the removed files.
        """

    def remove_empty_folders(self) -> None:
        """Remove the folders in it, and itself, as far as they are empty; nothing where folders are but names."""

    # --- logs --------------------------------------------------------------------------------------------------------

    @abstractmethod
    def start_log(self, name: str) -> Log:
        """A new log.

        Raises:
            FileExistsError: when something has that name.
            OSError: when it cannot be created.
        """

    @abstractmethod
    def read_log(self, name: str, length: int) -> bytes:
        """The first bytes of a log, fewer where it ends before; errors as with :meth:`read`."""

    @abstractmethod
    def remove_log(self, name: str) -> bool:
        """Remove a log; whether there may have been one. Nothing else that has its name is touched."""


class Log(ABC):
    """A file that only grows, by one writer.

    Attributes:
        name: its name in its folder.
        size: how many bytes it has.
    """

    name: str
    size: int

    @abstractmethod
    def append(self, data: bytes) -> None:
        """Add to its end.

        Raises:
            OSError: when not all of it could be written; the log is of no use any more then.
        """

    @abstractmethod
    def make_durable(self) -> None:
        """Return when all that was appended will outlast a power failure.

        Raises:
            OSError: when it may not; the log is of no use any more then.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of it; closing it again does nothing."""


def checked_name(name: str) -> str:
    """A name, if it can be that of a file in a folder.

    Raises:
        CheckpointError: when it would lead elsewhere.
    """
    if name in ("", ".", "..") or any(character in name for character in "/\\\0"):
        raise CheckpointError(f"{name!r} cannot be the name of a file in a checkpoint directory")
    return name
