"""The offsets of a consumer group, read and written by a client that does not join it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import InfrastructureError
from headrace.common.logs import get_logger
from headrace.common.topic_partition import TopicPartition
from headrace.connectors.kafka.clients.errors import error_of

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

    from headrace.connectors.kafka.clients.client import ClientSettings
    from headrace.connectors.kafka.clients.errors import ClientErrors

_PURPOSE: Final = "group"
_CLOSE_SECONDS: Final = 20
_POLL_SECONDS: Final = 0.05

logger = get_logger(__name__)


class GroupOffsets:
    """The offsets of a consumer group.

    It is a consumer that asks, not an admin client: librdkafka's admin client ends the whole process when the group's
    coordinator goes while it is asked.

    Args:
        settings: how the cluster is reached, and the group.
        errors: what clients tell beside their answers.
    """

    def __init__(self, settings: ClientSettings, errors: ClientErrors) -> None:
        self._settings = settings
        self._errors = errors
        self._client: Consumer | None = None
        self._next: Mapping[TopicPartition, int] = {}
        self._is_under_way = False

    def committed(self, partitions: Sequence[TopicPartition], seconds: float) -> dict[TopicPartition, int]:
        """What the group has committed; partitions of which it has nothing are left out.

        Raises:
            InfrastructureError: when it is not known now.
            ConfigurationError: when the client may not ask.
        """
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Asked

        what = f"the offsets of group {self._name} at {self._settings.servers}"
        try:
            found = self._consumer().committed([Asked(each.topic, each.partition) for each in partitions], seconds)
        except KafkaException as error:
            self._errors.check(what)
            raise error_of(error.args[0], what) from None
        for each in found:
            if each.error is not None:  # its offset says nothing then, not that there is none
                raise InfrastructureError(f"{what} in {each.topic}-{each.partition}: {each.error.str()}")
        return {TopicPartition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Begin to commit offsets; a failure is logged, later. While one is under way, only the newest waits."""
        self._next = offsets
        if offsets:
            self._consumer().poll(0)  # hears how the last commit went
            self._send()

    def close(self) -> None:
        """Wait for the last :meth:`commit`, and let go of connections."""
        if self._client is None:
            return
        end = time.monotonic() + _CLOSE_SECONDS
        while (self._is_under_way or self._next) and time.monotonic() < end:
            self._send()
            self._client.poll(_POLL_SECONDS)
        if self._is_under_way or self._next:
            logger.warning("the offsets of group %s were not committed: no broker has answered", self._name)
        self._client.close()
        self._client = None

    @property
    def _name(self) -> str:
        return self._settings.properties["group.id"]

    def _consumer(self) -> Consumer:
        if self._client is None:
            self._client = self._settings.consumer(_PURPOSE, self._errors, {"on_commit": self._ended})
        return self._client

    def _send(self) -> None:
        from confluent_kafka import TopicPartition as Asked

        if self._is_under_way or not self._next:
            return
        listed = [Asked(each.topic, each.partition, offset) for each, offset in self._next.items()]
        self._next, self._is_under_way = {}, True
        self._consumer().commit(offsets=listed, asynchronous=True)

    def _ended(self, error: KafkaError | None, partitions: Sequence[Any]) -> None:
        self._is_under_way = False
        failures = [each for each in (error, *(partition.error for partition in partitions)) if each is not None]
        if failures:
            logger.warning("the offsets of group %s were not committed: %s", self._name, failures[0].str())
