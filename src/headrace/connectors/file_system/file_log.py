"""The files that a source has seen, in an append-only log beside the checkpoints.

The manifest holds a reference only: the log's name, how long it was and the checksum of what it held. Since a log only
grows, a restart from an older manifest finds in the shorter prefix exactly the files that were known then. After a
restart, after a failure to write, and when most of a log is out of date, what is still of use is put into a new log and
the old one is left alone.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.common.errors import StateCorruptedError
from headrace.common.logs import get_logger
from headrace.storage.files import FileStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.connectors.source import Json
    from headrace.storage.file_system import AppendLog
    from headrace.storage.folder import Folder

_KEPT_LOGS: Final = 8
"""So many older logs are kept, for restarts from older manifests."""

_MIN_ENTRIES: Final = 1000
"""A log of fewer entries is not worth being replaced."""

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


class FileJournal:
    """The known files, in memory and in a log that is written when a manifest is about to refer to it.

    Memory is ahead of the log until then. When writing fails, the log is given up, and the next one begins with all
    that is known: so nothing half-written is ever referred to.

    Args:
        folder: the folder for logs; created on demand.
        reference: what :meth:`reference` gave when the manifest was written that the job goes on from, if any.

    Attributes:
        known: what is known now. Files that are new are told to :meth:`add`; the rest may be changed.

    Raises:
        StateCorruptedError: when the log is not as the manifest knows it, naming it.
    """

    def __init__(self, folder: Folder, reference: Json | None) -> None:
        self._folder = folder
        self._reference = reference
        self._restored = None if reference is None else reference["log"]
        self.known = KnownFiles() if reference is None else load(folder, reference)
        self._unwritten: list[FileStatus] = []
        self._is_written = True
        self._log: _Log | None = None
        self._cleaned_for: _Log | None = None

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
        if self._is_written:
            return self._reference
        try:
            known, newest = self.known, {"newest": self.known.newest}
            if self._log is None:
                self._log = _Log(self._folder)
                self._log.write([{"first": known.first, **newest}, *_entries(_CONSUMED, known.consumed.values())])
                self._log.write(_entries(_PENDING, known.pending))
                self._log.entries += len(known)
            else:
                self._log.write([*_entries(_PENDING, self._unwritten), newest])
                self._log.entries += len(self._unwritten)
            self._reference = self._log.reference()
        except BaseException:
            self._give_up()
            raise
        self._unwritten = []
        self._is_written = True
        return self._reference

    def manifest_written(self) -> None:
        """A manifest holds the last reference: older logs may go, and this one when most of it is out of date."""
        log = self._log
        if log is None:
            return
        if self._cleaned_for is not log:
            self._cleaned_for = log
            remove_older(self._folder, log.name, keep=self._restored)
        if log.entries > max(_MIN_ENTRIES, 2 * len(self.known)):
            self.close()

    def close(self) -> None:
        """Let go of the log."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _give_up(self) -> None:
        log = self._log
        self.close()
        if log is not None and (self._reference is None or self._reference["log"] != log.name):
            _remove(self._folder, log.name)


class _Log:
    """A log that is being written.

    Args:
        folder: the folder for logs; created on demand.

    Attributes:
        entries: how many files it tells of.
    """

    def __init__(self, folder: Folder) -> None:
        folder.make()
        self._file = _create_next(folder)
        self._checksum = 0
        self.entries = 0

    @property
    def name(self) -> str:
        """Its name in the folder."""
        return self._file.name

    def reference(self) -> Json:
        """Make it durable and say what the manifest has to hold."""
        self._file.make_durable()
        return {"log": self.name, "length": self._file.size, "checksum": self._checksum}

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def write(self, lines: list[Json]) -> None:
        """Add lines to its end."""
        # ASCII alone: bytes of a path that are no text, and newlines in it, are escapes.
        data = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        self._file.append(data)
        self._checksum = zlib.crc32(data, self._checksum)


def load(folder: Folder, reference: Json) -> KnownFiles:
    """Load the files that a manifest's reference stands for.

    Raises:
        StateCorruptedError: when the log is missing, too short or not the one that was written, naming it.
    """
    path = folder.locate(reference["log"])
    length = reference["length"]
    try:
        data = folder.read_log(reference["log"], length)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise StateCorruptedError(f"the list of files that the source has seen is missing: {path}") from error
    if len(data) != length:
        raise StateCorruptedError(f"{path} has {len(data)} bytes, but the checkpoint knows {length}")
    if zlib.crc32(data) != reference["checksum"]:
        raise StateCorruptedError(
            f"{path} is damaged, or another source's: the checksum of its first {length} bytes is not the one that the "
            "checkpoint knows"
        )
    known = KnownFiles()
    try:
        for line in data.splitlines():
            _apply(known, json.loads(line))
    except (ValueError, TypeError, KeyError) as error:
        raise StateCorruptedError(f"{path} cannot be read: {error}") from error
    return known


def remove_older(folder: Folder, name: str, keep: str | None) -> None:
    """Remove logs that no manifest is likely to refer to any more; called when one refers to the log ``name``.

    What writers of older logs have left that were killed in the midst of it goes, too.

    Args:
        folder: the folder of logs.
        name: the log.
        keep: the log that this life of the job was restored from.
    """

    def is_older(log: str) -> bool:
        found, this = _NAME.fullmatch(log), _NAME.fullmatch(name)
        return found is not None and this is not None and int(found[1]) < int(this[1])

    try:
        older = [log for _, log in _logs(folder) if is_older(log)]
        folder.remove_unfinished(is_older)
    except OSError as error:
        logger.warning("older lists of files in %s are left there: %s", folder, error)
        return
    for log in older[:-_KEPT_LOGS]:
        if log != keep:
            _remove(folder, log)


def _remove(folder: Folder, name: str) -> None:
    try:
        folder.remove_log(name)
    except OSError as error:
        logger.warning("%s is of no use any more, but cannot be removed: %s", folder.locate(name), error)


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


def _entries(kind: str, files: Iterable[FileStatus]) -> list[Json]:
    return [[kind, status.path, status.size, status.mtime_ns] for status in files]


def _logs(folder: Folder) -> list[tuple[int, str]]:
    """The logs in a folder by their numbers, in order, and what others may have put there under such names."""
    return sorted((int(found[1]), found[0]) for found in map(_NAME.fullmatch, folder.names()) if found is not None)


def _create_next(folder: Folder) -> AppendLog:
    """A new log after all others; never one that exists, for an older job manager may still write to it."""
    number = max((number for number, _ in _logs(folder)), default=0)
    while True:
        number += 1
        try:
            return folder.start_log(f"files-{number:08}.log")
        except FileExistsError:
            continue
