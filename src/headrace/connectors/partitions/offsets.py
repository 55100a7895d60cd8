"""Where reading partitions starts and stops."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.common.arguments import expect, refused
from headrace.common.errors import ConfigurationError, InvalidTypeError
from headrace.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.connectors.partitions.subscription import PartitionedLog


A_PARTITION: Final = "TopicPartition('orders', 0) and the like (KafkaTopicPartition is the same)"
"""What partitions are given by, in errors."""


class OffsetResetStrategy(enum.Enum):
    """Where to start where an initializer has no offset for a partition.

    Examples:
        >>> from headrace.datastream.connectors.log import OffsetResetStrategy, OffsetsInitializer
        >>> start = OffsetsInitializer.committed_offsets(OffsetResetStrategy.EARLIEST)
    """

    LATEST = 0
    EARLIEST = 1
    NONE = 2


class OffsetsInitializer(ABC):
    """Says at which offset of each partition reading starts, or stops.

    Examples:
        >>> from headrace.datastream.connectors.log import OffsetsInitializer
        >>> from headrace.log import TopicPartition
        >>> at_noon = OffsetsInitializer.timestamp(1_767_268_800_000)
        >>> explicit = OffsetsInitializer.offsets({TopicPartition("payments", 0): 1200})
    """

    @abstractmethod
    def resolve(self, partitions: Sequence[TopicPartition], log: PartitionedLog) -> dict[TopicPartition, int]:
        """The offset of each partition.

        Raises:
            ConfigurationError: when a partition has none, and there is no reset strategy.
            InfrastructureError: when no broker tells.
        """

    @property
    def needs_group(self) -> bool:
        """Whether it needs the id of a consumer group."""
        return False

    @staticmethod
    def earliest() -> OffsetsInitializer:
        """The first record that there is."""
        return _Reset(OffsetResetStrategy.EARLIEST)

    @staticmethod
    def latest() -> OffsetsInitializer:
        """Behind the last record that there is; of transactions, the last one before the first that is open."""
        return _Reset(OffsetResetStrategy.LATEST)

    @staticmethod
    def timestamp(timestamp: int) -> OffsetsInitializer:
        """The first record whose timestamp is not below one in milliseconds; behind the last where there is none."""
        expect(timestamp, int, "OffsetsInitializer.timestamp")
        if timestamp < 0:
            raise refused(f"a timestamp to start from is not negative, got {timestamp}")
        return _Timestamp(timestamp)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: OffsetResetStrategy = OffsetResetStrategy.NONE,
    ) -> OffsetsInitializer:
        """What the consumer group has committed; where it has not, what the strategy says."""
        expect(offset_reset_strategy, OffsetResetStrategy, "OffsetsInitializer.committed_offsets")
        return _Committed(offset_reset_strategy)

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
        return _Explicit(dict(offsets), offset_reset_strategy)


@dataclass(frozen=True, slots=True)
class _Reset(OffsetsInitializer):
    """One end of each partition."""

    strategy: OffsetResetStrategy

    def resolve(self, partitions: Sequence[TopicPartition], log: PartitionedLog) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        if self.strategy is OffsetResetStrategy.NONE:
            raise ConfigurationError(
                f"there is no offset to start from for {', '.join(str(each) for each in partitions)}: give the "
                "offsets initializer an OffsetResetStrategy, EARLIEST or LATEST, or an offset for each"
            )
        is_earliest = self.strategy is OffsetResetStrategy.EARLIEST
        return log.earliest(partitions) if is_earliest else log.latest(partitions)


@dataclass(frozen=True, slots=True)
class _Timestamp(OffsetsInitializer):
    """The first record not before a point in time."""

    timestamp_millis: int

    def resolve(self, partitions: Sequence[TopicPartition], log: PartitionedLog) -> dict[TopicPartition, int]:
        found = log.at_timestamp(partitions, self.timestamp_millis)
        behind = log.latest([partition for partition in partitions if partition not in found])
        return {**found, **behind}


@dataclass(frozen=True, slots=True)
class _Committed(OffsetsInitializer):
    """Where a consumer group has come to."""

    strategy: OffsetResetStrategy

    @property
    def needs_group(self) -> bool:
        return True

    def resolve(self, partitions: Sequence[TopicPartition], log: PartitionedLog) -> dict[TopicPartition, int]:
        return _or_reset(log.committed(partitions), partitions, self.strategy, log)


@dataclass(frozen=True, slots=True)
class _Explicit(OffsetsInitializer):
    """Offsets of the program."""

    given: Mapping[TopicPartition, int]
    strategy: OffsetResetStrategy

    def resolve(self, partitions: Sequence[TopicPartition], log: PartitionedLog) -> dict[TopicPartition, int]:
        return _or_reset(self.given, partitions, self.strategy, log)


def _or_reset(
    found: Mapping[TopicPartition, int],
    partitions: Sequence[TopicPartition],
    strategy: OffsetResetStrategy,
    log: PartitionedLog,
) -> dict[TopicPartition, int]:
    rest = [partition for partition in partitions if partition not in found]
    taken = {partition: found[partition] for partition in partitions if partition in found}
    return {**taken, **_Reset(strategy).resolve(rest, log)}
