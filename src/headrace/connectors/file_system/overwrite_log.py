"""The overwrites of a folder: files take the place of others, all of them in one step.

That step is the creation of an *entry*, a numbered file in the hidden folder ``.headrace-overwrites``. An entry names
files to remove, and hidden files to publish. Whichever process finds it executes it, as with the journal of a
database: it can be done several times, and by several at once. Readers complete the newest entry before they list the
folder, so they find the files of before the entry or those of after it. A writer that is killed has either created the
entry or changed nothing.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from headrace.common.errors import CommitRefusedError
from headrace.common.json_values import from_checked_bytes, from_json, to_checked_bytes
from headrace.storage.file_system import FileSystem

_FOLDER: Final = ".headrace-overwrites"
_REMEMBERED: Final = 100
"""The number of earlier entries that an entry knows, as their writers may not know that they were executed."""

NEVER: Final[tuple[int, tuple[str, ...]]] = (0, ())
"""The result of :meth:`OverwriteLog.complete` where there is no entry."""

_ENTRY: Final = re.compile(r"[0-9]{8,}\.json")


class Overwrite(NamedTuple):
    """An entry; without any files it has been executed.

    Attributes:
        id: identifies it, so that it is not created again.
        removed: the files to remove, by their paths below the folder.
        published: hidden files by path, and the path that each is given.
        before: the ids of the entries before it, the newest first.
    """

    id: str
    removed: list[str]
    published: dict[str, str]
    before: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Return whether it has been executed."""
        return not self.removed and not self.published


@dataclass(frozen=True, slots=True)
class OverwriteLog:
    """The entries of a folder.

    Attributes:
        file_system: the storage.
        base: the folder.
    """

    file_system: FileSystem
    base: str

    def complete(self) -> tuple[int, tuple[str, ...]]:
        """Carry out the newest entry unless that was done; gives its number, and its id and those before it.

        Raises:
            CommitRefusedError: when it is damaged, or a file that it names is gone.
            OSError: on a passing fault, or when the user may not write here.
        """
        while number := max(self._numbers(), default=0):
            try:
                entry = self._read(number)
            except FileNotFoundError:  # it has been replaced by a newer one
                continue
            if not entry.is_done:
                self._carry_out(number, entry)
            return number, (entry.id, *entry.before)
        return NEVER

    def add(self, overwrite: Callable[[], Overwrite], identity: str) -> None:
        """Create an entry unless there was one with this id already, and carry it out.

        Args:
            overwrite: makes the entry; called again when another one came first.
            identity: its id.
        """
        number, known = self.complete()
        while identity not in known:
            self.file_system.make_folder(self._folder)
            entry = overwrite()._replace(before=known[:_REMEMBERED])
            self.file_system.create(self._path(number + 1), to_checked_bytes(entry))
            number, known = self.complete()
        for older in self._numbers():
            if older < number:
                self.file_system.remove(self._path(older))

    def knows(self, identity: str) -> bool:
        """Return whether an entry with this id was created, without carrying it out.

        Raises:
            CommitRefusedError: when the newest entry is damaged.
            OSError: on a passing fault.
        """
        while number := max(self._numbers(), default=0):
            try:
                entry = self._read(number)
            except FileNotFoundError:  # it has been replaced by a newer one
                continue
            return identity in (entry.id, *entry.before)
        return False

    def _read(self, number: int) -> Overwrite:
        """An entry, which is known to be what was written: with another name a wrong file would be removed."""
        content = self.file_system.read(self._path(number))
        try:
            return from_json(Overwrite, from_checked_bytes(content))
        except (ValueError, TypeError) as error:
            raise CommitRefusedError(
                f"{self.file_system.locate(self._path(number))} is damaged, so which files are in the folder is not "
                "known: put it back as it was, or remove it where the files are the right ones"
            ) from error

    def _carry_out(self, number: int, entry: Overwrite) -> None:
        """Publish before anything is removed, so that what fails in between loses nothing."""
        publishing = self.file_system.for_publishing(self._folder)
        for source, target in entry.published.items():
            publishing.make_folder(f"{self.base}/{target}".rpartition("/")[0])
            with contextlib.suppress(FileNotFoundError):  # another process may have published it
                publishing.publish(f"{self.base}/{source}", f"{self.base}/{target}")
            self._check(number, source, f"{self.base}/{target}")
        self.file_system.make_durable(f"{self.base}/{target}" for target in entry.published.values())
        self.file_system.remove_all([f"{self.base}/{path}" for path in entry.removed])
        self.file_system.put(self._path(number), [to_checked_bytes(entry._replace(removed=[], published={}))])

    def _check(self, number: int, source: str, target: str) -> None:
        if self.file_system.stat(target) is None and number == max(self._numbers(), default=0):
            raise CommitRefusedError(
                f"{self.file_system.locate(target)} cannot be published: {source} is missing, which "
                f"{self.file_system.locate(self._path(number))} names; put it back"
            )

    @property
    def _folder(self) -> str:
        return f"{self.base}/{_FOLDER}"

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number:08}.json"

    def _numbers(self) -> list[int]:
        try:
            return [int(name[:-5]) for name in self.file_system.names(self._folder) if _ENTRY.fullmatch(name)]
        except (FileNotFoundError, NotADirectoryError):
            return []
