"""Records that are staged and then published, all at once; and those that wait for that."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import pyarrow as pa

from headrace.common.errors import LogError
from headrace.common.logs import get_logger
from headrace.common.messages import TopicPartition
from headrace.log.commits import HEADER_BYTES, Author, Commit, LogState, ProducerState, commit_name
from headrace.log.journal import Journal, StagedFor, abandoned, may_be_gone, new_chunk, read_name, tag_of
from headrace.log.records import Placed, Segment, encode, inlined

logger = get_logger(__name__)

ABANDONED: Final = 1 << 62
"""Epoch and sequence of a producer whose output was given up for good: it has no successor."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """Records that wait for one commit.

    Attributes:
        producer: the id of the producer that can do it; None where the log does not know it.
        sequence: of the commit; of a job, its epoch.
        outlasts_producer: whether a later epoch of the producer can do it as well, as a job that is restored does.
        since: when the log was last committed to before the first of them was written, in milliseconds.
        files: their names.
        size: how many bytes these have.
    """

    producer: str | None
    sequence: int
    outlasts_producer: bool
    since: int | None
    files: tuple[str, ...]
    size: int


def open_transactions(journal: Journal) -> list[OpenTransaction]:
    """The transactions that wait, by their producers; those whose records are in memory alone are not seen.

    Raises:
        LogCorruptedError: when a file is damaged.
        OSError: when the log cannot be read.
    """
    names = journal.chunk_names()
    with journal.lock:
        journal.refresh()
        state = journal.state()
        over = state.files() | set(abandoned(names, state))
        producers = {tag_of(producer): producer for producer in state.producers}
    waiting = defaultdict[StagedFor, list[str]](list)
    for name in names:
        commit = read_name(name)[1]
        if commit is not None and name not in over:
            waiting[commit].append(name)
    transactions = [
        OpenTransaction(
            producers.get(commit.tag),
            commit.sequence,
            commit.epoch is None,
            _time_of(journal, read_name(min(files))[0]),
            tuple(files),
            sum(journal.chunks.size(file) or 0 for file in files),
        )
        for commit, files in waiting.items()
    ]
    return sorted(transactions, key=lambda each: (each.producer or "", each.sequence))


def abandon(journal: Journal, producer: str) -> int:
    """Prevent that what waits for a producer is committed, and remove it.

    Later attempts fail: a producer is fenced; a job can write nothing to the log any more.

    Args:
        journal: of the log.
        producer: its id.

    Returns:
        How many files were removed.

    Raises:
        LogError: when nothing waits for it.
        OSError: when that cannot be done; calling again does what is left.
    """
    waiting = [each for each in open_transactions(journal) if each.producer == producer]
    if not waiting:
        raise LogError(f"{journal}: nothing waits for a commit of {producer!r}")
    is_job = any(each.outlasts_producer for each in waiting)

    journal.commit(
        lambda state: (
            Author(producer, ABANDONED, ABANDONED) if is_job else Author(producer, state.producers[producer].epoch + 1)
        )
    )
    files = [name for each in waiting for name in each.files]
    with journal.lock:
        needed = journal.state().files()
        files = [name for name in abandoned(files, journal.state()) if name not in needed]
    journal.chunks.remove_all(files)
    return len(files)


def _time_of(journal: Journal, version: int) -> int | None:
    """The time of a version's commit, or of the last one before it of which that is known."""
    with journal.lock:
        commits = journal.read_commits(version, 1)
        if commits:
            return commits[0][0].time
        return next((time for at, time in reversed(journal.state().history) if at <= version), None)


_INLINE_BYTES: Final = 64 << 10
"""Records that take less than this lie in the commit record itself."""


class Staged(NamedTuple):
    """Records that are written, and can be committed once.

    Attributes:
        segments: where they are, with offsets from 0 on.
        content: the file that they would be in, where it is so small that they will lie in the commit record.
    """

    segments: tuple[Placed, ...]
    content: bytes | None


