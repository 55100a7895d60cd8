"""Small segments become large ones: one file instead of many, in Arrow messages that are worth their bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.log.records import HEADERS_FIELD, OFFSET
from headrace.log.segments import MAX_BYTES, MAX_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from headrace.log.segments import Segment

_LARGE_BYTES: Final = MAX_BYTES // 4
_LARGE_ROWS: Final = MAX_ROWS // 4
"""A segment with so much is not merged with others any more."""

_FEW_BYTES: Final = 64 << 10
"""A segment with so little is merged whatever comes after it."""

_WORTH_IT: Final = 16
"""How many segments have to become one for it to be done by itself."""

_AT_ONCE_BYTES: Final = 4 * MAX_BYTES


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Records that take the place of others.

    Attributes:
        batch: the records, with their offsets.
        compacted: as :attr:`~headrace.log.segments.Segment.compacted`.
    """

    batch: pa.RecordBatch
    compacted: int = -1


def small_segments(segments: Sequence[Segment], *, fully: bool = False) -> Iterator[list[Segment]]:
    """Runs of segments that are to be merged.

    Of each run of small segments those at its end are taken that together are as large as the one before them: so a
    record is rewritten as often as the size doubles, and not with every merge.

    Args:
        segments: of a partition.
        fully: whether two are enough.
    """
    for run in _runs(segments):
        first = len(run) - 1
        size = run[first].raw_bytes
        while first and (fully or run[first - 1].raw_bytes <= max(size, _FEW_BYTES)):
            first -= 1
            size += run[first].raw_bytes
        chosen = run[first:]
        if len(chosen) >= (2 if fully else _WORTH_IT):
            yield chosen


def merge(segments: Sequence[Segment], read: Callable[[Sequence[Segment]], Iterator[pa.RecordBatch]]) -> Rewritten:
    """The records of segments together."""
    batch = joined(read(segments))
    has_gaps = batch.num_rows != segments[-1].end_offset - segments[0].base_offset
    return Rewritten(batch if has_gaps else batch.drop_columns([OFFSET.name]))


def joined(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches as one; without headers if there are none."""
    batch = pa.concat_batches(list(batches))
    headers = batch.column(HEADERS_FIELD.name)
    return batch.drop_columns([HEADERS_FIELD.name]) if headers.null_count == len(headers) else batch


def pieces_of(segments: Iterable[Segment]) -> Iterator[list[Segment]]:
    """Segments beside each other in pieces that fit into memory."""
    piece: list[Segment] = []
    size = 0
    for segment in segments:
        if piece and size + segment.raw_bytes > _AT_ONCE_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(segment)
        size += segment.raw_bytes
    if piece:
        yield piece


def _runs(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Small segments that lie together, in pieces that fit into memory."""
    run: list[Segment] = []
    size = 0
    for segment in segments:
        is_large = segment.raw_bytes >= _LARGE_BYTES or segment.rows >= _LARGE_ROWS
        if run and (is_large or size + segment.raw_bytes > _AT_ONCE_BYTES):
            yield run
            run, size = [], 0
        if not is_large:
            run.append(segment)
            size += segment.raw_bytes
    if run:
        yield run
