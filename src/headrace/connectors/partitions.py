"""The driver's half of a source of topics: which partitions are read, from where, and an epoch's share of each."""

from __future__ import annotations

import enum
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.common.errors import ConfigurationError, InvalidTypeError, SourceChangedError, expect, refused
from headrace.common.logs import get_logger
from headrace.common.messages import TopicPartition
from headrace.common.other_names import alike
from headrace.connectors.ranges import pending_numbers, share
from headrace.connectors.source import Json, Pending, ReadBudget, SplitEnumerator, SplitRead

logger = get_logger(__name__)

A_PARTITION: Final = "TopicPartition('orders', 0) and the like (KafkaTopicPartition is the same)"
"""The notation of a partition, for errors."""


class OffsetResetStrategy(enum.Enum):
    """The start of a partition for which an initializer has no offset.

    Examples:
        >>> from headrace.datastream.connectors.log import OffsetResetStrategy, OffsetsInitializer
        >>> start = OffsetsInitializer.committed_offsets(OffsetResetStrategy.EARLIEST)
    """

    LATEST = 0
    EARLIEST = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class OffsetsInitializer:
    """Says at which offset of each partition reading starts, or stops; made by one of its methods.

    Attributes:
        strategy: where a partition starts for which there is no offset.
        given: offsets that the program gives.
        since: a timestamp in milliseconds, whose first record not before it is meant.
        needs_group: whether the offsets are those that a consumer group has committed.

    Examples:
        >>> from headrace.datastream.connectors.log import OffsetsInitializer
        >>> from headrace.log import TopicPartition
        >>> at_noon = OffsetsInitializer.timestamp(1_767_268_800_000)
        >>> explicit = OffsetsInitializer.offsets({TopicPartition("payments", 0): 1200})
    """

    strategy: OffsetResetStrategy
    given: Mapping[TopicPartition, int] = field(default_factory=dict, hash=False)
    since: int | None = None
    needs_group: bool = False

    def resolve(self, partitions: Sequence[TopicPartition], log: PartitionedLog) -> dict[TopicPartition, int]:
        """The offset of each partition.

        Raises:
            ConfigurationError: when a partition has none, and there is no reset strategy.
            InfrastructureError: when no broker answers.
        """
        found = self.given
        if self.needs_group:
            found = log.committed(partitions)
        elif self.since is not None:
            found = log.at_timestamp(partitions, self.since)
        taken = {partition: found[partition] for partition in partitions if partition in found}
        return {**taken, **self._reset([partition for partition in partitions if partition not in found], log)}

    def _reset(self, partitions: Sequence[TopicPartition], log: PartitionedLog) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        if self.strategy is OffsetResetStrategy.NONE:
            raise ConfigurationError(
                f"there is no offset to start from for {', '.join(str(each) for each in partitions)}: give the "
                "offsets initializer an OffsetResetStrategy, EARLIEST or LATEST, or an offset for each"
            )
        is_earliest = self.strategy is OffsetResetStrategy.EARLIEST
        return log.earliest(partitions) if is_earliest else log.latest(partitions)

    @staticmethod
    def earliest() -> OffsetsInitializer:
        """The first record that there is."""
        return OffsetsInitializer(OffsetResetStrategy.EARLIEST)

    @staticmethod
    def latest() -> OffsetsInitializer:
        """Behind the last record that there is; of transactions, the last one before the first that is open."""
        return OffsetsInitializer(OffsetResetStrategy.LATEST)

    @staticmethod
    def timestamp(timestamp: int) -> OffsetsInitializer:
        """The first record whose timestamp is not below one in milliseconds; behind the last where there is none."""
        expect(timestamp, int, "OffsetsInitializer.timestamp")
        if timestamp < 0:
            raise refused(f"a timestamp to start from is not negative, got {timestamp}")
        return OffsetsInitializer(OffsetResetStrategy.LATEST, since=timestamp)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: OffsetResetStrategy = OffsetResetStrategy.NONE,
    ) -> OffsetsInitializer:
        """The offset that the consumer group has committed; where there is none, the strategy decides."""
        expect(offset_reset_strategy, OffsetResetStrategy, "OffsetsInitializer.committed_offsets")
        return OffsetsInitializer(offset_reset_strategy, needs_group=True)

    @staticmethod
    def offsets(
        offsets: Mapping[TopicPartition, int],
        offset_reset_strategy: OffsetResetStrategy = OffsetResetStrategy.EARLIEST,
    ) -> OffsetsInitializer:
        """An offset for each partition; for those that are not listed, what the strategy says."""
        expect(offset_reset_strategy, OffsetResetStrategy, "OffsetsInitializer.offsets")
        for partition, offset in offsets.items():
            if not isinstance(partition, TopicPartition):
                raise refused(f"offsets are given by {A_PARTITION}, not by {partition!r}", InvalidTypeError)
            expect(offset, int, f"the offset of {partition}")
            if offset < 0:
                raise refused(f"an offset is not negative, got {offset} for {partition}")
        return OffsetsInitializer(offset_reset_strategy, given=dict(offsets))


