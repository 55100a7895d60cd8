"""Compaction: of each key only the latest record stays, with the offset that it has.

A deletion (a value that is None) stays for a while after it was compacted, so that readers who are behind learn of it.
How long is counted from the compaction that first had it, which its segment remembers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.log.merging import Rewritten, joined, pieces_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from headrace.log.segments import Segment
    from headrace.log.topics import TopicConfig

_NOT_YET: Final = -1
_WITHOUT_DELETIONS: Final = 0

_DIRTY_SHARE: Final = 0.5
"""What share of a partition's bytes has to be new for it to be compacted by itself."""

_GROUPED_ROWS: Final = 1 << 20
"""How many records there are before the latest of each key is looked for."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What compaction makes of a partition.

    Attributes:
        replaced: the segments that go.
        parts: what takes their place; each is read when it is asked for, so that memory has to hold the keys, and not
            the partition.
    """

    replaced: list[Segment]
    parts: Iterator[Rewritten]


def compact(
    segments: Sequence[Segment],
    read: Callable[[Sequence[Segment]], Iterator[pa.RecordBatch]],
    config: TopicConfig,
    now: int,
    *,
    fully: bool = False,
) -> Compacted | None:
    """Leave the latest record of each key.

    Args:
        segments: of a partition.
        read: reads some of them.
        config: of the topic.
        now: in milliseconds.
        fully: whether to do it however little is new.

    Returns:
        None when it is not worth it.
    """
    lag = config.min_compaction_lag_ms
    chosen = _old_enough(segments, now - lag) if lag else list(segments)  # timestamps may be ahead of the clock
    if not _is_worth_it(chosen, now - config.delete_retention_ms, fully=fully):
        return None
    latest = _latest_offsets(read(chosen))
    return Compacted(chosen, _parts(chosen, read, latest, now, now - config.delete_retention_ms))


def _parts(
    segments: Sequence[Segment],
    read: Callable[[Sequence[Segment]], Iterator[pa.RecordBatch]],
    latest: pa.Array,
    now: int,
    until: int,
) -> Iterator[Rewritten]:
    for compacted, together in _alike(segments, now, until):
        batch = joined(read(together))
        kept = batch.filter(_kept(batch, latest, drops_deletions=compacted == _WITHOUT_DELETIONS))
        if kept.num_rows:
            has_deletions = kept.column("value").null_count > 0
            yield Rewritten(kept, compacted if has_deletions else _WITHOUT_DELETIONS)


def _old_enough(segments: Sequence[Segment], until: int) -> list[Segment]:
    """The segments from the beginning that are old enough."""
    count = next((n for n, segment in enumerate(segments) if segment.max_timestamp > until), len(segments))
    return list(segments[:count])


def _is_worth_it(segments: Sequence[Segment], deletions_until: int, *, fully: bool) -> bool:
    new = sum(segment.raw_bytes for segment in segments if segment.compacted == _NOT_YET)
    has_old_deletions = any(_WITHOUT_DELETIONS < segment.compacted <= deletions_until for segment in segments)
    if fully:
        return bool(new) or has_old_deletions
    return new > _DIRTY_SHARE * sum(segment.raw_bytes for segment in segments)


def _latest_offsets(batches: Iterable[pa.RecordBatch]) -> pa.Array:
    """The offset of the latest record of each key, in order."""
    latest, new, rows = None, list[pa.Table](), 0
    for batch in batches:
        new.append(pa.table({name: batch.column(name) for name in ("offset", "key")}))
        rows += batch.num_rows
        if rows >= max(_GROUPED_ROWS, 0 if latest is None else latest.num_rows):
            latest, new, rows = _latest(latest, new), [], 0
    return pa.array(np.sort(_latest(latest, new).column("offset").to_numpy()))


def _latest(known: pa.Table | None, new: list[pa.Table]) -> pa.Table:
    """The offset of the latest record of each key, of some that are known and new ones."""
    table = pa.concat_tables([*([] if known is None else [known]), *new])
    grouped = table.group_by("key").aggregate([("offset", "max")])
    return grouped.select(["offset_max", "key"]).rename_columns(["offset", "key"])


def _kept(batch: pa.RecordBatch, latest: pa.Array, *, drops_deletions: bool) -> pa.Array:
    # What has no key supersedes nothing: it is of a time when the topic was not compacted.
    kept = pc.or_(pc.is_in(batch.column("offset"), latest), batch.column("key").is_null())
    return pc.and_(kept, batch.column("value").is_valid()) if drops_deletions else kept


def _alike(segments: Sequence[Segment], now: int, deletions_until: int) -> Iterator[tuple[int, list[Segment]]]:
    """Segments beside each other whose deletions go at the same time, in pieces that fit into memory.

    What is new counts from now on; what has deletions that may go is like what has none.
    """

    def group(segment: Segment) -> int:
        if segment.compacted == _NOT_YET:
            return now
        return _WITHOUT_DELETIONS if segment.compacted <= deletions_until else segment.compacted

    for compacted, alike in groupby(segments, group):
        for together in pieces_of(alike):
            yield compacted, together
