"""What keeps a log small: retention, compaction, merging of small segments, and removing what nobody needs.

All of it goes through commits, so any number of processes may do it at once, and any of them may die. New segments are
written before the commit that names them, and files are removed after the one that no longer does. Who reads from an
older version meanwhile does not find a file, and looks again.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headrace.common.errors import LogCorruptedError, LogError, UnknownTopicError
from headrace.common.logs import get_logger
from headrace.log.chunk_names import CHUNKS, abandoned, new_chunk
from headrace.log.commits import Commit, Replacement
from headrace.log.compaction import compact
from headrace.log.merging import merge, small_segments
from headrace.log.segments import HAS_OFFSETS, encode
from headrace.log.staging import check_staged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.common.topic_partition import TopicPartition
    from headrace.log.journal import Journal
    from headrace.log.merging import Rewritten
    from headrace.log.segments import Segment
    from headrace.log.state import LogState, Partition
    from headrace.log.topics import TopicConfig

logger = get_logger(__name__)

_STAGED_LIFE_MS: Final = 7 * 86_400_000
"""How long a writer that has its records in memory has until they are committed; then it has to write them anew."""


@dataclass(frozen=True, slots=True)
class Maintained:
    """What maintenance has done.

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

    def __add__(self, other: Maintained) -> Maintained:
        return Maintained(
            self.deleted + other.deleted,
            self.superseded + other.superseded,
            self.merged + other.merged,
            self.removed + other.removed,
        )


def maintain(journal: Journal, topics: Iterable[str] | None = None, *, fully: bool = False) -> Maintained:
    """Keep a log small.

    Args:
        journal: of the log.
        topics: which topics; all if left out.
        fully: whether to merge and compact all there is; otherwise what is worth it.

    Raises:
        LogCorruptedError: when a file is damaged.
        OSError: when a file cannot be read or written.
    """
    journal.refresh()
    done = Maintained()
    with journal.lock:
        partitions = [
            (partition, journal.state().topic(partition.topic).config)
            for partition, _ in journal.state().partitions()
            if topics is None or partition.topic in set(topics)
        ]
        files = journal.state().files()
    for partition, config in partitions:
        journal.store.claim.renew(journal.state().version)
        try:
            done += _maintain(journal, partition, config, fully=fully)
        except (_SupersededError, UnknownTopicError):  # somebody else has been at it, or has deleted it
            continue
    if fully:
        journal.write_snapshot()
    return done + Maintained(removed=_remove_files(journal, files))


def maintain_in_turn(journal: Journal) -> None:
    """Write a snapshot, and keep the log small unless another process is about to; what goes wrong is a warning."""
    journal.write_snapshot()
    try:
        with journal.store.claim.held(journal.state().version) as is_mine:
            if is_mine:
                maintain(journal)
    except (OSError, LogError) as error:
        logger.warning("%s: maintenance failed: %s", journal, error)


def _maintain(journal: Journal, partition: TopicPartition, config: TopicConfig, *, fully: bool) -> Maintained:
    done = _retain(journal, partition) if config.deletes else Maintained()
    if config.compacts:
        return done + _compact(journal, partition, config, fully=fully)
    return done + _merge(journal, partition, fully=fully)


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


def _merge(journal: Journal, partition: TopicPartition, *, fully: bool) -> Maintained:
    done = Maintained()
    for segments in small_segments(_segments(journal, partition), fully=fully):
        with _reading(journal, partition, segments):
            merged = merge(segments, journal.store.segments.read)
        _rewrite(journal, partition, segments, [merged])
        done += Maintained(merged=len(segments))
    return done


def _compact(journal: Journal, partition: TopicPartition, config: TopicConfig, *, fully: bool) -> Maintained:
    segments = _segments(journal, partition)
    with _reading(journal, partition, segments):
        compacted = compact(segments, journal.store.segments.read, config, journal.clock(), fully=fully)
        if compacted is None:
            return Maintained()
        left = _rewrite(journal, partition, compacted.replaced, compacted.parts)
    before = sum(segment.rows for segment in compacted.replaced)
    return Maintained(superseded=before - left, merged=len(compacted.replaced))


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
    """Put other segments in the place of some.

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
    for part in parts:
        file = new_chunk(version)
        content, placed = encode([(partition, part.batch)], file, compression, part.compacted)
        journal.store.write_chunk(file, content)
        for _, segment in placed:
            has_offsets = segment.columns & HAS_OFFSETS
            found.append(segment if has_offsets else segment.moved(found[-1].end_offset if found else start))
    if found:  # offsets that nothing has any more at either end are of the segments there
        found[0] = replace(found[0], base_offset=start)
        found[-1] = replace(found[-1], end_offset=end)
    try:
        _replace(journal, Replacement(partition, start, end, tuple(found)), tuple(segments))
    except _SupersededError:
        journal.store.remove_chunks(sorted({segment.file for segment in found}))
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
    """Remove the files that nothing refers to: those that something did, and those that nobody can commit any more."""
    oldest = _oldest_staged(journal.state(), journal.clock())
    if oldest > journal.state().oldest_staged:
        journal.change(lambda commit, _: replace(commit, oldest_staged=oldest))
    there = journal.store.chunk_names()
    with journal.lock:
        journal.refresh()
        state = journal.state()
        needed = state.files()
        names = {name for name in before if name.endswith(CHUNKS)} | set(abandoned(there, state))
    unneeded = sorted(names - needed)
    journal.store.remove_chunks(unneeded)
    journal.store.remove_unfinished_chunks(state.oldest_staged)
    return len(unneeded) + len(journal.store.remove_commits(needed))


def _oldest_staged(state: LogState, now: int) -> int:
    """The newest version that is known to be older than records may be staged."""
    return max((version for version, time in state.history if time < now - _STAGED_LIFE_MS), default=0)
