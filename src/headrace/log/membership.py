"""Membership of consumers in groups, and the offsets that members and others may commit."""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from headrace.common.errors import CommitFailedError
from headrace.common.messages import TopicPartition
from headrace.log.commits import Commit, LogState
from headrace.log.groups import Group, GroupMetadata
from headrace.log.journal import Journal, tag_of

_BEATS_A_SESSION: Final = 3


class Membership:
    """A consumer's membership in its group: joining, heartbeats, taking partitions over and giving them up.

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
        member_id: it is unique.
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
        self._heartbeats = journal.heartbeats
        self._group = group
        self._timeout = session_timeout
        self._clock = clock
        self._topics: tuple[str, ...] = ()
        self._beats = 0
        self._due = clock()
        self._seen: dict[str, tuple[int, float]] = {}

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics; joins the group if this is no member yet."""
        self._topics = tuple(sorted(set(topics)))
        self._beat()
        self._change(lambda group, partitions: group.joined(self.member_id, self._topics, partitions))
        self._expire()

    def keep_up(self) -> Group | None:
        """Send a heartbeat if one is due, and look after the group.

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

    def release(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Release the partitions that others are to read.

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
        """The number in a member's heartbeat; -1 if there is none."""
        try:
            return int(self._heartbeats.read(self._heartbeat_of(member_id)))
        except (FileNotFoundError, ValueError):
            return -1

    def _heartbeat_of(self, member_id: str) -> str:
        return f"{tag_of(self._group)}-{member_id}"


def commit_without_members(
    journal: Journal,
    group: str,
    offsets: Mapping[TopicPartition, int],
    created: Mapping[str, int],
    check: Callable[[Group], object] = lambda _: None,
) -> None:
    """Commit offsets of a group whose partitions are not shared.

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
    metadata: GroupMetadata, offsets: Mapping[TopicPartition, int], state: LogState
) -> dict[TopicPartition, int]:
    """Check offsets that are committed for a group, and drop those of topics that are gone.

    Every way to commit offsets checks this first, in the step that commits them.

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


def _check_alone(metadata: GroupMetadata, wanted: Mapping[TopicPartition, int], group: Group) -> None:
    """Check that a consumer that is no member may commit offsets of a group."""
    name = metadata.group_id
    advice = "send_offsets_to_transaction(offsets, consumer.group_metadata())"
    if group.members:
        raise CommitFailedError(
            f"group {name!r} has members, and only these commit offsets: subscribe to topics, or, in a transaction, "
            f"say which member it is: {advice}"
        )
    if metadata.created is not None or not group.generation:
        return
    for each, offset in wanted.items():
        before = group.offsets.get(each)
        if before is not None and offset < before:
            raise CommitFailedError(
                f"{each} of group {name!r} is at offset {before}, and {offset} would set it back: a "
                f"member that was away would do so, and there is no telling whether this is one. Say it: {advice}"
            )


def of_these_topics(
    offsets: Mapping[TopicPartition, int], created: Mapping[str, int], state: LogState
) -> dict[TopicPartition, int]:
    """Drop offsets of topics that were deleted since, and maybe made again.

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
