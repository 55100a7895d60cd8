"""Staged records, transactions of producers, and checks of the offsets that groups commit."""

from __future__ import annotations

import base64
import uuid
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.common.errors import CommitFailedError, InvalidProgramError, LogError
from headrace.common.logs import get_logger
from headrace.common.messages import TopicPartition
from headrace.log.commits import ANONYMOUS, HEADER_BYTES, Author, Commit, commit_name
from headrace.log.groups import CommittedOffset, Group, GroupMetadata
from headrace.log.journal import StagedFor, abandoned, may_be_gone, new_chunk, read_name, staged_at, tag_of
from headrace.log.records import Segment, encode, inlined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headrace.log.commits import LogState, ProducerState
    from headrace.log.journal import Journal
    from headrace.log.records import Placed


class TransactionManager:
    """The identity under which a producer commits, so that nothing is written twice; and its transaction.

    Args:
        journal: of the log.
        transactional_id: makes it a producer of transactions.

    Attributes:
        offsets: how far groups come with the transaction, and on whose behalf.
        in_transaction: whether there is one.

    Raises:
        InvalidProgramError: when the id cannot be one.
    """

    def __init__(self, journal: Journal, transactional_id: str | None) -> None:
        if transactional_id is not None and (not transactional_id or transactional_id.startswith(ANONYMOUS)):
            raise InvalidProgramError(
                f"{transactional_id!r} is no transactional id: one is not empty, nor begins with ~"
            )
        self.offsets: list[tuple[GroupMetadata, dict[TopicPartition, CommittedOffset]]] = []
        self.in_transaction = False
        self._journal = journal
        self._transactional_id = transactional_id
        self._author = Author(transactional_id or f"{ANONYMOUS}{uuid.uuid4().hex}")
        self._initialised = False

    def next_author(self) -> Author:
        """The author of the next commit."""
        self._author = Author(self._author.producer, self._author.epoch, self._author.sequence + 1)
        return self._author

    def staged_for(self) -> StagedFor | None:
        """The commit that records are written for; of a transaction its producer has them no more once it has flushed.

        Without one they wait in memory until they are committed.
        """
        if not self.in_transaction:
            return None
        return StagedFor(tag_of(self._author.producer), self._author.epoch, self._author.sequence + 1)

    def initialise(self) -> None:
        """Take over the transactional id.

        Raises:
            InvalidProgramError: when there is none.
            OSError: when that cannot be done.
        """
        producer = self._needed_id()

        def describe(state: LogState) -> Commit:
            known = state.producers.get(producer)
            author = Author(producer, known.epoch + 1 if known else 0)
            return Commit(author, self._journal.clock())

        self._author = Author(producer, self._journal.commit(None, describe).epoch)
        self._initialised = True

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            InvalidProgramError: when there is one already, or no transactional id.
            OSError: when the id cannot be taken over.
        """
        self._needed_id()
        if self.in_transaction:
            raise InvalidProgramError("there is a transaction already: commit it or abort it first")
        if not self._initialised:
            self.initialise()
        self.in_transaction = True

    def check_may_send(self) -> None:
        """See whether records may be sent.

        Raises:
            InvalidProgramError: when there has to be a transaction first.
        """
        if self._transactional_id is not None and not self.in_transaction:
            raise InvalidProgramError(
                "a producer with a transactional id sends within transactions: begin_transaction()"
            )

    def check_transaction(self) -> None:
        """See whether there is a transaction.

        Raises:
            InvalidProgramError: when there is none.
        """
        self._needed_id()
        if not self.in_transaction:
            raise InvalidProgramError("there is no transaction: begin_transaction() begins one")

    def add_offsets(self, group: GroupMetadata, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of a group with the transaction.

        Raises:
            CommitFailedError: when they cannot be; nor can the transaction, then.
            OSError: when the log cannot be read.
        """
        self.check_transaction()
        now = self._journal.clock()
        self.offsets.append((group, {each: CommittedOffset(offset, now) for each, offset in offsets.items()}))
        self._journal.look(self.checked_offsets)

    def checked_offsets(self, state: LogState) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """By group, how far it comes with the transaction.

        Raises:
            CommitFailedError: when others have a partition by now.
        """
        found = dict[str, dict["TopicPartition", CommittedOffset]]()
        for group, offsets in self.offsets:
            found.setdefault(group.group_id, {}).update(may_commit(group, offsets, state))
        return found

    def give_up(self, author: Author) -> None:
        """See to it that a commit whose answer never came is not done after all: another takes its place.

        Raises:
            LogError: when it was done.
        """
        later = Author(author.producer, author.epoch, author.sequence + 1)

        def describe(state: LogState) -> Commit:
            known = state.producers.get(author.producer)
            if known is not None and (known.epoch, known.sequence) == (author.epoch, author.sequence):
                raise LogError(
                    "the transaction was committed, though the answer was lost: it cannot be aborted any more"
                )
            return Commit(later, self._journal.clock())

        self._journal.commit(later, describe)
        self._author = later

    def end(self) -> None:
        """End the transaction."""
        self.offsets = []
        self.in_transaction = False

    def _needed_id(self) -> str:
        if self._transactional_id is None:
            raise InvalidProgramError("transactions need a transactional id: Producer(log, transactional_id=…)")
        return self._transactional_id


