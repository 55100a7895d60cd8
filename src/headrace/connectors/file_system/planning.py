"""Cutting an epoch's share out of a row of files.

A position is ``[ordinal, offset]``: the number of a file in the order of reading, and how far it was read, in units of
the file's format. It is normal when the offset is below the file's length.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.connectors.source import SplitRead
from headrace.formats.file_format import FileExtent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.connectors.file_system.skipped_files import SkippedRange
    from headrace.connectors.source import Json, ReadBudget
    from headrace.storage.files import FileStatus

MAX_FILES = 10_000
"""How many files an epoch reads at most, so that a piece stays small whatever the budget."""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that is to be read.

    Attributes:
        status: the file.
        extent: how it can be cut.
        lost: why the source goes on without what was not read of it yet.
    """

    status: FileStatus
    extent: FileExtent
    lost: SkippedRange | None = None

    @staticmethod
    def without(status: FileStatus, lost: SkippedRange) -> PlannedFile:
        """A file of which nothing is left to read."""
        return PlannedFile(status, FileExtent(0, divisible=False), lost)


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of one file that an epoch reads.

    Attributes:
        file: the file.
        start: the first unit.
        end: the unit after the last one.
    """

    file: PlannedFile
    start: int
    end: int

    @property
    def extent(self) -> FileExtent:
        """How the file can be cut."""
        return self.file.extent

    @property
    def bytes(self) -> float:
        """How many bytes the part takes, at least one: opening a file costs something as well."""
        return max((self.end - self.start) * self.extent.bytes_per_unit, 1.0)

    @property
    def records(self) -> float:
        """How many records the part is guessed to hold."""
        return (self.end - self.start) * self.extent.records_per_unit

    def to_json(self) -> Json:
        """What the reader needs."""
        status, lost = self.file.status, self.file.lost
        told = [] if lost is None else [lost.to_json()]
        return [status.path, status.size, status.mtime_ns, self.start, self.end, *told]


@dataclass(slots=True)
class _Share:
    """What an epoch reads, while it is being put together."""

    budget: ReadBudget
    segments: list[Segment] = field(default_factory=list)
    bytes: float = 0.0
    records: float = 0.0

    def add(self, segment: Segment) -> None:
        self.segments.append(segment)
        self.bytes += segment.bytes
        self.records += segment.records

    @property
    def is_full(self) -> bool:
        full = self.bytes >= self.budget.bytes or self.records >= self.budget.records
        return full or len(self.segments) >= MAX_FILES

    def units_left(self, extent: FileExtent) -> int:
        """How many units of the next file still fit."""
        by_bytes = (self.budget.bytes - self.bytes) / max(extent.bytes_per_unit, 1e-9)
        by_records = (self.budget.records - self.records) / max(extent.records_per_unit, 1e-9)
        return int(min(by_bytes, by_records, extent.length))


def plan_files(
    split_id: str,
    position: tuple[int, int],
    budget: ReadBudget,
    file_at: Callable[[int], PlannedFile | None],
) -> SplitRead | None:
    """An epoch's share of the files from ``position`` on.

    Args:
        split_id: the split.
        position: the first file and where to go on in it.
        budget: how much the epoch may take; one unit, or one file that cannot be cut, is taken in any case.
        file_at: gives a file by ordinal; None beyond the last one.
    """
    share = _Share(budget)
    ordinal, offset = position
    while not share.is_full and (file := file_at(ordinal)) is not None:
        extent = file.extent
        offset = min(offset, extent.length)  # a file that was lost halfway has no length any more
        end = _end_within(extent, offset, share.units_left(extent), must=not share.segments)
        if end is None:
            break
        share.add(Segment(file, offset, end))
        ordinal, offset = (ordinal, end) if end < extent.length else (ordinal + 1, 0)
        if offset:
            break
    if not share.segments:
        return None
    return SplitRead(
        split_id,
        list(position),
        [ordinal, offset],
        tuple([segment.to_json() for segment in piece] for piece in cut_segments(share.segments, budget.pieces)),
        records=round(share.records),
        bytes=round(share.bytes),
    )


def _end_within(extent: FileExtent, start: int, room: int, *, must: bool) -> int | None:
    """Where to stop in a file that is read from ``start`` when ``room`` units are left; None for not to begin."""
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


def cut_segments(segments: list[Segment], pieces: int) -> Iterator[list[Segment]]:
    """The segments in at most ``pieces`` runs of about equal bytes, in order, none of them empty."""
    left = segments
    for wanted in range(pieces, 1, -1):
        piece, left = _take(left, sum(segment.bytes for segment in left) / wanted)
        if piece:
            yield piece
    if left:
        yield left


def _take(segments: list[Segment], target: float) -> tuple[list[Segment], list[Segment]]:
    """About the first ``target`` bytes of some segments, and the rest of them."""
    piece: list[Segment] = []
    for index, segment in enumerate(segments):
        head, rest = _split(segment, target)
        if head is not None:
            piece.append(head)
            target -= head.bytes
        if rest is not None:
            return piece, [rest, *segments[index + 1 :]]
    return piece, []


def _split(segment: Segment, target: float) -> tuple[Segment | None, Segment | None]:
    """Cut a segment after about ``target`` bytes; either half may be missing."""
    if target >= segment.bytes:
        return segment, None
    extent = segment.extent
    if not extent.divisible:
        return (segment, None) if target * 2 >= segment.bytes else (None, segment)
    units = max(int(target / max(extent.bytes_per_unit, 1e-9)), 0)
    slack = min(units, segment.end - segment.start - units) // 2
    middle = _nearest(extent, segment.start + units, slack)
    if middle <= segment.start:
        return None, segment
    if middle >= segment.end:
        return segment, None
    return (
        Segment(segment.file, segment.start, middle),
        Segment(segment.file, middle, segment.end),
    )


def _nearest(extent: FileExtent, unit: int, slack: int) -> int:
    """The preferred cut next to ``unit`` when one is within ``slack``, else ``unit`` itself."""
    best = min(extent.preferred_cuts, key=lambda cut: abs(cut - unit), default=unit)
    return best if abs(best - unit) <= slack else unit
