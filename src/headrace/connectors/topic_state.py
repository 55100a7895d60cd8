"""The state of topics and consumer groups: throughput, retention, lag and health."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from headrace.common.messages import TopicPartition

_LEFT: Final = 0.1
"""The part of what comes in between two looks that a group may leave for later: it commits now and then."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic at a moment.

    Attributes:
        begins: the first offset of each of its partitions.
        ends: the offset behind the last one.
        size: its bytes; None where that cannot be known.
        settings: how long it keeps records, by Kafka's names.
    """

    begins: tuple[int, ...]
    ends: tuple[int, ...]
    size: int | None
    settings: Mapping[str, str]

    @property
    def records(self) -> int:
        """The number of offsets that are kept; of a compacted topic, at least as many as its records."""
        return sum(self.ends) - sum(self.begins)


@dataclass(frozen=True, slots=True)
class GroupState:
    """A consumer group at a moment.

    Attributes:
        members: the number of its members.
        offsets: how far it has come.
    """

    members: int
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class TopicsState:
    """Topics and their consumer groups at a moment.

    Attributes:
        time: the moment, in seconds of a clock that never goes back.
        topics: by name.
        groups: by id.
    """

    time: float
    topics: Mapping[str, TopicState]
    groups: Mapping[str, GroupState]


class TopicMonitor(ABC):
    """Looks at the topics of a log or a cluster."""

    @abstractmethod
    def look(self) -> TopicsState:
        """Read the present state."""


@dataclass(frozen=True, slots=True)
class TopicsPlace:
    """The place of topics that a source reads or a sink writes.

    Attributes:
        kind: what it is, for people.
        name: the servers of a cluster, or the location of a log.
        monitor: makes what looks at it, of the options by which storages are reached.
    """

    kind: str
    name: str
    monitor: Callable[[Mapping[str, str]], TopicMonitor] = field(compare=False, repr=False)


class GroupHealth(Enum):
    """The health of a consumer group on a topic."""

    OK = "ok"
    BEHIND = "falls behind"
    """Its lag has grown by more than a tenth of what has come in, although it is read."""

    STILL = "stands still"
    """It has a lag, no members, and has not come further: no job reads it, or none has completed an epoch meanwhile.

    Jobs commit offsets, and are no members.
    """

    LOST = "has lost records"
    """Records were deleted before it read them."""


@dataclass(frozen=True, slots=True)
class TopicReport:
    """A topic between two moments.

    Attributes:
        name: its name.
        state: at the second moment.
        rate: the records that were appended in a second.
    """

    name: str
    state: TopicState
    rate: float


@dataclass(frozen=True, slots=True)
class GroupReport:
    """A consumer group on a topic, between two moments.

    Attributes:
        group: its id.
        topic: the topic.
        members: the number of its members, which may read other topics.
        lag: the records that it has not read.
        health: what is wrong with it.
    """

    group: str
    topic: str
    members: int
    lag: int
    health: GroupHealth


def topic_reports(before: TopicsState, after: TopicsState) -> list[TopicReport]:
    """Compare topics at two moments."""
    seconds = max(1e-3, after.time - before.time)
    found = []
    for name, state in sorted(after.topics.items()):
        known = before.topics.get(name, state)
        found.append(TopicReport(name, state, max(0, sum(state.ends) - sum(known.ends)) / seconds))
    return found


def group_reports(before: TopicsState, after: TopicsState, read: Collection[str] = ()) -> list[GroupReport]:
    """Compare consumer groups at two moments.

    Args:
        before: the first moment.
        after: the second one.
        read: groups with a known reader, which need not be a member.
    """
    return [
        _group_report(group, topic, before, after, is_read=group in read)
        for group, state in sorted(after.groups.items())
        for topic in sorted({partition.topic for partition in state.offsets} & after.topics.keys())
    ]


def _group_report(group: str, topic: str, before: TopicsState, after: TopicsState, *, is_read: bool) -> GroupReport:
    state, present = after.groups[group], after.topics[topic]
    known, earlier = before.groups.get(group, state), before.topics.get(topic, present)
    lag, has_lost = _lag(state, topic, present)
    grown, appended = lag - _lag(known, topic, earlier)[0], sum(present.ends) - sum(earlier.ends)
    if has_lost:
        health = GroupHealth.LOST
    elif lag and not state.members and not _has_moved(known, state, topic):
        health = GroupHealth.OK if is_read else GroupHealth.STILL
    else:
        health = GroupHealth.BEHIND if grown > max(0, appended) * _LEFT else GroupHealth.OK
    return GroupReport(group, topic, state.members, lag, health)


def _lag(group: GroupState, topic: str, state: TopicState) -> tuple[int, bool]:
    """The records that a group has not read, and whether some of them are gone."""
    lag, has_lost = 0, False
    for partition, offset in group.offsets.items():
        if partition.topic == topic and partition.partition < len(state.ends):
            lag += max(0, state.ends[partition.partition] - offset)
            has_lost |= offset < state.begins[partition.partition]
    return lag, has_lost


def _has_moved(before: GroupState, after: GroupState, topic: str) -> bool:
    return any(
        offset != before.offsets.get(partition)
        for partition, offset in after.offsets.items()
        if partition.topic == topic
    )