@dataclass(frozen=True, slots=True)
class Subscription:
    """Selects the partitions that are read, by exactly one of the attributes.

    Attributes:
        topics: all partitions of these topics.
        pattern: all partitions of the topics whose whole names match this regular expression, now or later.
        chosen: these partitions.
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    chosen: tuple[TopicPartition, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The topics; a pattern stands for those that match it."""
        chosen = (each.topic for each in self.chosen)
        return tuple(dict.fromkeys([*self.topics, *chosen, *([] if self.pattern is None else [self.pattern])]))

    def partitions(self, counts: Mapping[str, int]) -> list[TopicPartition]:
        """The partitions in a stable order.

        Args:
            counts: by name, how many partitions each topic has.

        Raises:
            ConfigurationError: when there is no such topic or partition.
        """
        for name in (*self.topics, *(each.topic for each in self.chosen)):
            if name not in counts:
                raise ConfigurationError(f"there is no topic {name!r}, or it may not be seen{alike(name, counts)}")
        for each in self.chosen:
            if not 0 <= each.partition < counts[each.topic]:
                raise ConfigurationError(
                    f"there is no partition {each}: topic {each.topic!r} has {counts[each.topic]}, from 0"
                )
        matches = () if self.pattern is None else sorted(filter(re.compile(self.pattern).fullmatch, counts))
        whole = [TopicPartition(name, number) for name in (*self.topics, *matches) for number in range(counts[name])]
        return [*whole, *self.chosen]

    def __str__(self) -> str:
        return f"topics like {self.pattern}" if self.pattern else ", ".join(map(str, (*self.topics, *self.chosen)))


NOTHING: Final = Subscription()
"""The subscription of a builder that does not know yet what to read."""


