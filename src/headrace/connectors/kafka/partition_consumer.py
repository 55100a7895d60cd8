"""``PartitionConsumer``: fetches the messages of a partition from brokers."""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import filterfalse
from operator import methodcaller
from typing import TYPE_CHECKING, Final

from headrace.common.errors import InfrastructureError, SourceChangedError
from headrace.connectors.kafka.clients.errors import ClientErrors, error_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Consumer, Message

    from headrace.common.topic_partition import TopicPartition
    from headrace.connectors.kafka.clients.client import ClientSettings

_FETCH_RECORDS: Final = 500  # memory that is used again at once: twice as many cost a third more
_FETCH_SECONDS: Final = 0.02
_WAIT_SECONDS: Final = 0.5
_FEW_RECORDS: Final = 2_000
"""A range with fewer is what has come of late: as a rule there is nothing behind it, so nothing is fetched ahead. A
fetch that waits is answered at each new record, many times between two epochs."""
_STALLED_SECONDS: Final = 60
_NOWHERE: Final = -1
_OFFSET: Final = methodcaller("offset")


@dataclass(slots=True)
class PartitionConsumer:
    """A consumer of one partition, which fetches ahead what comes next, unless it rests.

    Attributes:
        settings: how the cluster is reached.
        partition: the partition.
    """

    settings: ClientSettings
    partition: TopicPartition
    _consumer: Consumer | None = None
    _errors: ClientErrors = field(default_factory=ClientErrors)
    _ahead: list[Message] = field(default_factory=list)
    _fetched: int = _NOWHERE
    _handed_out: int = _NOWHERE

    def read(self, start: int, end: int) -> Iterator[list[Message]]:
        """The messages of ``[start, end)`` in their order, as they come.

        Offsets may have gaps, of compaction and of the marks of transactions, before ``end`` as well: so the range is
        over when a message from behind it comes, or the partition has no more.

        Raises:
            SourceChangedError: when the first of them were deleted.
            InfrastructureError: when nothing comes for a minute, or on another passing fault.
        """
        consumer = self._at(start)
        self._handed_out = _NOWHERE
        while True:
            behind = bisect_left(self._ahead, end, key=_OFFSET) if self._fetched > end else len(self._ahead)
            taken, self._ahead = self._ahead[:behind], self._ahead[behind:]
            is_over = self._fetched >= end
            if is_over:  # before the last ones are given away: nobody may come for more
                self._handed_out = end
                if end - start < _FEW_RECORDS:
                    self.rest()
            if taken:
                yield taken
            if is_over:
                return
            self._fetch(consumer, end, 0 if end - start < _FEW_RECORDS else _FETCH_SECONDS)

    def rest(self) -> None:
        """Fetch nothing until there is something to read; connections stay."""
        if self._consumer is not None:
            self._consumer.unassign()
        self._ahead, self._fetched, self._handed_out = [], _NOWHERE, _NOWHERE

    def close(self) -> None:
        """Let go of connections."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _at(self, offset: int) -> Consumer:
        """The consumer, whose next message is the first one from an offset on."""
        from confluent_kafka import TopicPartition as Assigned

        if self._consumer is None:
            self._consumer = self.settings.consumer(f"reader-{self.partition}", self._errors)
        if self._handed_out != offset:
            self._consumer.assign([Assigned(self.partition.topic, self.partition.partition, offset)])
            self._ahead, self._fetched = [], offset
        return self._consumer

    def _fetch(self, consumer: Consumer, end: int, seconds: float) -> None:
        """Take what has come, of many messages those that come within some seconds; waits until something has."""
        started = time.monotonic()
        wanted = max(1, min(_FETCH_RECORDS, end - self._fetched))
        while not self._take(consumer.consume(wanted, seconds) or consumer.consume(1, _WAIT_SECONDS)):
            self._errors.check(f"{self.partition}@{self._fetched}, at {self.settings.servers}")
            if time.monotonic() - started > _STALLED_SECONDS:
                raise InfrastructureError(
                    f"{self.partition}@{self._fetched}: nothing has come from {self.settings.servers} for "
                    f"{_STALLED_SECONDS} s; what the log has from headrace.connectors.kafka may say why"
                )

    def _take(self, messages: list[Message]) -> bool:
        """Keep what has come; whether it leads on."""
        good = list(filterfalse(type(messages[0]).error, messages)) if messages else messages
        if good:
            self._ahead += good
            self._fetched = good[-1].offset() + 1
        for message in messages if len(good) < len(messages) else ():
            if message.error() is not None:
                self._fetched = max(self._fetched, self._end_told_by(message))
        return bool(messages)

    def _end_told_by(self, message: Message) -> int:
        """The offset at which the partition ends now, if that is what a message is about.

        Raises:
            SourceChangedError: when it says that records were deleted.
            HeadraceError: when it tells of another fault.
        """
        from confluent_kafka import KafkaError

        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            return int(message.offset())
        place = f"{self.partition}@{self._fetched}"
        self._handed_out = _NOWHERE
        if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            raise SourceChangedError(
                f"{place} is not there any more: records were deleted (retention.ms, retention.bytes, or the topic) "
                "after they were found, and before they were read"
            )
        raise error_of(error, place)
