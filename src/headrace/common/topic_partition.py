"""``TopicPartition``: a partition of a topic, of whatever kind of broker or log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition of a topic; its text is what checkpoints and messages call it.

    Attributes:
        topic: its name.
        partition: the number of the partition, from 0.

    Examples:
        >>> from headrace.log import TopicPartition
        >>> str(TopicPartition("payments", 3))
        'payments-3'
    """

    topic: str
    partition: int

    @staticmethod
    def parse(text: str) -> TopicPartition:
        """The partition that has a text."""
        topic, _, partition = text.rpartition("-")
        return TopicPartition(topic, int(partition))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
