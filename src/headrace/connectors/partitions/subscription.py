"""Which partitions a source reads, and what it asks a partitioned log for."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.common.errors import ConfigurationError, SourceChangedError
from headrace.common.other_names import alike
from headrace.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Subscription(ABC):
    """Which partitions are read, of those that there are."""

    @abstractmethod
    def partitions(self, topics: Mapping[str, int]) -> list[TopicPartition]:
        """The partitions in a stable order.

        Args:
            topics: by name, how many partitions each topic has.

        Raises:
            ConfigurationError: when there is no such topic or partition.
        """


@dataclass(frozen=True, slots=True)
class Topics(Subscription):
    """All partitions of some topics."""

    names: tuple[str, ...]

    def partitions(self, topics: Mapping[str, int]) -> list[TopicPartition]:
        for name in self.names:
            _check_topic(name, topics)
        return _all_of(self.names, topics)

    def __str__(self) -> str:
        return ", ".join(self.names)


@dataclass(frozen=True, slots=True)
class TopicPattern(Subscription):
    """All partitions of the topics whose names match a regular expression from beginning to end, now or later."""

    pattern: str

    def partitions(self, topics: Mapping[str, int]) -> list[TopicPartition]:
        matches = re.compile(self.pattern).fullmatch
        return _all_of(sorted(filter(matches, topics)), topics)

    def __str__(self) -> str:
        return f"topics like {self.pattern}"


@dataclass(frozen=True, slots=True)
class Partitions(Subscription):
    """Some partitions."""

    chosen: tuple[TopicPartition, ...]

    def partitions(self, topics: Mapping[str, int]) -> list[TopicPartition]:
        for each in self.chosen:
            _check_topic(each.topic, topics)
            if not 0 <= each.partition < topics[each.topic]:
                raise ConfigurationError(
                    f"there is no partition {each}: topic {each.topic!r} has {topics[each.topic]}, from 0"
                )
        return list(self.chosen)

    def __str__(self) -> str:
        return ", ".join(str(each) for each in self.chosen)


def _check_topic(name: str, topics: Mapping[str, int]) -> None:
    if name not in topics:
        raise ConfigurationError(f"there is no topic {name!r}, or it may not be seen{alike(name, topics)}")


def _all_of(names: Iterable[str], topics: Mapping[str, int]) -> list[TopicPartition]:
    return [TopicPartition(name, number) for name in names for number in range(topics[name])]


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