ABANDONED: Final = 1 << 62
"""Epoch and sequence of a producer whose output was given up for good: nobody comes after it."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """Records that wait for one commit.

    Attributes:
        producer: the id of who can do it; None where the log does not know it.
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
    names = journal.store.chunk_names()
    with journal.lock:
        journal.refresh()
        state = journal.state()
        over = state.files() | set(abandoned(names, state))
        producers = {tag_of(producer): producer for producer in state.producers}
    waiting = defaultdict[StagedFor, list[str]](list)
    for name in names:
        _, commit = read_name(name) or (0, None)
        if commit is not None and name not in over:
            waiting[commit].append(name)
    transactions = [
        OpenTransaction(
            producers.get(commit.tag),
            commit.sequence,
            commit.epoch is None,
            _time_of(journal, staged_at(min(files))),
            tuple(files),
            sum(journal.store.chunks.size(file) or 0 for file in files),
        )
        for commit, files in waiting.items()
    ]
    return sorted(transactions, key=lambda each: (each.producer or "", each.sequence))


def abandon(journal: Journal, producer: str) -> int:
    """See to it that nobody commits what waits for a producer, and remove it.

    Who still tries is told: a producer is fenced; a job can write nothing to the log any more.

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

    def describe(state: LogState) -> Commit:
        known = state.producers[producer]
        author = Author(producer, ABANDONED, ABANDONED) if is_job else Author(producer, known.epoch + 1)
        return Commit(author, journal.clock())

    journal.commit(None, describe)
    files = [name for each in waiting for name in each.files]
    with journal.lock:
        needed = journal.state().files()
        files = [name for name in abandoned(files, journal.state()) if name not in needed]
    journal.store.chunks.remove_all(files)
    return len(files)


def _time_of(journal: Journal, version: int) -> int | None:
    """The time of a version's commit, or of the last one before it of which that is known."""
    with journal.lock:
        commits = journal.store.read_commits(version, 1)
        if commits:
            return commits[0][0].time
        return next((time for at, time in reversed(journal.state().history) if at <= version), None)


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
        """Read records that :meth:`to_json` has written."""
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
            journal.store.chunks.write(file, (content,))
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
        journal.store.chunks.remove_all(files)
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


def commit_without_members(
    journal: Journal,
    group: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    created: Mapping[str, int],
    check: Callable[[Group], object] = lambda _: None,
) -> None:
    """Commit offsets of a group whose partitions nobody shares.

    Args:
        journal: of the log.
        group: the group.
        offsets: of the next records to read.
        created: with which versions the topics have come that these are of; see :func:`of_these_topics`.
        check: looks at the group as it is then; what it raises ends the attempt.

    Raises:
        CommitFailedError: when it has members, which alone may do so.
    """
    metadata = GroupMetadata(group, created=created)

    def describe(commit: Commit, state: LogState) -> Commit:
        check(state.groups.get(group, Group()))
        return replace(commit, offsets={group: may_commit(metadata, offsets, state)})

    journal.change(describe)


def may_commit(
    metadata: GroupMetadata, offsets: Mapping[TopicPartition, CommittedOffset], state: LogState
) -> dict[TopicPartition, CommittedOffset]:
    """Offsets that are committed on somebody's behalf, without those that have no meaning any more.

    Every way to commit offsets asks this first, in the step that commits them.

    Args:
        metadata: on whose.
        offsets: of the next records to read.
        state: what the log holds.

    Raises:
        CommitFailedError: when others have a partition by now, or have had it since.
    """
    group = state.groups.get(metadata.group_id, Group())
    wanted = dict(offsets) if metadata.created is None else of_these_topics(offsets, metadata.created, state)
    if metadata.generation_id < 0:
        _check_alone(metadata, wanted, group)
        return wanted
    lost = [each for each in wanted if not group.has_kept(each, metadata.member_id, metadata.generation_id)]
    if lost:
        names = ", ".join(map(str, lost))
        raise CommitFailedError(
            f"group {metadata.group_id!r} has given {names} to others since generation {metadata.generation_id}, as "
            f"member {metadata.member_id} did not poll for its session timeout or longer (generation "
            f"{group.generation} now): what it has read of it since its last commit is read again"
        )
    return wanted


def _check_alone(metadata: GroupMetadata, wanted: Mapping[TopicPartition, CommittedOffset], group: Group) -> None:
    """See whether somebody who is no member may commit offsets of a group."""
    name = metadata.group_id
    advice = "send_offsets_to_transaction(offsets, consumer.group_metadata())"
    if group.members:
        raise CommitFailedError(
            f"group {name!r} has members, and only these commit offsets: subscribe to topics, or, in a transaction, "
            f"say which member it is: {advice}"
        )
    if metadata.created is not None or not group.generation:
        return
    for each, committed in wanted.items():
        before = group.offsets.get(each)
        if before is not None and committed.offset < before.offset:
            raise CommitFailedError(
                f"{each} of group {name!r} is at offset {before.offset}, and {committed.offset} would set it back: a "
                f"member that was away would do so, and there is no telling whether this is one. Say it: {advice}"
            )


def of_these_topics(
    offsets: Mapping[TopicPartition, CommittedOffset], created: Mapping[str, int], state: LogState
) -> dict[TopicPartition, CommittedOffset]:
    """Offsets without those of topics that were deleted, and maybe made again: these have no meaning any more.

    Args:
        offsets: by their partitions.
        created: with which versions the topics have come; of one that is left out, whatever there is now is meant.
        state: what the log holds.
    """
    now = {name: topic.created for name, topic in state.topics.items()}
    gone = {
        each.topic
        for each in offsets
        if each.topic not in now or created.get(each.topic, now[each.topic]) != now[each.topic]
    }
    return {each: offset for each, offset in offsets.items() if each.topic not in gone}
