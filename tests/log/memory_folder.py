"""A folder in memory that fails where a test wants it to."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from headrace.storage.file_system import MappedFile, PosixFileSystem
from headrace.storage.folder import Folder, checked_name


class KilledError(BaseException):
    """The process was killed: no code of it runs any more."""


@dataclass
class Faults:
    """What goes wrong when files are changed.

    Attributes:
        at: which change it is, counted from 0; None for none.
        is_done: whether the change is made nevertheless.
        kills: whether the process is killed; otherwise it is told of an error.
        pause: what others do before the change is made, while this process stands still; nothing goes wrong then.
        changes: how many changes there have been.
        injected: how many of these went wrong.
    """

    at: int | None = None
    is_done: bool = False
    kills: bool = True
    pause: Callable[[], object] | None = None
    changes: int = 0
    injected: int = 0

    def arm(self, after: int, *, is_done: bool = False, kills: bool = True) -> None:
        self.at, self.is_done, self.kills = self.changes + after, is_done, kills

    def pause_at(self, after: int, pause: Callable[[], object]) -> None:
        self.at, self.pause = self.changes + after, pause

    def change(self, do: Callable[[], object]) -> object:
        self.changes += 1
        if self.at is None or self.changes - 1 != self.at:
            return do()
        self.injected += 1
        if self.pause is not None:
            pause, self.pause = self.pause, None
            pause()
            return do()
        if self.is_done:
            do()
        raise KilledError if self.kills else OSError(errno.ENOSPC, "no space left on the device")


class MemoryFolder(Folder):
    """A folder whose files are values of a dictionary, by their paths."""

    def __init__(
        self, files: dict[str, bytes] | None = None, faults: Faults | None = None, path: str = "memory"
    ) -> None:
        super().__init__(PosixFileSystem(), path)
        self.files = {} if files is None else files
        self.faults = faults or Faults()

    def __str__(self) -> str:
        return self.path

    def again(self) -> MemoryFolder:
        """As another process sees it."""
        return MemoryFolder(self.files, Faults(), self.path)

    def folder(self, name: str) -> MemoryFolder:
        return MemoryFolder(self.files, self.faults, self._file(name))

    def make(self) -> None:
        pass

    def open_to_others(self) -> str | None:
        return None

    def create(self, name: str, content: bytes) -> bool:
        def do() -> bool:
            is_new = self._file(name) not in self.files
            self.files.setdefault(self._file(name), bytes(content))
            return is_new

        return bool(self.faults.change(do))

    def write(self, name: str, chunks: Iterable[object], *, durable: bool = True) -> None:
        content = b"".join(bytes(chunk) for chunk in chunks)  # type: ignore[call-overload]
        self.faults.change(lambda: self.files.update({self._file(name): content}))

    def read(self, name: str) -> bytes:
        try:
            return self.files[self._file(name)]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", self._file(name)) from None

    def read_range(self, name: str, start: int, length: int) -> bytes:
        return self.read(name)[start : start + length]

    def map(self, name: str) -> MappedFile:
        return MappedFile(pa.py_buffer(self.read(name)))

    def size(self, name: str) -> int | None:
        found = self.files.get(self._file(name))
        return None if found is None else len(found)

    def names(self) -> list[str]:
        start = f"{self.path}/"
        return sorted({path[len(start) :].split("/")[0] for path in self.files if path.startswith(start)})

    def remove(self, name: str) -> bool:
        return self.faults.change(lambda: self.files.pop(self._file(name), None)) is not None

    def remove_unfinished(self, is_over: Callable[[str], bool]) -> list[str]:
        return []

    def _file(self, name: str) -> str:
        return f"{self.path}/{checked_name(name)}"
