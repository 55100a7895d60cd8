"""The files that a source has seen, in immutable files beside the checkpoints.

The manifest names them and their checksums. Whatever is new since the manifest before it makes one more file. As with
the runs of a log-structured merge tree, smaller ones are put together with it, so that there are few, and all are
written anew when most of what they tell is out of date. What no manifest names any more stays for a while, for restarts
from older manifests.
"""

import json
import re
import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from headrace.common.errors import StateCorruptedError
from headrace.common.logs import get_logger
from headrace.connectors.source import Json
from headrace.storage.files import FileStatus
from headrace.storage.folder import Folder

_MOST_KEPT: Final = 1000
"""So many files that the newest manifest does not name are kept, for restarts from older manifests."""

_MIN_ENTRIES: Final = 1000
"""Fewer entries are not worth being written anew."""

_NAME: Final = re.compile(r"files-([0-9]{8,})\.log")
_PENDING, _CONSUMED = "p", "c"

logger = get_logger(__name__)


@dataclass(slots=True)
class KnownFiles:
    """The files that are known at some moment.

    Attributes:
        first: the ordinal of the first file in ``pending``.
        newest: the latest modification time of all files ever seen, in nanoseconds.
        consumed: files that were read and are young enough to be remembered, by path.
        pending: files that are to be read, in order.
    """

    first: int = 0
    newest: int = 0
    consumed: dict[str, FileStatus] = field(default_factory=dict)
    pending: list[FileStatus] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.consumed) + len(self.pending)


@dataclass(frozen=True, slots=True)
class _Run:
    """A file that was written: its name, the checksum of its content, and the new files that it tells of."""

    name: str
    checksum: int
    files: list[FileStatus]


class FileJournal:
    """The known files, in memory and in files that are written when a manifest is about to name them.

    Memory is ahead of them until then. A file that could not be written is named by nothing; the next try writes
    another one.

    Args:
        folder: the folder for the files; created on demand.
        reference: what :meth:`reference` gave when the manifest was written that the job goes on from, if any.

    Attributes:
        known: what is known now. Files that are new are told to :meth:`add`; the rest may be changed.

    Raises:
        StateCorruptedError: when a file is not as the manifest knows it, naming it.
    """

    def __init__(self, folder: Folder, reference: Json | None) -> None:
        self._folder = folder
        self._reference = reference
        self._restored = frozenset(name for name, _ in reference or ())
        self.known = KnownFiles() if reference is None else load(folder, reference)
        self._unwritten: list[FileStatus] = []
        self._is_written = True
        self._runs: list[_Run] = []
        self._number = 0
        self._superseded: deque[str] | None = None

    def add(self, files: list[FileStatus], newest: int) -> None:
        """Add files that are to be read after all others; ``newest`` as in :class:`KnownFiles`."""
        self.known.newest = max(self.known.newest, newest)
        self.known.pending += files
        self._unwritten += files
        self._is_written = False

    def reference(self) -> Json | None:
        """Make all that is known durable, and say what the manifest has to hold; None when nothing ever was known.

        Raises:
            OSError: when it cannot be written; it can be tried again.
        """
        if not self._is_written:
            before, self._runs = self._runs, self._written()
            if self._superseded is not None:
                self._superseded += [run.name for run in before if run not in self._runs]
            self._reference = [[run.name, run.checksum] for run in self._runs]
            self._unwritten, self._is_written = [], True
        return self._reference

    def manifest_written(self) -> None:
        """A manifest holds the last reference: the oldest of those that it does not name may go."""
        if not self._runs:
            return
        try:
            if self._superseded is None:
                self._superseded = self._left_by_others()
            while len(self._superseded) > _MOST_KEPT:
                if self._superseded[0] not in self._restored:
                    self._folder.remove(self._superseded[0])
                self._superseded.popleft()
        except OSError as error:
            logger.warning("older lists of files in %s are left there: %s", self._folder, error)

    def _left_by_others(self) -> deque[str]:
        """What was there before and no reference of this life names; what killed writers have left of it is removed."""
        named = {run.name for run in self._runs}
        left = deque(name for number, name in _numbered(self._folder) if number <= self._number and name not in named)
        self._folder.remove_unfinished(set(left).__contains__)
        return left

    def _written(self) -> list[_Run]:
        """Write what is new together with the runs that are no longer than it, or write all; gives all runs."""
        known, runs, new = self.known, self._runs, self._unwritten
        if not runs or sum(len(run.files) for run in runs) > max(_MIN_ENTRIES, 2 * len(known)):
            consumed = list(known.consumed.values())
            lines = [{"first": known.first, "newest": known.newest}, *_entries(_CONSUMED, consumed)]
            return [self._write([*lines, *_entries(_PENDING, known.pending)], [*consumed, *known.pending])]
        while len(runs) > 1 and len(runs[-1].files) <= len(new):
            runs, new = runs[:-1], runs[-1].files + new
        return [*runs, self._write([{"newest": known.newest}, *_entries(_PENDING, new)], new)]

    def _write(self, lines: list[Json], files: list[FileStatus]) -> _Run:
        # ASCII alone: bytes of a path that are no text, and newlines in it, are escapes.
        content = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        if not self._number:
            self._folder.make()
            self._number = max((number for number, _ in _numbered(self._folder)), default=0)
        self._number += 1
        while not self._folder.create(name := f"files-{self._number:08}.log", content):
            self._number += 1  # never one that exists: another job manager may have just written it
        return _Run(name, zlib.crc32(content), files)


def load(folder: Folder, reference: Json) -> KnownFiles:
    """Load the files that a manifest's reference stands for.

    Raises:
        StateCorruptedError: when a file is missing or not the one that was written, naming it.
    """
    known = KnownFiles()
    for name, checksum in reference:
        path = folder.locate(name)
        try:
            data = folder.read(name)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise StateCorruptedError(f"the list of files that the source has seen is missing: {path}") from error
        if zlib.crc32(data) != checksum:
            raise StateCorruptedError(
                f"{path} is damaged, or another source's: its checksum is not the one that the checkpoint knows"
            )
        for line in data.splitlines():
            _apply(known, json.loads(line))
    return known


def _apply(known: KnownFiles, entry: Json) -> None:
    if isinstance(entry, dict):
        known.first = entry.get("first", known.first)
        known.newest = entry["newest"]
        return
    kind, path, size, mtime_ns = entry
    status = FileStatus(path, size, mtime_ns)
    if kind == _PENDING:
        known.pending.append(status)
    else:
        known.consumed[status.path] = status


def _entries(kind: str, files: list[FileStatus]) -> list[Json]:
    return [[kind, status.path, status.size, status.mtime_ns] for status in files]


def _numbered(folder: Folder) -> list[tuple[int, str]]:
    """The files in a folder by their numbers, in order, and what others may have put there under such names."""
    return sorted((int(found[1]), found[0]) for found in map(_NAME.fullmatch, folder.names()) if found is not None)
