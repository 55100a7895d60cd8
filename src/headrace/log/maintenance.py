"""Maintenance of a log: retention, compaction, merging of small segments, removal of files that are not needed.

All of it goes through commits, so any number of processes may do it at once, and any of them may die. New segments are
written before the commit that names them, and files are removed after the one that no longer does. A reader of an
older version meanwhile does not find a file, and looks again.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import LogCorruptedError, LogError, UnknownTopicError
from headrace.common.logs import get_logger
from headrace.common.messages import TopicPartition
from headrace.log.commits import Commit, LogState, Partition, Replacement, TopicConfig
from headrace.log.journal import CHUNKS, Journal, abandoned, new_chunk, read_name
from headrace.log.records import HAS_OFFSETS, HEADERS_FIELD, MAX_BYTES, MAX_ROWS, OFFSET, Segment, encode, runs_of
from headrace.log.transactions import check_staged

logger = get_logger(__name__)

_LARGE_BYTES: Final = MAX_BYTES // 4
_LARGE_ROWS: Final = MAX_ROWS // 4
"""A segment with so much is not merged with others any more."""

_FEW_BYTES: Final = 64 << 10
"""A segment with so little is merged whatever comes after it."""

_WORTH_IT: Final = 16
"""Fewer segments are not merged unless that is requested."""

_AT_ONCE_BYTES: Final = 4 * MAX_BYTES


Rewritten = tuple[pa.RecordBatch, int]
"""Records that take the place of others, and their :attr:`~headrace.log.records.Segment.compacted`."""

_NOT_YET: Final = -1
_WITHOUT_DELETIONS: Final = 0


def small_segments(segments: Sequence[Segment], *, fully: bool = False) -> Iterator[list[Segment]]:
    """Select runs of small segments to merge.

    Of each run of small segments those at its end are taken that together are as large as the one before them: so a
    record is rewritten as often as the size doubles, and not with every merge.

    Args:
        segments: of a partition.
        fully: whether two are enough.
    """
    for run in runs_of(segments, _AT_ONCE_BYTES, lambda one, other: not _is_large(one) and not _is_large(other)):
        if _is_large(run[0]):
            continue
        first = len(run) - 1
        size = run[first].raw_bytes
        while first and (fully or run[first - 1].raw_bytes <= max(size, _FEW_BYTES)):
            first -= 1
            size += run[first].raw_bytes
        chosen = run[first:]
        if len(chosen) >= (2 if fully else _WORTH_IT):
            yield chosen


def merge(segments: Sequence[Segment], read: Callable[[Sequence[Segment]], Iterator[pa.RecordBatch]]) -> Rewritten:
    """Join the records of segments."""
    batch = joined(read(segments))
    has_gaps = batch.num_rows != segments[-1].end_offset - segments[0].base_offset
    return batch if has_gaps else batch.drop_columns([OFFSET.name]), _NOT_YET


def joined(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches; the column of headers is dropped if all are null."""
    batch = pa.concat_batches(list(batches))
    headers = batch.column(HEADERS_FIELD.name)
    return batch.drop_columns([HEADERS_FIELD.name]) if headers.null_count == len(headers) else batch


def _is_large(segment: Segment) -> bool:
    return segment.raw_bytes >= _LARGE_BYTES or segment.rows >= _LARGE_ROWS


_DIRTY_SHARE: Final = 0.5
"""The share of a partition's bytes that has to be new for it to be compacted by itself."""

_GROUPED_ROWS: Final = 1 << 20
"""The records that are collected before the latest of each key is looked for."""


def compact(
    segments: Sequence[Segment],
    read: Callable[[Sequence[Segment]], Iterator[pa.RecordBatch]],
    config: TopicConfig,
    now: int,
    *,
    fully: bool = False,
) -> tuple[list[Segment], Iterator[Rewritten]] | None:
    """Compact a partition to the latest record of each key.

    Args:
        segments: of a partition.
        read: reads some of them.
        config: of the topic.
        now: in milliseconds.
        fully: whether to do it however little is new.

    Returns:
        The segments that go, and what takes their place. Each part is read when it is taken, so that memory has to
        hold the keys, and not the partition. None when it is not worth it.
    """
    lag = config.min_compaction_lag_ms
    chosen = _old_enough(segments, now - lag) if lag else list(segments)  # timestamps may be ahead of the clock
    if not _is_worth_it(chosen, now - config.delete_retention_ms, fully=fully):
        return None
    latest = _latest_offsets(read(chosen))
    return chosen, _parts(chosen, read, latest, now, now - config.delete_retention_ms)


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
            yield kept, compacted if has_deletions else _WITHOUT_DELETIONS


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
        for together in runs_of(alike, _AT_ONCE_BYTES):
            yield compacted, together


