"""``PartitionedLog``: what a source of topics asks a broker, or a log, in the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from headrace.common.errors import SourceChangedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.common.topic_partition import TopicPartition


class PartitionedLog(ABC):
    """Topics with partitions of records, which are known by their offsets.

    What is asked may raise an ``InfrastructureError`` or an ``OSError`` on a passing fault, and a
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
        """Up to where records can be read: of transactions, only what no open one is in front of."""

    @abstractmethod
    def at_timestamp(self, partitions: Sequence[TopicPartition], millis: int) -> dict[TopicPartition, int]:
        """The first records whose timestamp is not below; partitions without one are left out."""

    @abstractmethod
    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """What the consumer group has committed; partitions of which it has nothing are left out."""

    @abstractmethod
    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of the consumer group, for others to see; a failure is logged."""

    def close(self) -> None:
        """Let go of connections."""


def topic_made_again(topic: str) -> SourceChangedError:
    """What to raise about a topic that is another one than the job has read."""
    return SourceChangedError(
        f"topic {topic!r} was deleted and made again since the job has read it, so its offsets are others: "
        "start the job without its checkpoints, or give the source another uid to read the topic anew"
    )
