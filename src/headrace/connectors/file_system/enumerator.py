"""The driver's half of the file source: one split, the files in their order of reading."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from headrace.common.errors import CorruptFileError, SourceChangedError
from headrace.connectors.file_system.file_log import FileJournal
from headrace.connectors.file_system.paths import (
    GONE,
    InputPaths,
    SkippedRange,
    SkipPolicy,
    check_unchanged,
    unreadable,
)
from headrace.connectors.source import EnumeratorContext, Json, Pending, ReadBudget, SplitEnumerator, SplitRead
from headrace.formats.file_format import FileExtent, FileFormat
from headrace.storage.files import FileStatus, InputFile, shown

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
    skipped: SkippedRange | None = None

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
        skipped = [] if self.skipped is None else [[self.skipped.counter, self.skipped.reason]]
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
    pieces = tuple([part.to_json() for part in piece] for piece in cut_ranges(taken, budget.pieces))
    return SplitRead(split_id, list(position), [ordinal, offset], pieces, records=round(records), bytes=round(size))


def _end_within(extent: FileExtent, start: int, room: int, *, must: bool) -> int | None:
    """The end of the part of a file from ``start``, when ``room`` units are left; None where reading does not begin."""
    if start + room >= extent.length:
        return extent.length
    if not extent.divisible:
        return extent.length if must else None
    if room <= 0:
        return min(start + 1, extent.length) if must else None
    return _snap(extent, start, start + room, slack=room // 2)


def _snap(extent: FileExtent, start: int, end: int, slack: int) -> int:
    """The last preferred cut up to ``end``, when one is within ``slack`` units of it."""
    near = [cut for cut in extent.preferred_cuts if max(end - slack, start + 1) <= cut <= end]
    return near[-1] if near else end


def cut_ranges(ranges: list[PlannedRange], pieces: int) -> Iterator[list[PlannedRange]]:
    """The ranges in at most ``pieces`` runs of about equal bytes, in order, none of them empty."""
    left = ranges
    for wanted in range(pieces, 1, -1):
        piece, left = _take(left, sum(part.bytes for part in left) / wanted)
        if piece:
            yield piece
    if left:
        yield left


def _take(ranges: list[PlannedRange], target: float) -> tuple[list[PlannedRange], list[PlannedRange]]:
    """About the first ``target`` bytes of some ranges, and the rest of them."""
    piece: list[PlannedRange] = []
    for index, part in enumerate(ranges):
        middle = _middle(part, target)
        if middle > part.start or part.start == part.end:
            piece.append(replace(part, end=middle))
            target -= piece[-1].bytes
        if middle < part.end:
            return piece, [replace(part, start=middle), *ranges[index + 1 :]]
    return piece, []


def _middle(part: PlannedRange, target: float) -> int:
    """The cut of a range after about ``target`` bytes; its start or its end where it is better left whole."""
    if target >= part.bytes:
        return part.end
    extent = part.extent
    if not extent.divisible:
        return part.end if target * 2 >= part.bytes else part.start
    units = max(int(target / max(extent.bytes_per_unit, 1e-9)), 0)
    slack = min(units, part.end - part.start - units) // 2
    return min(max(_nearest(extent, part.start + units, slack), part.start), part.end)


def _nearest(extent: FileExtent, unit: int, slack: int) -> int:
    """The preferred cut next to ``unit`` when one is within ``slack``, else ``unit`` itself."""
    best = min(extent.preferred_cuts, key=lambda cut: abs(cut - unit), default=unit)
    return best if abs(best - unit) <= slack else unit


SPLIT = "files"
_NANOS_PER_MILLI = 1_000_000


@dataclass(frozen=True, slots=True)
class Watch:
    """The settings for watching a folder.

    Attributes:
        interval: how often to look for new files, in milliseconds.
        horizon: how much older than the newest file seen a file may be, in milliseconds of modification time; older
            ones are forgotten once they are read, and are not read when they turn up.
    """

    interval: int
    horizon: int


class FileEnumerator(SplitEnumerator):
    """Knows the files and their order.

    A set of files that is given once is read in path order. New files of a watched folder are read in the order
    of (modification time, path) among those found together, after all that were found before. A file is
    immutable once it was seen.

    A position is ``[ordinal, offset]``: the number of a file in the order of reading, and how far it was read, in units
    of the file's format. The offset is below the file's length.

    Args:
        paths: files, folders and patterns.
        fmt: the format of the files.
        watch: how to look for new files; None to look once.
        context: where to keep the list of files, and what is known from before.
        skip_policy: what the source goes on without.
        splittable: whether files may be cut.
    """

    def __init__(
        self,
        paths: Sequence[str],
        fmt: FileFormat,
        watch: Watch | None,
        context: EnumeratorContext,
        skip_policy: SkipPolicy,
        *,
        splittable: bool = True,
    ) -> None:
        self._paths = InputPaths(paths, context.storage_options)
        if context.state is None or watch is not None:  # else no file is looked for any more
            self._paths.check_apart_from(str(context.folder))
        self._format = fmt
        self._splittable = splittable
        self._watch = watch
        self._skip_policy = skip_policy
        self._journal = FileJournal(context.folder, context.state)
        self._known = self._journal.known
        # What is to be read wins: a name that was forgotten may come again, and the log still tells of both files.
        self._seen = self._known.consumed | {status.path: status for status in self._known.pending}
        self._pending_bytes = sum(status.size for status in self._known.pending)
        self._planned: dict[str, PlannedRange] = {}
        self._folders = self._paths.folders(self._seen)
        self._last_scan: int | None = None
        self._swept_at = 0
        if context.state is None:
            self._paths.check_exist(for_ever=watch is not None)
            self._paths.tell_of_nothing(for_ever=watch is not None)
            if watch is None:
                self._add(self._paths.find(), self._known.newest)

    def discover(self, now: int) -> Sequence[str]:
        self._scan(now)
        return (SPLIT,)

    def initial_position(self, split_id: str) -> Json:
        return [0, 0]

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
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
        return self._watch is None and position[0] >= self._known.first + len(self._known.pending)

    def snapshot(self) -> Json:
        return self._journal.reference()

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        if SPLIT in positions:
            self._consume(positions[SPLIT][0])
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
        """Look for new files when it is time to."""
        if self._watch is None or (self._last_scan is not None and now < self._last_scan + self._watch.interval):
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
        if self._watch is None or (self._known.first == 0 and not self._seen):
            return None
        return self._known.newest - self._watch.horizon * _NANOS_PER_MILLI

    def _add(self, files: list[FileStatus], newest: int) -> None:
        self._journal.add(files, newest)
        self._pending_bytes += sum(status.size for status in files)
        self._seen.update((status.path, status) for status in files)

    def _consume(self, ordinal: int) -> None:
        """Count all files before ``ordinal`` as read for good."""
        known = self._known
        count = max(ordinal - known.first, 0)
        done = known.pending[:count]
        del known.pending[:count]
        known.first += count
        for status in done:
            self._pending_bytes -= status.size
            self._planned.pop(status.path, None)
            known.consumed[status.path] = status
        self._forget()

    def _forget(self) -> None:
        """Drop the files that are beyond the horizon.

        Those whose own path was given stay: a path with nothing there would be taken for a folder that is gone.
        """
        cutoff = self._cutoff()
        if cutoff is None or self._watch is None:
            return
        if cutoff - self._swept_at < self._watch.horizon * _NANOS_PER_MILLI // 64:
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
