"""What a log holds after a commit: the sum of all commits up to it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import LogCorruptedError, UnknownTopicError
from headrace.common.topic_partition import TopicPartition
from headrace.log.commits import TopicDescription, topic_from_json, topic_to_json
from headrace.log.groups import Group
from headrace.log.segments import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.log.commits import Commit, Replacement
    from headrace.log.topics import TopicConfig

ANONYMOUS: Final = "~"
"""How the ids of producers begin that have no transactional id."""

SNAPSHOT_INTERVAL: Final = 256
"""After how many commits a log writes down what it holds, so that nobody needs the commits before."""

_HISTORY: Final = 4096

_REMEMBERED_PRODUCERS: Final = 10_000
"""How many producers without a transactional id are remembered, those that have committed last: one may not know
whether that was done, and ask again. No clock decides that: one that is ahead would have all of them forgotten."""


@dataclass(slots=True)
class Partition:
    """The segments of a partition.

    Attributes:
        start_offset: the first offset that may be read.
        end_offset: the offset of the next record.
        segments: in the order of their offsets, without overlaps.
    """

    start_offset: int = 0
    end_offset: int = 0
    segments: list[Segment] = field(default_factory=list)

    def append(self, segment: Segment) -> None:
        """Add new records."""
        self.segments.append(segment)
        self.end_offset = segment.end_offset

    def from_offset(self, offset: int, count: int) -> list[Segment]:
        """Some segments with records from an offset on."""
        first = bisect_right(self.segments, offset, key=attrgetter("end_offset"))
        return self.segments[first : first + count]

    def within(self, start: int, end: int) -> slice:
        """Which segments lie within offsets, from a base offset to an end offset."""
        return slice(
            bisect_left(self.segments, start, key=attrgetter("base_offset")),
            bisect_right(self.segments, end, key=attrgetter("end_offset")),
        )

    def from_timestamp(self, timestamp: int) -> list[Segment]:
        """The segments with records of a timestamp or later ones, in the order of their offsets."""
        return [segment for segment in self.segments if segment.max_timestamp >= timestamp]

    def start_at(self, offset: int) -> None:
        """Let go of what lies before an offset."""
        self.start_offset = max(self.start_offset, offset)
        first = bisect_right(self.segments, self.start_offset, key=attrgetter("end_offset"))
        del self.segments[:first]

    @property
    def bytes(self) -> int:
        """How large its segments are in their files."""
        return sum(segment.length for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic.

    Attributes:
        config: how records are kept.
        partitions: what it has.
        created: the version of the log that it came with; one that is deleted and made again has another.
    """

    config: TopicConfig
    partitions: list[Partition]
    created: int


@dataclass(frozen=True, slots=True)
class ProducerState:
    """What is known of a producer.

    Attributes:
        epoch: its newest; older ones are fenced.
        sequence: that of its last commit.
        time: when that was, in milliseconds.
        placed: the topic, partition, first offset and number of the records of that, segment by segment.
    """

    epoch: int
    sequence: int
    time: int
    placed: tuple[tuple[str, int, int, int], ...] = ()