def stage(
    journal: Journal, pieces: Sequence[tuple[TopicPartition, pa.RecordBatch]], staged_for: StagedFor | None = None
) -> list[Staged]:
    """Write records so that they can be committed; they are not visible before.

    Args:
        journal: of the log.
        pieces: the records of partitions, in columns as the log stores them.
        staged_for: the commit, if the files will be all there is of the records.

    Raises:
        UnknownTopicError: when there is no such topic.
        OSError: when they cannot be written.
    """
    with journal.lock:
        state = journal.state()
        version = state.version
        compressions = [state.topic(partition.topic).config.arrow_compression for partition, _ in pieces]
    found = []
    for compression in sorted(set(compressions), key=str):
        chosen = [piece for piece, its_own in zip(pieces, compressions, strict=True) if its_own == compression]
        file = new_chunk(version, staged_for)
        content, segments = encode(chosen, file, compression)
        if content.size > _INLINE_BYTES:
            journal.chunks.write(file, (content,))
        found.append(Staged(tuple(segments), content.to_pybytes() if content.size <= _INLINE_BYTES else None))
    return found


def publish(
    journal: Journal,
    author: Author,
    staged: Sequence[Staged],
    offsets: Callable[[LogState], Mapping[str, Mapping[TopicPartition, int]]] = lambda _: {},
) -> ProducerState:
    """Make staged records visible, all at once.

    Args:
        journal: of the log.
        author: the producer; see :meth:`Journal.commit`.
        staged: the records.
        offsets: by group, how far it has come with that; what it raises ends the attempt.

    Returns:
        What is known of the author: where its last records are.

    Raises:
        ProducerFencedError: when another producer has taken over the author's id.
        StagedRecordsError: when the records were staged so long ago that they may be gone, or into a younger copy.
        OSError: when that is not known, or not done.
    """

    def describe(commit: Commit, state: LogState) -> tuple[Commit, bytes]:
        appended, inline = _placed(state, staged)
        return replace(commit, appended=appended, offsets=offsets(state)), inline

    return journal.commit(author, describe)


def discard(journal: Journal, staged: Sequence[Staged]) -> None:
    """Remove records that will not be committed. What cannot be removed now is removed later."""
    files = sorted({segment.file for each in staged if each.content is None for _, segment in each.segments})
    try:
        journal.chunks.remove_all(files)
    except OSError as error:
        logger.warning("%s: %d files that were not committed could not be removed: %s", journal, len(files), error)


class StagedRecordsError(LogError):
    """Records that were written cannot be committed, as their files are gone, or may be."""


def check_staged(state: LogState, segments: Iterable[Segment]) -> None:
    """See whether the files of segments are there for certain.

    Raises:
        StagedRecordsError: when they may be gone.
    """
    if any(may_be_gone(segment.file, state) for segment in segments):
        raise StagedRecordsError(
            f"records that are to be committed were written before version {state.oldest_staged} of the log, and what "
            "was not committed of that time has been removed"
        )


def _check_not_put_back(state: LogState, segments: Iterable[Segment]) -> None:
    """See whether the log has come as far as when records were written.

    Raises:
        StagedRecordsError: when it has not.
    """
    newest = max((read_name(segment.file)[0] for segment in segments), default=0)
    if newest > state.version:
        raise StagedRecordsError(
            f"records that are to be committed were written at version {newest} of the log, which is at version "
            f"{state.version}: an older copy of the log has taken its place, and what was committed since that copy is "
            "lost"
        )


def _placed(state: LogState, staged: Sequence[Staged]) -> tuple[tuple[Placed, ...], bytes]:
    """The segments of staged records with their offsets in the next commit, and what lies in that."""
    ends = dict[TopicPartition, int]()
    found: list[Placed] = []
    inline = b""
    for each in staged:
        segments = each.segments
        _check_not_put_back(state, [segment for _, segment in segments])
        if each.content is not None:
            more, moved = inlined(each.content, segments, commit_name(state.version + 1), HEADER_BYTES + len(inline))
            inline += more
            segments = tuple(moved)
        else:
            check_staged(state, [segment for _, segment in segments])
        for partition, segment in segments:
            base = ends.get(partition)
            placed = segment.moved(state.partition(partition).end_offset if base is None else base)
            ends[partition] = placed.end_offset
            found.append((partition, placed))
    return tuple(found), inline