class PartitionedLog(ABC):
    """Topics with partitions of records, which are known by their offsets.

    Requests may raise an ``InfrastructureError`` or an ``OSError`` on a passing fault, and a
    ``SourceChangedError`` about a topic or partition that is gone.
    """

    @abstractmethod
    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic that may be read."""

    @abstractmethod
    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """The id of each topic: one that is deleted and made again has another."""

    @abstractmethod
    def earliest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets of the first records that there are."""

    @abstractmethod
    def latest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets up to which records can be read: with transactions, up to the first one that is open."""

    @abstractmethod
    def at_timestamp(self, partitions: Sequence[TopicPartition], millis: int) -> dict[TopicPartition, int]:
        """The first records whose timestamp is not below; partitions without one are left out."""

    @abstractmethod
    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets that the consumer group has committed; partitions without one are left out."""

    @abstractmethod
    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of the consumer group, for others to see; a failure is logged."""

    def close(self) -> None:
        """Let go of connections."""


def topic_made_again(topic: str) -> SourceChangedError:
    """The error about a topic that is another one than the job has read."""
    return SourceChangedError(
        f"topic {topic!r} was deleted and made again since the job has read it, so its offsets are others: "
        "start the job without its checkpoints, or give the source another uid to read the topic anew"
    )


_RECORD_BYTES: Final = 256
"""The estimated size of a record."""


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """The partitions and offsets that a source reads.

    Attributes:
        subscription: which partitions.
        start: where the partitions that are there at first start; those that come later start at their beginning.
        stop: where they stop, as found when the job first starts; None for never.
        is_bounded: whether the source ends there.
        discovery_interval: after how many milliseconds to look for new partitions; None for never.
        commits: whether offsets are committed to the consumer group.
        resets_to: where to go on when records were deleted before they were read: ``earliest``, ``latest``; None fails.
    """

    subscription: Subscription = NOTHING
    start: OffsetsInitializer = OffsetsInitializer(OffsetResetStrategy.EARLIEST)
    stop: OffsetsInitializer | None = None
    is_bounded: bool = False
    discovery_interval: int | None = None
    commits: bool = False
    resets_to: str | None = None


class PartitionEnumerator(SplitEnumerator):
    """Plans ranges of offsets; a split is a partition, its position the offset of the next record.

    Args:
        log: what is read.
        plan: what of it.
        state: what :meth:`snapshot` gave.
    """

    def __init__(self, log: PartitionedLog, plan: ReadingPlan, state: Json | None) -> None:
        self._log = log
        self._plan = plan
        self._topic_ids: dict[str, str] = {} if state is None else dict(state["topics"])
        self._stops: dict[str, int] = {} if state is None else dict(state["stops"])
        self._is_first_look = state is None
        self._partitions: dict[str, TopicPartition] = {}
        self._starts: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._firsts: dict[str, int] = {}
        self._looked_at: int | None = None

    def discover(self, now: int) -> Sequence[str]:
        if self._is_time_to_look(now):
            self._look()
            self._looked_at = now
        ends = _by_split(self._log.latest(list(self._partitions.values())))
        if ends != self._ends:
            # Only after the ends are known: what is behind them is of the topics that are checked
            self._check_topics(self._partitions.values())
        self._ends = ends
        return list(self._partitions)

    def initial_position(self, split_id: str) -> Json:
        return self._starts[split_id]

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        start, end = self._checked(split_id, position), self._end(split_id, position)
        count = share(start, end, budget, _RECORD_BYTES)
        if count:
            piece = (split_id, start, start + count)  # one task reads a partition
            return SplitRead(split_id, position, start + count, (piece,), count, count * _RECORD_BYTES)
        return SplitRead(split_id, position, end, ()) if position < end else None  # all of it was deleted

    def is_finished(self, split_id: str, position: Json) -> bool:
        stop = self._stops.get(split_id)
        return stop is not None and position >= stop

    def is_complete(self) -> bool:
        return self._plan.is_bounded or self._plan.discovery_interval is None

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        return pending_numbers(position, self._end(split_id, position), _RECORD_BYTES)

    def snapshot(self) -> Json:
        return {"topics": self._topic_ids, "stops": self._stops}

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        if self._plan.commits:
            known = self._partitions
            self._log.commit({known.get(at) or TopicPartition.parse(at): offset for at, offset in positions.items()})

    def close(self) -> None:
        self._log.close()

    def _is_time_to_look(self, now: int) -> bool:
        if self._looked_at is None:
            return True
        interval = self._plan.discovery_interval
        return not self.is_complete() and interval is not None and now - self._looked_at >= interval

    def _look(self) -> None:
        """Look which partitions there are, and whether topics are still the same."""
        found = self._plan.subscription.partitions(self._log.topics())
        if not found and self._is_first_look:
            outcome = "the source ends at once" if self._plan.is_bounded else "nothing is read until there are"
            logger.warning("there are no %s: %s", self._plan.subscription, outcome)
        self._check_topics(found)
        new = [each for each in found if str(each) not in self._partitions]
        initializer = self._plan.start if self._is_first_look else OffsetsInitializer.earliest()
        self._starts |= _by_split(initializer.resolve(new, self._log))
        self._firsts = _by_split(self._log.earliest(found))
        if self._plan.stop is not None:
            unknown = [each for each in new if str(each) not in self._stops]
            self._stops |= _by_split(self._plan.stop.resolve(unknown, self._log))
        self._partitions |= {str(each): each for each in new}
        self._is_first_look = False

    def _check_topics(self, partitions: Iterable[TopicPartition]) -> None:
        topics = list(dict.fromkeys(each.topic for each in partitions))
        for topic, topic_id in self._log.topic_ids(topics).items():
            known = self._topic_ids.setdefault(topic, topic_id)
            if known != topic_id:
                raise topic_made_again(topic)

    def _end(self, split_id: str, position: int) -> int:
        """The offset up to which a partition can be read now; the position itself where it was not looked at."""
        end, stop = self._ends.get(split_id, position), self._stops.get(split_id)
        return end if stop is None else min(end, stop)

    def _checked(self, split_id: str, position: int) -> int:
        """The offset at which reading goes on: the position, unless the records there are gone.

        Raises:
            SourceChangedError: when they are, and the program does not say where to go on.
        """
        first, end = self._firsts.get(split_id, position), self._ends.get(split_id, position)
        if end < position:
            raise SourceChangedError(
                f"{split_id} would be read from offset {position}, but ends at {end}: records were lost, it "
                "was made again, or the offset is a wrong one of the program. Start the job without its checkpoints to "
                "read what there is now"
            )
        if position >= first:
            return position
        if self._plan.resets_to is None:
            raise SourceChangedError(
                f"{split_id} would be read from offset {position}, but the first that is left is {first}: the others "
                "were deleted (retention.ms, retention.bytes) before they were read. To go on without them, have "
                "the source reset to the earliest or latest offset ('auto.offset.reset')"
            )
        target = first if self._plan.resets_to == "earliest" else end
        logger.warning("%s: offsets %d to %d were deleted before they were read", split_id, position, first - 1)
        return target


def narrowed_state(state: Json, topics: Collection[str]) -> Json:
    """Narrow the result of :meth:`PartitionEnumerator.snapshot` to some topics."""
    stops = {split: stop for split, stop in state["stops"].items() if TopicPartition.parse(split).topic in topics}
    return {"topics": {topic: of for topic, of in state["topics"].items() if topic in topics}, "stops": stops}


def _by_split(offsets: dict[TopicPartition, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in offsets.items()}
