"""Records that are written and not visible yet: what producers do before they commit."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.common.errors import LogError
from headrace.common.logs import get_logger
from headrace.common.topic_partition import TopicPartition
from headrace.log.commits import HEADER_BYTES, Author, Commit, commit_name
from headrace.log.segments import Segment, encode, inlined
from headrace.log.store import may_be_gone, new_chunk, staged_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headrace.log.groups import CommittedOffset
    from headrace.log.journal import Journal
    from headrace.log.segments import Placed
    from headrace.log.state import LogState, ProducerState
    from headrace.log.store import StagedFor

logger = get_logger(__name__)

_INLINE_BYTES: Final = 64 << 10
"""Records that take less than this lie in the commit record itself."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Records that are written, and can be committed once.

    Attributes:
        segments: where they are, with offsets from 0 on.
        content: the file that they would be in, where it is so small that they will lie in the commit record.
    """

    segments: tuple[Placed, ...]
    content: pa.Buffer | None

    def to_json(self) -> list[Any]:
        """As JSON has it."""
        content = None if self.content is None else base64.b85encode(self.content).decode()
        return [[[tp.topic, tp.partition, segment.to_json()] for tp, segment in self.segments], content]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> Staged:
        """What :meth:`to_json` gave."""
        segments, content = values
        return cls(
            tuple((TopicPartition(topic, number), Segment.from_json(segment)) for topic, number, segment in segments),
            None if content is None else pa.py_buffer(base64.b85decode(content)),
        )


def stage(
    journal: Journal, pieces: Sequence[tuple[TopicPartition, pa.RecordBatch]], staged_for: StagedFor | None = None
) -> list[Staged]:
    """Write records so that they can be committed; nobody sees them before.

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
            journal.store.write_chunk(file, content)
        found.append(Staged(tuple(segments), content if content.size <= _INLINE_BYTES else None))
    return found


def publish(
    journal: Journal,
    author: Author,
    staged: Sequence[Staged],
    offsets: Callable[[LogState], Mapping[str, Mapping[TopicPartition, CommittedOffset]]] = lambda _: {},
) -> ProducerState:
    """Make staged records visible, all at once.

    Args:
        journal: of the log.
        author: who does so; see :meth:`Journal.commit`.
        staged: the records.
        offsets: by group, how far it has come with that; what it raises ends the attempt.

    Returns:
        What is known of the author: where its last records are.

    Raises:
        ProducerFencedError: when somebody else has taken over the author's id.
        StagedRecordsError: when the records were staged so long ago that they may be gone, or into a younger copy.
        OSError: when that cannot be told, or not be done.
    """

    def describe(state: LogState) -> tuple[Commit, bytes]:
        appended, inline = _placed(state, staged)
        return Commit(author, journal.clock(), appended=appended, offsets=offsets(state)), inline

    return journal.commit(author, describe)


def discard(journal: Journal, staged: Sequence[Staged]) -> None:
    """Remove records that will not be committed. What cannot be removed now is removed later."""
    files = sorted({segment.file for each in staged if each.content is None for _, segment in each.segments})
    try:
        journal.store.remove_chunks(files)
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
    newest = max((staged_at(segment.file) for segment in segments), default=0)
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
