"""A consumer's part in its group: its partitions, its position in each, and what it commits."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headrace.common.errors import CommitFailedError, ConfigurationError, InvalidProgramError, OffsetOutOfRangeError
from headrace.common.messages import TopicPartition
from headrace.log.groups import CommittedOffset, Group, GroupMetadata
from headrace.log.journal import tag_of
from headrace.log.transactions import may_commit

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from headrace.log.commits import Commit, LogState
    from headrace.log.journal import Journal
    from headrace.log.log import Log


class ConsumerCoordinator:
    """Keeps the partitions of a consumer those that it is to read; commits how far it has come.

    Args:
        log: the log.
        subscriptions: which partitions are read, and how far.
        group: the group; None for none.
        auto_commit: how often to commit by itself, in seconds; None for never.
        session_timeout: after how many seconds without a poll a member is taken for dead.
        clock: seconds that pass.
    """

    def __init__(
        self,
        log: Log,
        subscriptions: SubscriptionState,
        group: str | None,
        *,
        auto_commit: float | None,
        session_timeout: float,
        clock: Callable[[], float],
    ) -> None:
        self._log = log
        self._subscriptions = subscriptions
        self._group = group
        self._auto_commit = auto_commit if group is not None else None
        self._session_timeout = session_timeout
        self._clock = clock
        self._commit_due = clock() + (auto_commit or 0)
        self._membership: Membership | None = None

    def subscribe(self) -> None:
        """Have the group know what was subscribed to, if there is one."""
        if self._group is None:
            return
        if self._membership is None:
            self._membership = Membership(self._log.journal, self._group, self._session_timeout, self._clock)
        self._membership.subscribe(self._subscriptions.topics)

    def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group."""
        self._commit_by_itself()
        leaving = list(self._subscriptions.partitions)
        if leaving and self._subscriptions.topics:
            self._subscriptions.on_revoke(leaving)
        self._subscriptions.lose(leaving)
        self._subscriptions.topics = ()
        membership, self._membership = self._membership, None
        if membership is not None:
            membership.leave()

    def longest_wait(self, left: float) -> float:
        """How many seconds a poll may wait before it has to keep up, of those that it has left."""
        return min(left, self._membership.interval) if self._membership is not None else left

    def keep_up(self) -> None:
        """Commit what was consumed, if it is time to, and see which partitions come and go."""
        if self._auto_commit is not None and self._clock() >= self._commit_due:
            self._commit_by_itself()
            self._commit_due = self._clock() + self._auto_commit
        if self._membership is not None:
            self._keep_up_with_group(self._membership)
        elif self._subscriptions.topics:
            self._keep_up_with_topics()

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit offsets; the positions, if none are given.

        Raises:
            CommitFailedError: when the group has given a partition to others.
            InvalidProgramError: when there is no group.
        """
        self._needed_group()
        if offsets is None:
            self._log.journal.refresh()
            self._subscriptions.begin_remade_topics()
            offsets = self._subscriptions.positions()
        if not offsets:
            return
        metadata = self.group_metadata()
        committed = self._timed(offsets)

        def describe(commit: Commit, state: LogState) -> Commit:
            return replace(commit, offsets={metadata.group_id: may_commit(metadata, committed, state)})

        self._log.journal.change(describe)
        for each, offset in offsets.items():
            if each in self._subscriptions.partitions:
                self._subscriptions.partitions[each].committed = offset

    def group_metadata(self) -> GroupMetadata:
        """On whose behalf this consumer commits.

        Raises:
            InvalidProgramError: when there is no group.
        """
        group, membership, created = self._needed_group(), self._membership, dict(self._subscriptions.created)
        if membership is None:
            return GroupMetadata(group, created=created)
        return GroupMetadata(group, membership.generation, membership.member_id, created)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """How far the group has come; None where nothing was committed.

        Raises:
            InvalidProgramError: when there is no group.
        """
        found = self._log.committed(self._needed_group())
        return {each: found[each].offset if each in found else None for each in partitions}

    # --- inside ------------------------------------------------------------------------------------------------------

    def _commit_by_itself(self) -> None:
        """Commit what was consumed, if nobody else does; of what others have taken over it is read again."""
        consumed = self._subscriptions.uncommitted() if self._auto_commit is not None else {}
        if consumed:
            with contextlib.suppress(CommitFailedError):
                self.commit(consumed)

    def _keep_up_with_topics(self) -> None:
        """Read all partitions of the topics; those that a topic is given later from their beginning."""
        reading, topics = self._subscriptions.partitions, self._subscriptions.topics
        with self._log.journal.lock:
            counts = self._log.journal.state().partition_counts()
        wanted = [TopicPartition(topic, number) for topic in topics for number in range(counts.get(topic, 0))]
        existing = set(wanted)
        self._subscriptions.lose([each for each in reading if each not in existing])
        self._gain([each for each in wanted if each not in reading], {each.topic for each in reading})

    def _keep_up_with_group(self, membership: Membership) -> None:
        group = membership.keep_up() or self._join_again(membership)
        me, reading = membership.member_id, self._subscriptions.partitions
        self._give_up([each for each in reading if group.assigned.get(each, 0) > membership.generation])
        member = group.member(me)
        target = set(member.target)
        leaving = [each for each in reading if each not in target]
        if leaving:
            self._subscriptions.on_revoke(leaving)
        if set(member.owned) - target:
            positions = self._subscriptions.uncommitted() if self._auto_commit is not None else {}
            membership.release(self._timed({each: positions[each] for each in leaving if each in positions}))
            group = membership.group()
            member = group.member(me)
        owned = set(member.owned)
        self._subscriptions.lose([each for each in reading if each not in owned])
        membership.generation = group.generation
        self._gain([each for each in member.owned if each not in reading], set())

    def _join_again(self, membership: Membership) -> Group:
        """Become a member again after having been taken for dead."""
        self._give_up(list(self._subscriptions.partitions))
        membership.subscribe(self._subscriptions.topics)
        return membership.group()

    def _give_up(self, lost: list[TopicPartition]) -> None:
        """Read partitions no more that others have had since."""
        if lost:
            self._subscriptions.on_revoke(lost)
        self._subscriptions.lose(lost)

    def _gain(self, partitions: list[TopicPartition], known_topics: set[str]) -> None:
        """Begin with partitions, where the group has come to."""
        if not partitions:
            return
        found = self._log.committed(self._group) if self._group is not None else {}
        committed = {each: found[each].offset for each in partitions if each in found}
        begun: dict[TopicPartition, int | None] = {
            each: committed.get(each, 0 if each.topic in known_topics else None) for each in partitions
        }
        self._subscriptions.gain(begun, committed)
        if self._membership is not None and self._subscriptions.reset == "latest":
            # Who takes over from a member that has died before its first commit has to begin where that began.
            self.commit({each: self._subscriptions.position(each) for each in partitions if each not in committed})
        self._subscriptions.on_assign(partitions)

    def _timed(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, CommittedOffset]:
        now = self._log.journal.clock()
        return {partition: CommittedOffset(offset, now) for partition, offset in offsets.items()}

    def _needed_group(self) -> str:
        if self._group is None:
            raise InvalidProgramError("offsets are committed for a group: Consumer(log, group_id=…)")
        return self._group


_RESETS: Final = ("earliest", "latest", "none")

PartitionsCallback = Callable[[list[TopicPartition]], None]


@dataclass(slots=True)
class PartitionState:
    """A partition that is read.

    Attributes:
        position: the offset of the next record to be given; None before it was looked for.
        committed: what was committed of it last.
        paused: whether no records are given for now.
        fetched: records that were fetched with others, and not given yet.
        fetched_from: the position at which these follow.
    """

    position: int | None = None
    committed: int | None = None
    paused: bool = False
    fetched: list[pa.RecordBatch] = field(default_factory=list)
    fetched_from: int = 0


class SubscriptionState:
    """The partitions that a consumer has subscribed to or was assigned, and its position in each.

    Args:
        log: the log.
        group: the group whose offsets are where to begin.
        reset: where to begin without one.

    Attributes:
        topics: what was subscribed to.
        partitions: what is read; those whose turn is first come first.
        created: with which versions of the log the topics came that positions are of.
        on_assign: is called with partitions that have come.
        on_revoke: is called with partitions that go.

    Raises:
        ConfigurationError: when ``reset`` is none of those that there are.
    """

    def __init__(self, log: Log, group: str | None, reset: str) -> None:
        if reset not in _RESETS:
            raise ConfigurationError(f"auto_offset_reset is {reset!r}; expected one of {', '.join(_RESETS)}")
        self.topics: tuple[str, ...] = ()
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.created: dict[str, int] = {}
        self.on_assign: PartitionsCallback = ignore
        self.on_revoke: PartitionsCallback = ignore
        self.reset = reset
        self._log = log
        self._group = group

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, and no others."""
        self.partitions = {each: self.partitions.get(each, PartitionState()) for each in partitions}
        self._remember_topics()

    def gain(self, positions: dict[TopicPartition, int | None], committed: dict[TopicPartition, int]) -> None:
        """Read some more partitions.

        Args:
            positions: where to begin in each.
            committed: what was committed of them.
        """
        for each, position in positions.items():
            self.partitions[each] = PartitionState(position, committed.get(each))
        self._remember_topics()

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Read some partitions no more."""
        for each in partitions:
            del self.partitions[each]

    def checked(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Partitions, if all of them are read.

        Raises:
            InvalidProgramError: when one is not.
        """
        found = list(partitions)
        for each in found:
            if each not in self.partitions:
                raise InvalidProgramError(f"{each} is not assigned to this consumer")
        return found

    def pause(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        """Give no records of partitions, or give some again."""
        for each in self.checked(partitions):
            self.partitions[each].paused = paused

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at an offset."""
        self.checked([partition])
        if offset < 0:
            raise InvalidProgramError(f"{offset} is no offset: they begin at 0")
        self.partitions[partition].position = offset

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record to be given.

        Raises:
            OffsetOutOfRangeError: when there is none, and that was said to be an error.
        """
        self.checked([partition])
        state = self.partitions[partition]
        if state.position is None:
            state.position = self._first_position(partition)
        return state.position

    def positions(self) -> dict[TopicPartition, int]:
        """The positions of all partitions that have one."""
        return {each: state.position for each, state in self.partitions.items() if state.position is not None}

    def uncommitted(self) -> dict[TopicPartition, int]:
        """The positions that were not committed yet."""
        return {each: at for each, at in self.positions().items() if self.partitions[each].committed != at}

    def reset_offset(self, partition: TopicPartition) -> int:
        """The offset at which to begin in a partition without a position.

        Raises:
            OffsetOutOfRangeError: when that was said to be an error.
        """
        if self.reset == "none":
            raise OffsetOutOfRangeError(
                f"{partition} has no position: seek to one, or let auto_offset_reset be earliest or latest"
            )
        find = self._log.beginning_offsets if self.reset == "earliest" else self._log.end_offsets
        return find([partition])[partition]

    def begin_remade_topics(self) -> None:
        """Read topics from their beginning that were deleted and made again; positions are of the ones before."""
        with self._log.journal.lock:
            topics = self._log.journal.state().topics
            created = {topic: topics[topic].created for topic in self.created if topic in topics}
        remade = {topic for topic, version in created.items() if self.created[topic] != version}
        self.created |= created
        for each, state in self.partitions.items():
            if each.topic in remade:
                self.partitions[each] = PartitionState(position=0, paused=state.paused)

    def _first_position(self, partition: TopicPartition) -> int:
        if self._group is not None:
            committed = self._log.committed(self._group).get(partition)
            if committed is not None:
                return committed.offset
        return self.reset_offset(partition)

    def _remember_topics(self) -> None:
        """Remember which topics positions are of."""
        with self._log.journal.lock:
            topics = self._log.journal.state().topics
            for name in {each.topic for each in self.partitions} & set(topics):
                self.created.setdefault(name, topics[name].created)


def ignore(partitions: list[TopicPartition]) -> None:
    """Do nothing: the callback of those who give none."""


_BEATS_A_SESSION: Final = 3


class Membership:
    """A consumer's part in its group: it joins, shows that it lives, takes partitions over and gives them up.

    A group has no coordinator: it is a value in the journal, and each member changes it when it sees a reason to. A
    heartbeat is a number in a file. Members take one for dead whose number has not changed for the session timeout, by
    their own clock. So clocks need not agree, and a clock that jumps ends a membership only in its own process's eyes.
    A member that is wrongly taken for dead finds out before it reads on or commits anything.

    Args:
        journal: of the log.
        group: the group's name.
        session_timeout: after how many seconds without a heartbeat a member is taken for dead.
        clock: seconds that pass, from whenever on.

    Attributes:
        member_id: nobody else has it.
        generation: the one whose assignment the consumer reads; see :meth:`Group.has_kept`.
        interval: how often to call :meth:`keep_up`, in seconds.
    """

    def __init__(
        self, journal: Journal, group: str, session_timeout: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.member_id = uuid.uuid4().hex
        self.generation = 0
        self.interval = session_timeout / _BEATS_A_SESSION
        self._journal = journal
        self._heartbeats = journal.store.heartbeats
        self._group = group
        self._timeout = session_timeout
        self._clock = clock
        self._topics: tuple[str, ...] = ()
        self._beats = 0
        self._due = clock()
        self._seen: dict[str, tuple[int, float]] = {}

    def subscribe(self, topics: Iterable[str]) -> None:
        """Say which topics to read; joins the group if this is no member yet."""
        self._topics = tuple(sorted(set(topics)))
        self._beat()
        self._change(lambda group, partitions: group.joined(self.member_id, self._topics, partitions))
        self._expire()

    def keep_up(self) -> Group | None:
        """Show that this member lives, and see whether the others do.

        Returns:
            The group; None when the others have taken this member for dead.
        """
        if self._clock() >= self._due:
            self._beat()
            self._expire()
        with self._journal.lock:
            group = self.group()
            partitions = self._journal.state().partition_counts()
        if not group.is_assigned(partitions) and self.member_id in group.members:
            self._change(lambda group, partitions: group.rebalanced(partitions))
            group = self.group()
        return group if self.member_id in group.members else None

    def group(self) -> Group:
        """The group, as of the last look at the log."""
        with self._journal.lock:
            return self._journal.state().groups.get(self._group, Group())

    def release(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Give up what others are to read.

        Args:
            offsets: how far it has been read.
        """

        def released(group: Group, _: Mapping[str, int]) -> Group:
            if self.member_id not in group.members:
                return group
            mine = {
                partition: offset
                for partition, offset in offsets.items()
                if group.has_kept(partition, self.member_id, self.generation)
            }
            return group.committed(mine).released(self.member_id)

        self._change(released)

    def leave(self) -> None:
        """Leave the group: others go on with what this member has read."""
        self._change(lambda group, partitions: group.left([self.member_id], partitions))
        self._heartbeats.remove(self._heartbeat_of(self.member_id))

    # --- inside ------------------------------------------------------------------------------------------------------

    def _change(self, change: Callable[[Group, Mapping[str, int]], Group]) -> None:
        def describe(commit: Commit, state: LogState) -> Commit:
            group = state.groups.get(self._group, Group())
            return replace(commit, groups={self._group: change(group, state.partition_counts())})

        self._journal.change(describe)

    def _beat(self) -> None:
        self._beats += 1
        self._heartbeats.write(self._heartbeat_of(self.member_id), (b"%d" % self._beats,), durable=False)
        self._due = self._clock() + self.interval

    def _expire(self) -> None:
        """Take members for dead whose heartbeat has stood still for too long."""
        others = set(self.group().members) - {self.member_id}
        now = self._clock()
        seen: dict[str, tuple[int, float]] = {}
        for member_id in others:
            beats = self._beats_of(member_id)
            before = self._seen.get(member_id)
            seen[member_id] = before if before is not None and before[0] == beats else (beats, now)
        self._seen = seen
        dead = [member_id for member_id, (_, since) in seen.items() if now - since >= self._timeout]
        if dead:
            self._change(lambda group, partitions: group.left(dead, partitions))
            for member_id in dead:
                self._heartbeats.remove(self._heartbeat_of(member_id))

    def _beats_of(self, member_id: str) -> int:
        """How often a member has shown that it lives; -1 where that is not known."""
        try:
            return int(self._heartbeats.read(self._heartbeat_of(member_id)))
        except (FileNotFoundError, ValueError):
            return -1

    def _heartbeat_of(self, member_id: str) -> str:
        return f"{tag_of(self._group)}-{member_id}"
