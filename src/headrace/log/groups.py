"""Consumer groups: which member reads which partition, and how partitions pass from one to another.

Partitions move cooperatively. A group knows what each member is to own (its target) and what it owns. A member that
owns more than its target releases the rest, after it has committed how far it has come; only then others own it. What
no other member gives up stays where it is, and is read on meanwhile. A group is a value: each change makes a new one,
of a higher generation where the ownership changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from headrace.common.messages import TopicPartition


class Member(NamedTuple):
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
        >>> log.committed("billing")[TopicPartition("orders", 0)]
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
        generation: rises with every change of ownership.
        members: by their ids.
        offsets: how far it has come.
        assigned: the generation in which each partition came to its owner.
    """

    generation: int = 0
    members: Mapping[str, Member] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    assigned: Mapping[TopicPartition, int] = field(default_factory=dict)

    def member(self, member_id: str) -> Member:
        """A member; an unknown id is one that owns nothing."""
        return self.members.get(member_id, Member(()))

    def has_kept(self, partition: TopicPartition, member_id: str, generation: int) -> bool:
        """Tell whether a partition has been a member's without a break since a generation."""
        return partition in self.member(member_id).owned and self.assigned.get(partition, 0) <= generation

    def is_assigned(self, partitions: Mapping[str, int]) -> bool:
        """Return whether exactly the partitions of the topics that members have subscribed to are targets.

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
        member = known._replace(topics=tuple(sorted(topics)))
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
        return self._handed_over({**self.members, member_id: member._replace(owned=kept)})

    def rebalanced(self, partitions: Mapping[str, int]) -> Group:
        """The group when topics have come, gone or grown."""
        return self._with_members(self.members, partitions)

    def committed(self, offsets: Mapping[TopicPartition, int]) -> Group:
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
                member_id: member._replace(
                    target=targets[member_id],
                    owned=tuple(each for each in member.owned if each in existing),
                )
                for member_id, member in members.items()
            }
        )

    def _handed_over(self, members: Mapping[str, Member]) -> Group:
        """Let members own those partitions of their targets that are free."""
        assigned = {each: self.assigned.get(each, 0) for member in members.values() for each in member.owned}
        changed = {}
        for member_id, member in members.items():
            fresh = [each for each in member.target if each not in assigned]
            changed[member_id] = member._replace(owned=tuple(sorted([*member.owned, *fresh])))
        now = self.generation + 1
        assigned = {each: assigned.get(each, now) for member in changed.values() for each in member.owned}
        return replace(self, generation=now, members=changed, assigned=assigned)


def assign(members: Mapping[str, Member], partitions: Mapping[str, int]) -> dict[str, tuple[TopicPartition, ...]]:
    """Assign partitions to members: as even as their subscriptions allow, and as much as can be of what they own.

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
    """Move a partition from a member to one that has two or more fewer; False if there is none."""
    for giver in sorted(found.values(), key=len, reverse=True):
        for at in range(len(giver) - 1, -1, -1):
            taker = min((found[member_id] for member_id in subscribers[giver[at].topic]), key=len)
            if len(taker) + 1 < len(giver):
                taker.append(giver.pop(at))
                return True
    return False
