"""The files that a source has seen, in an append-only log beside the checkpoints.

The manifest holds a reference only: the log's name and how long it was. Since a log only grows, a restart from an older
manifest finds in the shorter prefix exactly the files that were known then. After a restart, and when most of a log is
out of date, what is still of use is copied into a new log and the old one is left alone.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from headrace.common.errors import StateCorruptedError
from headrace.connectors.file_system.paths import FileStatus

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from headrace.connectors.source import Json

_KEPT_LOGS = 8
"""How many older logs are kept, for restarts from older manifests."""

_PENDING, _CONSUMED = "p", "c"


@dataclass(slots=True)
class KnownFiles:
    """What is known at some moment.

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


class FileLog:
    """A log that is being written.

    Args:
        directory: the folder for logs; created on demand.
        known: what the log begins with.
    """

    def __init__(self, directory: Path, known: KnownFiles) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._file, self._path = _create_next(directory)
        self._is_durable = False
        self.entries = len(known)
        self._write([{"first": known.first, "newest": known.newest}])
        self._write([[_CONSUMED, *_fields(status)] for status in known.consumed.values()])
        self._write([[_PENDING, *_fields(status)] for status in known.pending])

    def append(self, files: Iterable[FileStatus], newest: int) -> None:
        """Add files that are to be read after all others; ``newest`` as in :class:`KnownFiles`."""
        lines: list[Json] = [[_PENDING, *_fields(status)] for status in files]
        self.entries += len(lines)
        self._write([*lines, {"newest": newest}])

    def _write(self, lines: list[Json]) -> None:
        self._is_durable = False
        self._file.write("".join(f"{json.dumps(line)}\n" for line in lines).encode())

    def reference(self) -> Json:
        """Make the log durable and say what the manifest has to hold."""
        if not self._is_durable:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._is_durable = True
        return {"log": self._path.name, "length": self._file.tell()}

    def remove_older(self, keep: str | None) -> None:
        """Remove logs that no manifest is likely to refer to any more; called when one refers to this log.

        Args:
            keep: the log that this life of the job was restored from.
        """
        older = [path for path in sorted(self._directory.glob("files-*.log")) if path.name < self._path.name]
        for path in older[:-_KEPT_LOGS]:
            if path.name != keep:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load(directory: Path, reference: Json) -> KnownFiles:
    """What a manifest's reference stands for.

    Raises:
        StateCorruptedError: when the log is missing or shorter than it was, naming it.
    """
    path = directory / reference["log"]
    try:
        with path.open("rb") as file:
            data = file.read(reference["length"])
    except FileNotFoundError as error:
        raise StateCorruptedError(f"the list of files that the source has seen is missing: {path}") from error
    if len(data) != reference["length"]:
        raise StateCorruptedError(f"{path} has {len(data)} bytes, but the checkpoint knows {reference['length']}")
    return _parse(data, path)


def _parse(data: bytes, path: Path) -> KnownFiles:
    known = KnownFiles()
    try:
        for line in data.splitlines():
            _apply(known, json.loads(line))
    except (ValueError, TypeError, KeyError) as error:
        raise StateCorruptedError(f"{path} cannot be read: {error}") from error
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
        known.consumed[path] = status


def _fields(status: FileStatus) -> Json:
    return [status.path, status.size, status.mtime_ns]


def _create_next(directory: Path) -> tuple[BinaryIO, Path]:
    """A new file after all others; never one that exists, for an older job manager may still write to it."""
    numbers = [int(path.stem.removeprefix("files-")) for path in directory.glob("files-*.log")]
    number = max(numbers, default=0)
    while True:
        number += 1
        path = directory / f"files-{number:08}.log"
        try:
            file = path.open("xb")
        except FileExistsError:
            continue
        _sync_folder(directory)
        return file, path


def _sync_folder(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