_STAGED_LIFE_MS: Final = 7 * 86_400_000
"""The time in which a writer has to commit records that it has in memory; later it writes them anew."""


class Maintained(NamedTuple):
    """The results of maintenance.

    Attributes:
        deleted: offsets that are gone by time or size.
        superseded: records that were compacted away.
        merged: segments that others have taken the place of.
        removed: files that were removed.
    """

    deleted: int = 0
    superseded: int = 0
    merged: int = 0
    removed: int = 0


def maintain(journal: Journal, topics: Iterable[str] | None = None, *, fully: bool = False) -> Maintained:
    """Apply retention, compaction and merging to a log, and remove files that nothing needs.

    Args:
        journal: of the log.
        topics: which topics; all if left out.
        fully: whether to merge and compact all there is; otherwise what is worth it.

    Raises:
        LogCorruptedError: when a file is damaged.
        OSError: when a file cannot be read or written.
    """
    journal.refresh()
    done = list[Maintained]()
    with journal.lock:
        partitions = [
            (partition, journal.state().topic(partition.topic).config)
            for partition, _ in journal.state().partitions()
            if topics is None or partition.topic in set(topics)
        ]
        files = journal.state().files()
    for partition, config in partitions:
        journal.claim.renew(journal.state().version)
        try:
            done += _maintain(journal, partition, config, fully=fully)
        except (_SupersededError, UnknownTopicError):  # another process has maintained it, or has deleted it
            continue
    if fully:
        journal.write_snapshot()
    done.append(Maintained(removed=_remove_files(journal, files)))
    return Maintained(*map(sum, zip(*done, strict=True)))


def maintain_in_turn(journal: Journal) -> None:
    """Write a snapshot, and maintain the log unless another process does; failures are logged."""
    journal.write_snapshot()
    try:
        with journal.claim.held(journal.state().version) as is_mine:
            if is_mine:
                maintain(journal)
    except (OSError, LogError) as error:
        logger.warning("%s: maintenance failed: %s", journal, error)


def _maintain(journal: Journal, partition: TopicPartition, config: TopicConfig, *, fully: bool) -> Iterator[Maintained]:
    if config.deletes:
        yield _retain(journal, partition)
    if config.compacts:
        yield _compact(journal, partition, config, fully=fully)
    else:
        yield from _merge(journal, partition, fully=fully)


# --- retention -------------------------------------------------------------------------------------------------------


def _retain(journal: Journal, partition: TopicPartition) -> Maintained:
    def start_of(state: LogState) -> int:
        config = state.topic(partition.topic).config
        return first_kept(state.partition(partition), config, journal.clock())

    def describe(commit: Commit, state: LogState) -> Commit:
        return replace(commit, starts={partition: start_of(state)})

    with journal.lock:
        before = journal.state().partition(partition).start_offset
        if start_of(journal.state()) == before:
            return Maintained()
        journal.change(describe)
        return Maintained(deleted=journal.state().partition(partition).start_offset - before)


def first_kept(partition: Partition, config: TopicConfig, now: int) -> int:
    """The offset that a partition is to begin at, by time and size; a segment goes wholly or not at all."""
    start = partition.start_offset
    size = partition.bytes
    for segment in partition.segments:
        is_old = config.retention_ms >= 0 and segment.max_timestamp < now - config.retention_ms
        is_too_much = config.retention_bytes >= 0 and size - segment.length >= config.retention_bytes
        if not is_old and not is_too_much:
            break
        start = segment.end_offset
        size -= segment.length
    return start


# --- merging and compaction ------------------------------------------------------------------------------------------


