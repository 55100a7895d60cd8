"""The driver's half of the file source: one split, the files in their order of reading, and the list of all seen.

A short list that never grows is in the manifest itself. Any other is in immutable files beside the checkpoints; the
manifest has their names and checksums. Whatever is new since the manifest before it makes one more file. As with the
runs of a log-structured merge tree, smaller ones are put together with it, so that there are few, and all are written
anew when most of what they tell is out of date. What no manifest names any more stays for a while, for restarts from
older manifests.
"""

import json
import math
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.common.errors import CorruptFileError, SourceChangedError, StateCorruptedError
from headrace.common.logs import get_logger
from headrace.connectors.file_system.paths import (
    GONE,
    FileSelection,
    InputPaths,
    Skipped,
    SkipPolicy,
    check_unchanged,
    unreadable,
)
from headrace.connectors.source import EnumeratorContext, Json, Pending, ReadBudget, SplitEnumerator, SplitRead
from headrace.formats.file_format import FileExtent, FileFormat
from headrace.storage.files import FileStatus, InputFile, shown
from headrace.storage.folder import Folder

_MOST_KEPT: Final = 1000
"""The number of files kept that the newest manifest does not name, for restarts from older manifests."""

MOST_INSIDE: Final = 64
"""The number of files that the manifest itself lists, which is written in every epoch."""

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
    """A file that was written: its name, the checksum of its content, and the new files that it lists."""

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
        most_inside: how many files the manifest itself lists at most, instead of naming files that do.

    Attributes:
        known: what is known now. New files are added by :meth:`add`; the rest may be changed.

    Raises:
        StateCorruptedError: when a file is not as the manifest knows it, naming it.
    """

    def __init__(self, folder: Folder, reference: Json | None, most_inside: int = 0) -> None:
        self._folder = folder
        self._reference = reference
        self._most_inside = most_inside
        self._restored = {run[0] for run in reference} if reference and not _is_inside(reference) else set()
        self.known = KnownFiles() if reference is None else load(folder, reference)
        self._unwritten: list[FileStatus] = []
        self._is_written = True
        self._runs: list[_Run] = []
        self._number = 0
        self._left_by_others: list[str] = []
        self._superseded = deque[str]()

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
        if not self._runs and len(self.known) <= self._most_inside:
            return None if self._is_written and self._reference is None else self._lines()
        if not self._is_written:
            before, self._runs = self._runs, self._written()
            self._superseded += [run.name for run in before if run not in self._runs]
            self._reference = [[run.name, run.checksum] for run in self._runs]
            self._unwritten, self._is_written = [], True
        return self._reference

    def manifest_written(self) -> None:
        """A manifest holds the last reference: the oldest of those that it does not name may go."""
        if not self._runs:
            return
        try:
            if self._left_by_others:
                self._folder.remove_unfinished(set(self._left_by_others).__contains__)
                self._left_by_others = []
            while len(self._superseded) > _MOST_KEPT:
                if self._superseded[0] not in self._restored:
                    self._folder.remove(self._superseded[0])
                self._superseded.popleft()
        except OSError as error:
            logger.warning("older lists of files in %s are left there: %s", self._folder, error)

    def _written(self) -> list[_Run]:
        """Write what is new together with the runs that are no longer than it, or write all; gives all runs."""
        known, runs, new = self.known, self._runs, self._unwritten
        if not runs or sum(len(run.files) for run in runs) > max(_MIN_ENTRIES, 2 * len(known)):
            return [self._write(self._lines(), [*known.consumed.values(), *known.pending])]
        while len(runs) > 1 and len(runs[-1].files) <= len(new):
            runs, new = runs[:-1], runs[-1].files + new
        return [*runs, self._write([{"newest": known.newest}, *_entries(_PENDING, new)], new)]

    def _lines(self) -> list[Json]:
        """All that is known, line by line."""
        known = self.known
        consumed, pending = _entries(_CONSUMED, list(known.consumed.values())), _entries(_PENDING, known.pending)
        return [{"first": known.first, "newest": known.newest}, *consumed, *pending]

    def _write(self, lines: list[Json], files: list[FileStatus]) -> _Run:
        # ASCII alone: bytes of a path that are no text, and newlines in it, are escapes.
        content = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        if not self._number:
            self._folder.make()
            found = {name: int(named[1]) for name in self._folder.names() if (named := _NAME.fullmatch(name))}
            self._left_by_others = sorted(found, key=found.__getitem__)
            self._superseded += self._left_by_others
            self._number = max(found.values(), default=0)
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
    if _is_inside(reference):
        for entry in reference:
            _apply(known, entry)
        return known
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


def _is_inside(reference: Json) -> bool:
    """Tell whether a reference is the list itself, which begins as each file of a list does."""
    return bool(reference) and isinstance(reference[0], dict)


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


MAX_FILES = 10_000
"""An epoch reads at most so many files, so that a piece stays small whatever the budget."""


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """A part of one file that an epoch reads.

    Attributes:
        status: the file.
        extent: how it can be cut.
        start: the first unit.
        end: the unit after the last one.
        skipped: why the source goes on without what was not read of the file yet; None where it is read.
    """

    status: FileStatus
    extent: FileExtent
    start: int
    end: int
    skipped: Skipped | None = None

    @property
    def bytes(self) -> float:
        """The bytes of the part, at least one: opening a file costs something as well."""
        return max((self.end - self.start) * self.extent.bytes_per_unit, 1.0)

    @property
    def records(self) -> float:
        """The estimated number of records in the part."""
        return (self.end - self.start) * self.extent.records_per_unit

    def to_json(self) -> Json:
        """Give what the reader needs."""
        skipped = [] if self.skipped is None else [self.skipped]
        return [self.status.path, self.status.size, self.status.mtime_ns, self.start, self.end, *skipped]


def plan_files(
    split_id: str,
    position: tuple[int, int],
    budget: ReadBudget,
    file_at: Callable[[int], PlannedRange | None],
) -> SplitRead | None:
    """An epoch's share of the files from ``position`` on.

    Args:
        split_id: the split.
        position: the first file and where to go on in it.
        budget: how much the epoch may take; one unit, or one file that cannot be cut, is taken in any case.
        file_at: gives a whole file by ordinal; None beyond the last one.
    """
    taken: list[PlannedRange] = []
    size = records = 0.0
    ordinal, offset = position
    while size < budget.bytes and records < budget.records and len(taken) < MAX_FILES:
        if (file := file_at(ordinal)) is None:
            break
        extent = file.extent
        offset = min(offset, extent.length)  # a file that is skipped from its middle on has no length any more
        room = min((budget.bytes - size) / max(extent.bytes_per_unit, 1e-9), extent.length)
        room = min((budget.records - records) / max(extent.records_per_unit, 1e-9), room)
        end = _end_within(extent, offset, int(room), must=not taken)
        if end is None:
            break
        taken.append(replace(file, start=offset, end=end))
        size, records = size + taken[-1].bytes, records + taken[-1].records
        ordinal, offset = (ordinal, end) if end < extent.length else (ordinal + 1, 0)
        if offset:
            break
    if not taken:
        return None
    cut = cut_ranges(taken, budget.pieces, must_cost_nothing=budget.cuts_cost_nothing)
    pieces = tuple(list(map(PlannedRange.to_json, piece)) for piece in cut)
    return SplitRead(split_id, list(position), [ordinal, offset], pieces, records=round(records), bytes=round(size))


def _end_within(extent: FileExtent, start: int, room: int, *, must: bool) -> int | None:
    """The end of the part of a file from ``start``, when ``room`` units are left; None where reading does not begin."""
    if start + room >= extent.length:
        return extent.length
    if not extent.divisible:
        return extent.length if must else None
    if room <= 0:
        return min(start + 1, extent.length) if must else None
    end = start + room
    return _nearest(extent, end, slack=min(room // 2, room - 1), most=end)


def cut_ranges(
    ranges: list[PlannedRange], pieces: int, *, must_cost_nothing: bool = False
) -> Iterator[list[PlannedRange]]:
    """The ranges in at most ``pieces`` runs of about equal bytes, in order, none of them empty.

    Args:
        ranges: the ranges.
        pieces: the number of runs.
        must_cost_nothing: whether ranges are cut only where that costs nothing.
    """
    left = ranges
    for wanted in range(pieces, 1, -1):
        piece, left = _take(left, sum(part.bytes for part in left) / wanted, must_cost_nothing)
        if piece:
            yield piece
    if left:
        yield left


def _take(
    ranges: list[PlannedRange], target: float, must_cost_nothing: bool
) -> tuple[list[PlannedRange], list[PlannedRange]]:
    """About the first ``target`` bytes of some ranges, and the rest of them."""
    piece: list[PlannedRange] = []
    for index, part in enumerate(ranges):
        middle = _middle(part, target, must_cost_nothing)
        if middle > part.start or part.start == part.end:
            piece.append(replace(part, end=middle))
            target -= piece[-1].bytes
        if middle < part.end:
            return piece, [replace(part, start=middle), *ranges[index + 1 :]]
    return piece, []


def _middle(part: PlannedRange, target: float, must_cost_nothing: bool) -> int:
    """The cut of a range after about ``target`` bytes; its start or its end where it is better left whole."""
    if target >= part.bytes:
        return part.end
    extent = part.extent
    cuts_anywhere = extent.divisible and (extent.cuts_cost_nothing or not must_cost_nothing)
    if not cuts_anywhere and not extent.preferred_cuts:
        return part.end if target * 2 >= part.bytes else part.start
    units = max(int(target / max(extent.bytes_per_unit, 1e-9)), 0)
    slack = min(units, part.end - part.start - units) // 2 if cuts_anywhere else extent.length
    return min(max(_nearest(extent, part.start + units, slack), part.start), part.end)


def _nearest(extent: FileExtent, unit: int, slack: int, most: float = math.inf) -> int:
    """The preferred cut next to ``unit``, up to ``most``, when one is within ``slack``, else ``unit`` itself."""
    best = min((cut for cut in extent.preferred_cuts if cut <= most), key=lambda cut: abs(cut - unit), default=unit)
    return best if abs(best - unit) <= slack else unit


SPLIT = "files"
_NANOS_PER_MILLI = 1_000_000


class FileEnumerator(SplitEnumerator):
    """Knows the files and their order.

    A set of files that is given once is read in path order. New files of a watched folder are read in the order
    of (modification time, path) among those found together, after all that were found before. A file is
    immutable once it was seen.

    A position is ``[ordinal, offset]``: the number of a file in the order of reading, and how far it was read, in units
    of the file's format. The offset is below the file's length.

    Args:
        selection: the files.
        fmt: their format.
        watch: how often to look for new files, in milliseconds, and how much older than the newest file seen one may
            be by its modification time: older ones are forgotten once they are read, and are not read when they turn
            up. None to look once.
        context: where to keep the list of files, and what is known from before.
        skip_policy: what the source goes on without.
        splittable: whether files may be cut.
    """

    def __init__(
        self,
        selection: FileSelection,
        fmt: FileFormat,
        watch: tuple[int, int] | None,
        context: EnumeratorContext,
        skip_policy: SkipPolicy,
        *,
        splittable: bool = True,
    ) -> None:
        self._limit = selection.limit if fmt.units_are_records else None
        self._paths = InputPaths(selection.paths, context.storage_options, selection.accepts)
        if context.state is None or watch is not None:  # else no file is looked for any more
            self._paths.check_apart_from(str(context.folder))
        self._format = fmt
        self._splittable = splittable
        self._is_watching = watch is not None
        self._interval, self._horizon = watch or (0, 0)
        self._skip_policy = skip_policy
        self._journal = FileJournal(context.folder, context.state, 0 if self._is_watching else MOST_INSIDE)
        self._known = self._journal.known
        # What is to be read wins: a name that was forgotten may come again, and the log still has both files.
        self._seen = dict(self._known.consumed)
        self._pending_bytes = 0
        self._count(self._known.pending)
        self._planned: dict[str, PlannedRange] = {}
        self._folders = self._paths.folders(self._seen) if watch is not None else []
        self._last_scan: int | None = None
        self._swept_at = 0
        if context.state is None:
            found = self._paths.first_look(for_ever=watch is not None)
            if watch is None:
                self._add(found, self._known.newest)

    def discover(self, now: int) -> Sequence[str]:
        if self._is_watching:
            self._scan(now)
        return (SPLIT,)

    def initial_position(self, split_id: str) -> Json:
        return [0, 0]

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        if self._is_watching:
            self._scan(now)
        ordinal, offset = position
        return plan_files(split_id, (ordinal, offset), budget, self._file_at)

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        """The bytes of files that are known; those that were planned and not consumed yet are few."""
        ordinal, offset = position
        read = self._known.pending[: max(0, ordinal - self._known.first)]
        left = self._pending_bytes - sum(status.size for status in read)
        if offset:
            begun = self._planned.get(self._known.pending[len(read)].path) or self._file_at(ordinal)
            left -= 0 if begun is None else round(offset * begun.extent.bytes_per_unit)
        return Pending(bytes=max(0, left))

    def is_finished(self, split_id: str, position: Json) -> bool:
        ordinal, offset = position
        if self._limit is not None and offset >= self._limit:  # so many were read of this file alone
            return True
        return not self._is_watching and ordinal >= self._known.first + len(self._known.pending)

    def snapshot(self) -> Json:
        return self._journal.reference()

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        if SPLIT not in positions:
            return
        known = self._known
        count = max(positions[SPLIT][0] - known.first, 0)
        done = known.pending[:count]  # read for good
        del known.pending[:count]
        known.first += count
        for status in done:
            self._pending_bytes -= status.size
            self._planned.pop(status.path, None)
            known.consumed[status.path] = status
        if self._is_watching:
            self._forget()
        self._journal.manifest_written()

    def _file_at(self, ordinal: int) -> PlannedRange | None:
        index = ordinal - self._known.first
        if index >= len(self._known.pending):
            return None
        status = self._known.pending[index]
        planned = self._planned.get(status.path)
        if planned is None or planned.skipped is None:  # what is skipped stays so
            planned = self._planned[status.path] = self._look_at(status, planned)
        return planned

    def _look_at(self, status: FileStatus, before: PlannedRange | None) -> PlannedRange:
        try:
            check_unchanged(self._paths.store_of(status.path), status)
            if before is not None:
                return before
            extent = self._measure(status)
            return PlannedRange(status, extent, 0, extent.length)
        except (CorruptFileError, *GONE) as error:
            skipped = self._skip_policy.skip(status.path, error)
            return PlannedRange(status, FileExtent(0, divisible=False), 0, 0, skipped)

    def _measure(self, status: FileStatus) -> FileExtent:
        store = self._paths.store_of(status.path)
        try:
            extent = self._format.extent(InputFile(store, status.path, status.size))
        except (CorruptFileError, OSError) as error:
            check_unchanged(store, status)  # that it was changed meanwhile says more
            if isinstance(error, (CorruptFileError, *GONE)):
                raise
            raise unreadable(status.path, error) from error
        return extent if self._splittable else replace(extent, divisible=False)

    def _scan(self, now: int) -> None:
        """Look for new files of folders that are watched, when it is time to."""
        if self._last_scan is not None and now < self._last_scan + self._interval:
            return
        self._paths.check_still_there(self._folders)
        cutoff = self._cutoff()
        new = [status for status in self._paths.find() if self._is_new(status, cutoff)]
        if new:
            # A file from the future must not make those of today too old.
            newest = min(max(status.mtime_ns for status in new), now * _NANOS_PER_MILLI)
            self._add(sorted(new, key=lambda status: (status.mtime_ns, status.path)), newest)
        self._last_scan = now  # after all that may fail, so that a second try looks again

    def _is_new(self, status: FileStatus, cutoff: int | None) -> bool:
        seen = self._seen.get(status.path)
        if seen is None or self._is_forgotten(seen, cutoff):
            return cutoff is None or status.mtime_ns >= cutoff
        if seen != status:
            raise SourceChangedError(
                f"{shown(status.path)} {_difference(seen, status)}: files must not be changed. Write a file under a "
                "name that starts with a dot and rename it when it is complete"
            )
        return False

    def _is_forgotten(self, status: FileStatus, cutoff: int | None) -> bool:
        """Tell whether a file is known only because its own path was given, see :meth:`_forget`."""
        is_consumed = self._known.consumed.get(status.path) == status
        return is_consumed and cutoff is not None and status.mtime_ns < cutoff and self._paths.names(status.path)

    def _cutoff(self) -> int | None:
        """The modification time below which unknown files are too old; None at the first look."""
        if self._known.first == 0 and not self._seen:
            return None
        return self._known.newest - self._horizon * _NANOS_PER_MILLI

    def _add(self, files: list[FileStatus], newest: int) -> None:
        self._journal.add(files, newest)
        self._count(files)

    def _count(self, files: list[FileStatus]) -> None:
        for status in files:
            self._pending_bytes += status.size
            self._seen[status.path] = status

    def _forget(self) -> None:
        """Drop the files that are beyond the horizon.

        Those whose own path was given stay: a path with nothing there would be taken for a folder that is gone.
        """
        cutoff = self._cutoff()
        if cutoff is None or cutoff - self._swept_at < self._horizon * _NANOS_PER_MILLI // 64:
            return
        self._swept_at = cutoff
        consumed = self._known.consumed
        for status in [status for status in consumed.values() if status.mtime_ns < cutoff]:
            if self._paths.names(status.path):
                continue
            del consumed[status.path]
            if self._seen[status.path] == status:  # else the name has come again
                del self._seen[status.path]


def _difference(seen: FileStatus, now: FileStatus) -> str:
    if seen.size != now.size:
        return f"had {seen.size} bytes when it was first seen and has {now.size} now"
    return "was written to after it was first seen"
