"""Consumer groups: who reads which partition, and how partitions pass from one member to another.

Partitions move cooperatively. A group knows what each member is to own (its target) and what it owns. A member that
owns more than its target releases the rest, after it has committed how far it has come; only then others own it. What
nobody else gives up stays where it is, and is read on meanwhile. A group is a value: each change makes a new one, of
a higher generation where the ownership changes.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import CommitFailedError
from headrace.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.log.commits import Commit, LogState
    from headrace.log.journal import Journal


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer of a group.

    Attributes:
        topics: what it has subscribed to.
        owned: what it reads.
        target: what it is to read.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    target: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """How far a group has come in a partition.

    Attributes:
        offset: of the next record to read.
        time: when it was committed, in milliseconds.
    """

    offset: int
    time: int = 0


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """On whose behalf offsets are committed, so that a member that was away does not set the group back.

    :meth:`Consumer.group_metadata` gives it; made of a group's id alone it is that of no member.

    Attributes:
        group_id: the group.
        generation_id: the generation of the group that the consumer has last seen; -1 where it is no member.
        member_id: the member; empty where it is none.
        created: with which versions of the log the topics have come that are read; None where no consumer gave it.

    Examples:
        >>> from headrace.log import Consumer, Log, Producer, TopicPartition
        >>> log = Log.open("orders.log", create=True)
        >>> log.create_topic("orders")
        >>> consumer = Consumer(log, "billing")
        >>> consumer.subscribe(["orders"])
        >>> _ = consumer.poll()
        >>> with Producer(log, transactional_id="billing-1") as producer:
        ...     producer.begin_transaction()
        ...     offsets = {TopicPartition("orders", 0): 0}
        ...     producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        ...     producer.commit_transaction()
        >>> log.committed("billing")[TopicPartition("orders", 0)].offset
        0
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    created: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group.

    Attributes:
        generation: rises with every change of who owns what.
        members: by their ids.
        offsets: how far it has come.
        assigned: the generation in which each partition came to its owner; an older headrace has not noted it.
    """

    generation: int = 0
    members: Mapping[str, Member] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, CommittedOffset] = field(default_factory=dict)
    assigned: Mapping[TopicPartition, int] = field(default_factory=dict)

    def member(self, member_id: str) -> Member:
        """What is known of a member; one that is none has nothing."""
        return self.members.get(member_id, Member(()))

    def owner(self, partition: TopicPartition) -> str | None:
        """The id of the member that reads a partition."""
        return next((member_id for member_id, member in self.members.items() if partition in member.owned), None)

    def has_kept(self, partition: TopicPartition, member_id: str, generation: int) -> bool:
        """Whether a partition has been a member's without a break since a generation."""
        return partition in self.member(member_id).owned and self.assigned.get(partition, 0) <= generation

    def is_assigned(self, partitions: Mapping[str, int]) -> bool:
        """Whether the partitions of all topics that members have subscribed to are somebody's target, and no others.

        Args:
            partitions: how many partitions each topic has.
        """
        topics = {topic for member in self.members.values() for topic in member.topics}
        targets = [each for member in self.members.values() for each in member.target]
        return len(targets) == sum(partitions.get(topic, 0) for topic in topics) and all(
            each.partition < partitions.get(each.topic, 0) for each in targets
        )

    def joined(self, member_id: str, topics: Iterable[str], partitions: Mapping[str, int]) -> Group:
        """The group with a new member, or with one that has subscribed to other topics.

        Args:
            member_id: the member.
            topics: what it has subscribed to.
            partitions: how many partitions each topic has.
        """
        known = self.members.get(member_id, Member(()))
        member = replace(known, topics=tuple(sorted(topics)))
        return self._with_members({**self.members, member_id: member}, partitions)

    def left(self, member_ids: Iterable[str], partitions: Mapping[str, int]) -> Group:
        """The group without some members: what they owned is free."""
        gone = set(member_ids)
        rest = {member_id: member for member_id, member in self.members.items() if member_id not in gone}
        return self._with_members(rest, partitions)

    def released(self, member_id: str) -> Group:
        """The group when a member has given up whatever is not its target."""
        member = self.members[member_id]
        target = set(member.target)
        kept = tuple(each for each in member.owned if each in target)
        return self._handed_over({**self.members, member_id: replace(member, owned=kept)})

    def rebalanced(self, partitions: Mapping[str, int]) -> Group:
        """The group when topics have come, gone or grown."""
        return self._with_members(self.members, partitions)

    def committed(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> Group:
        """The group when it has come further."""
        return replace(self, offsets={**self.offsets, **offsets})

    def without(self, topic: str) -> Group:
        """The group when a topic is gone: one that is made again under its name has other offsets."""
        kept = {each: offset for each, offset in self.offsets.items() if each.topic != topic}
        return self if len(kept) == len(self.offsets) else replace(self, offsets=kept)

    def _with_members(self, members: Mapping[str, Member], partitions: Mapping[str, int]) -> Group:
        targets = assign(members, partitions)
        existing = {TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)}
        return self._handed_over(
            {
                member_id: replace(
                    member,
                    target=targets[member_id],
                    owned=tuple(each for each in member.owned if each in existing),
                )
                for member_id, member in members.items()
            }
        )

    def _handed_over(self, members: Mapping[str, Member]) -> Group:
        """Members own of their targets what nobody else owns."""
        assigned = {each: self.assigned.get(each, 0) for member in members.values() for each in member.owned}
        changed = {}
        for member_id, member in members.items():
            fresh = [each for each in member.target if each not in assigned]
            changed[member_id] = replace(member, owned=tuple(sorted([*member.owned, *fresh])))
        now = self.generation + 1
        assigned = {each: assigned.get(each, now) for member in changed.values() for each in member.owned}
        return replace(self, generation=now, members=changed, assigned=assigned)

    def to_json(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "generation": self.generation,
            "members": {
                member_id: [list(member.topics), _pairs(member.owned), _pairs(member.target)]
                for member_id, member in self.members.items()
            },
            "offsets": offsets_to_json(self.offsets),
            "assigned": [[each.topic, each.partition, generation] for each, generation in self.assigned.items()],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Group:
        """What :meth:`to_json` gave."""
        members = {
            member_id: Member(tuple(topics), _partitions(owned), _partitions(target))
            for member_id, (topics, owned, target) in document["members"].items()
        }
        assigned = {TopicPartition(topic, number): since for topic, number, since in document.get("assigned", ())}
        return cls(document["generation"], members, offsets_from_json(document["offsets"]), assigned)


def assign(members: Mapping[str, Member], partitions: Mapping[str, int]) -> dict[str, tuple[TopicPartition, ...]]:
    """What members are to read: as even as their subscriptions allow, and as much as can be of what they own.

    Args:
        members: by their ids.
        partitions: how many partitions each topic has.
    """
    subscribers = {
        topic: sorted(member_id for member_id, member in members.items() if topic in member.topics)
        for topic in sorted(partitions)
    }
    owners = {each: member_id for member_id, member in members.items() for each in member.owned}
    found = {member_id: list[TopicPartition]() for member_id in sorted(members)}
    free: list[TopicPartition] = []
    for topic, candidates in subscribers.items():
        for partition in (TopicPartition(topic, number) for number in range(partitions[topic] if candidates else 0)):
            owner = owners.get(partition)
            (found[owner] if owner is not None and owner in candidates else free).append(partition)
    for partition in free:
        min((found[member_id] for member_id in subscribers[partition.topic]), key=len).append(partition)
    while _move_one(found, subscribers):
        pass
    return {member_id: tuple(sorted(each)) for member_id, each in found.items()}


def _move_one(found: dict[str, list[TopicPartition]], subscribers: Mapping[str, Sequence[str]]) -> bool:
    """Move a partition from a member to one that has less by two or more; whether there was such a one."""
    for giver in sorted(found.values(), key=len, reverse=True):
        for at in range(len(giver) - 1, -1, -1):
            taker = min((found[member_id] for member_id in subscribers[giver[at].topic]), key=len)
            if len(taker) + 1 < len(giver):
                taker.append(giver.pop(at))
                return True
    return False


def offsets_to_json(offsets: Mapping[TopicPartition, CommittedOffset]) -> list[Any]:
    """As JSON has it."""
    return [[tp.topic, tp.partition, each.offset, each.time] for tp, each in offsets.items()]


def offsets_from_json(values: Sequence[Sequence[Any]]) -> dict[TopicPartition, CommittedOffset]:
    """What :func:`offsets_to_json` gave; logs of earlier versions have an empty text before the time."""
    return {TopicPartition(topic, number): CommittedOffset(offset, rest[-1]) for topic, number, offset, *rest in values}


def _pairs(partitions: Iterable[TopicPartition]) -> list[list[Any]]:
    return [[each.topic, each.partition] for each in partitions]


def _partitions(pairs: Iterable[Sequence[Any]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for topic, number in pairs)


_BEATS_A_SESSION: Final = 3


class Membership:
    """A member of a consumer group.

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
        self._journal.store.remove_heartbeat(self._group, self.member_id)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _change(self, change: Callable[[Group, Mapping[str, int]], Group]) -> None:
        def describe(commit: Commit, state: LogState) -> Commit:
            group = state.groups.get(self._group, Group())
            return replace(commit, groups={self._group: change(group, state.partition_counts())})

        self._journal.change(describe)

    def _beat(self) -> None:
        self._beats += 1
        self._journal.store.write_heartbeat(self._group, self.member_id, self._beats)
        self._due = self._clock() + self.interval

    def _expire(self) -> None:
        """Take members for dead whose heartbeat has stood still for too long."""
        others = set(self.group().members) - {self.member_id}
        now = self._clock()
        seen: dict[str, tuple[int, float]] = {}
        for member_id in others:
            beats = self._journal.store.read_heartbeat(self._group, member_id)
            before = self._seen.get(member_id)
            seen[member_id] = before if before is not None and before[0] == beats else (beats, now)
        self._seen = seen
        dead = [member_id for member_id, (_, since) in seen.items() if now - since >= self._timeout]
        if dead:
            self._change(lambda group, partitions: group.left(dead, partitions))
            for member_id in dead:
                self._journal.store.remove_heartbeat(self._group, member_id)


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