@dataclass(slots=True)
class LogState:
    """All that commits up to one of them have said.

    Attributes:
        version: the number of the last of these.
        topics: by their names.
        producers: by their ids, in the order of their last commits.
        groups: by their names.
        oldest_staged: files of records that were staged before this version, and that nothing refers to, are removed.
        history: versions at intervals, and when each was committed in milliseconds.
        checksum: that of the last commit, which the next one names; None where an older headrace has told it.
    """

    version: int = 0
    topics: dict[str, Topic] = field(default_factory=dict)
    producers: dict[str, ProducerState] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    oldest_staged: int = 0
    history: list[tuple[int, int]] = field(default_factory=list)
    checksum: int | None = None

    def topic(self, name: str) -> Topic:
        """A topic.

        Raises:
            UnknownTopicError: when there is none of that name.
        """
        found = self.topics.get(name)
        if found is None:
            there = ", ".join(sorted(self.topics)[:20]) or "none at all"
            raise UnknownTopicError(f"the log has no topic {name!r}; there is {there}. Log.create_topic makes one")
        return found

    def partition(self, partition: TopicPartition) -> Partition:
        """A partition.

        Raises:
            UnknownTopicError: when there is none.
        """
        partitions = self.topic(partition.topic).partitions
        if not 0 <= partition.partition < len(partitions):
            raise UnknownTopicError(
                f"topic {partition.topic!r} has no partition {partition.partition}: it has {len(partitions)}, from 0 on"
            )
        return partitions[partition.partition]

    def partitions(self) -> Iterator[tuple[TopicPartition, Partition]]:
        """All partitions."""
        for name, topic in self.topics.items():
            for number, partition in enumerate(topic.partitions):
                yield TopicPartition(name, number), partition

    def partition_counts(self) -> dict[str, int]:
        """How many partitions each topic has."""
        return {name: len(topic.partitions) for name, topic in self.topics.items()}

    def files(self) -> set[str]:
        """The files that segments are in."""
        return {segment.file for _, partition in self.partitions() for segment in partition.segments}

    def apply(self, commit: Commit, checksum: int, where: str) -> None:
        """Take in what the next commit says.

        Args:
            commit: the commit that follows.
            checksum: that of its file.
            where: what users call its file.

        Raises:
            LogCorruptedError: when it cannot follow.
        """
        if None not in (commit.follows, self.checksum) and commit.follows != self.checksum:
            raise LogCorruptedError(
                f"{where} does not follow on the commit before it, which is not the one that it was written after: a "
                "file of another log, or of an older copy of this one, is among the others. Put the whole folder back "
                "from one copy"
            )
        try:
            self._apply_topics(commit.topics)
            for partition, segment in commit.appended:
                found = self.partition(partition)
                if segment.base_offset != found.end_offset:
                    raise LogCorruptedError(
                        f"{where} does not follow on the commit before it: it appends to {partition} at offset "
                        f"{segment.base_offset}, which ends at {found.end_offset}"
                    )
                found.append(segment)
            for replacement in commit.replaced:
                self._replace(replacement)
            for partition, offset in commit.starts.items():
                self.partition(partition).start_at(offset)
        except UnknownTopicError as error:
            raise LogCorruptedError(f"{where} does not follow on the commit before it: {error}") from error
        self._apply_groups(commit)
        self._note(commit)
        self.oldest_staged = max(self.oldest_staged, commit.oldest_staged)
        self.version += 1
        self.checksum = checksum
        if not self.version % SNAPSHOT_INTERVAL:
            self.history = [*self.history[-_HISTORY:], (self.version, commit.time)]
            self._forget_producers()

    def _apply_topics(self, topics: Mapping[str, TopicDescription | None]) -> None:
        for name, described in topics.items():
            if described is None:
                self.topics.pop(name, None)
                continue
            known = self.topics.get(name)
            partitions = known.partitions if known else []
            partitions += [Partition() for _ in range(described.partitions - len(partitions))]
            self.topics[name] = Topic(described.config, partitions, known.created if known else self.version + 1)

    def _replace(self, replacement: Replacement) -> None:
        partition = self.partition(replacement.partition)
        partition.segments[partition.within(replacement.start, replacement.end)] = replacement.segments

    def _apply_groups(self, commit: Commit) -> None:
        for name, group in commit.groups.items():
            if group is None:
                self.groups.pop(name, None)
            else:
                self.groups[name] = group
        for name, offsets in commit.offsets.items():
            self.groups[name] = self.groups.get(name, Group()).committed(offsets)

    def _note(self, commit: Commit) -> None:
        author = commit.author
        placed = tuple(
            (tp.topic, tp.partition, segment.base_offset, segment.end_offset - segment.base_offset)
            for tp, segment in commit.appended
        )
        self.producers.pop(author.producer, None)  # who has committed last is the last of them
        self.producers[author.producer] = ProducerState(author.epoch, author.sequence, commit.time, placed)

    def _forget_producers(self) -> None:
        anonymous = [producer for producer in self.producers if producer.startswith(ANONYMOUS)]
        for producer in anonymous[:-_REMEMBERED_PRODUCERS]:
            del self.producers[producer]

    def to_json(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "version": self.version,
            "topics": {
                name: [
                    topic_to_json(TopicDescription(len(topic.partitions), topic.config)),
                    [
                        [each.start_offset, each.end_offset, [segment.to_json() for segment in each.segments]]
                        for each in topic.partitions
                    ],
                    topic.created,
                ]
                for name, topic in self.topics.items()
            },
            "producers": {
                producer_id: [each.epoch, each.sequence, each.time, [list(place) for place in each.placed]]
                for producer_id, each in self.producers.items()
            },
            "groups": {name: group.to_json() for name, group in self.groups.items()},
            "oldest_staged": self.oldest_staged,
            "history": self.history,
            "checksum": self.checksum,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LogState:
        """What :meth:`to_json` gave."""
        return cls(
            document["version"],
            {name: _topic(*values) for name, values in document["topics"].items()},
            {
                producer_id: ProducerState(epoch, sequence, time, tuple(map(tuple, placed)))
                for producer_id, (epoch, sequence, time, placed) in document["producers"].items()
            },
            {name: Group.from_json(group) for name, group in document["groups"].items()},
            document["oldest_staged"],
            [(version, time) for version, time in document["history"]],
            document.get("checksum"),
        )


def _topic(described: list[Any], partitions: Sequence[Sequence[Any]], created: int) -> Topic:
    return Topic(
        topic_from_json(described).config,
        [Partition(start, end, list(map(Segment.from_json, segments))) for start, end, segments in partitions],
        created,
    )