def _merge(journal: Journal, partition: TopicPartition, *, fully: bool) -> Iterator[Maintained]:
    for segments in small_segments(_segments(journal, partition), fully=fully):
        with _reading(journal, partition, segments):
            merged = merge(segments, journal.segments.read)
        _rewrite(journal, partition, segments, [merged])
        yield Maintained(merged=len(segments))


def _compact(journal: Journal, partition: TopicPartition, config: TopicConfig, *, fully: bool) -> Maintained:
    segments = _segments(journal, partition)
    with _reading(journal, partition, segments):
        compacted = compact(segments, journal.segments.read, config, journal.clock(), fully=fully)
        if compacted is None:
            return Maintained()
        replaced, parts = compacted
        left = _rewrite(journal, partition, replaced, parts)
    before = sum(segment.rows for segment in replaced)
    return Maintained(superseded=before - left, merged=len(replaced))


@contextlib.contextmanager
def _reading(journal: Journal, partition: TopicPartition, segments: Sequence[Segment]) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        journal.refresh()
        if set(segments) <= set(_segments(journal, partition)):
            raise LogCorruptedError(f"{journal}: a file of {partition} is missing: {error}") from error
        raise _SupersededError from error


def _segments(journal: Journal, partition: TopicPartition) -> list[Segment]:
    with journal.lock:
        return list(journal.state().partition(partition).segments)


def _rewrite(
    journal: Journal, partition: TopicPartition, segments: Sequence[Segment], parts: Iterable[Rewritten]
) -> int:
    """Replace segments by others with the given records.

    Returns:
        How many records these have.

    Raises:
        _SupersededError: when those are not there any more.
    """
    with journal.lock:
        version = journal.state().version
        compression = journal.state().topic(partition.topic).config.arrow_compression
    start, end = segments[0].base_offset, segments[-1].end_offset
    found: list[Segment] = []
    for batch, compacted in parts:
        file = new_chunk(version)
        content, placed = encode([(partition, batch)], file, compression, compacted)
        journal.chunks.write(file, (content,))
        for _, segment in placed:
            has_offsets = segment.columns & HAS_OFFSETS
            found.append(segment if has_offsets else segment.moved(found[-1].end_offset if found else start))
    if found:  # offsets that nothing has any more at either end are of the segments there
        found[0] = found[0]._replace(base_offset=start)
        found[-1] = found[-1]._replace(end_offset=end)
    try:
        _replace(journal, Replacement(partition, start, end, tuple(found)), tuple(segments))
    except _SupersededError:
        journal.chunks.remove_all(sorted({segment.file for segment in found}))
        raise
    return sum(segment.rows for segment in found)


def _replace(journal: Journal, replacement: Replacement, expected: tuple[Segment, ...]) -> None:
    def describe(commit: Commit, state: LogState) -> Commit:
        found = state.partition(replacement.partition)
        if tuple(found.segments[found.within(replacement.start, replacement.end)]) != expected:
            raise _SupersededError
        check_staged(state, replacement.segments)
        return replace(commit, replaced=(replacement,))

    journal.change(describe)


class _SupersededError(Exception):
    """The segments that were to be replaced are not there any more."""


# --- files -----------------------------------------------------------------------------------------------------------


def _remove_files(journal: Journal, before: set[str]) -> int:
    """Remove files that nothing refers to any more, and staged ones that cannot be committed any more."""
    oldest = _oldest_staged(journal.state(), journal.clock())
    if oldest > journal.state().oldest_staged:
        journal.change(lambda commit, _: replace(commit, oldest_staged=oldest))
    there = journal.chunk_names()
    with journal.lock:
        journal.refresh()
        state = journal.state()
        needed = state.files()
        names = {name for name in before if name.endswith(CHUNKS)} | set(abandoned(there, state))
    unneeded = sorted(names - needed)
    journal.chunks.remove_all(unneeded)
    journal.chunks.remove_unfinished(lambda name: read_name(name)[0] < state.oldest_staged)
    return len(unneeded) + len(journal.remove_commits(needed))


def _oldest_staged(state: LogState, now: int) -> int:
    """The newest version that is known to be older than records may be staged."""
    return max((version for version, time in state.history if time < now - _STAGED_LIFE_MS), default=0)
