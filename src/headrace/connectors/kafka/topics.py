"""Seeing whether a topic is there, and what partitions it has."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

from headrace.common.errors import ConfigurationError
from headrace.connectors.kafka.clients.errors import ClientErrors

if TYPE_CHECKING:
    from headrace.connectors.kafka.clients.client import ClientSettings
    from headrace.connectors.kept_clients import KeptClients

_REQUEST_SECONDS: Final = 20
_RETRY_SECONDS: Final = 0.1
_MAX_AGE_SECONDS: Final = 300
"""``metadata.max.age.ms`` of Java's clients."""


def partition_count(settings: ClientSettings, topic: str) -> int:
    """How many partitions a topic has; brokers make one that is asked for, if they are set up to.

    Raises:
        ConfigurationError: when it is not there.
        InfrastructureError: when no broker answers.
    """
    from confluent_kafka import KafkaException

    errors = ClientErrors()
    admin = settings.admin("topics", errors)
    end = time.monotonic() + _REQUEST_SECONDS
    while True:
        try:
            found = admin.list_topics(topic, timeout=_REQUEST_SECONDS).topics[topic]
        except KafkaException as error:
            admin.poll(0)  # has it tell its errors
            errors.check(f"topic {topic} cannot be asked about, at {settings.servers}")
            raise errors.failure(error.args[0], f"topic {topic} at {settings.servers}") from None
        if found.error is None:
            return len(found.partitions)
        if time.monotonic() > end or not _passes(found.error.code()):
            raise ConfigurationError(
                f"topic {topic} at {settings.servers}: {found.error.str()}; create it, or correct its name"
            )
        time.sleep(_RETRY_SECONDS)


class PartitionCounts:
    """How many partitions topics have, asked again now and then: partitions may be added to a topic.

    Args:
        settings: how the cluster is reached.
        clients: have what other tasks of this process have asked.
    """

    def __init__(self, settings: ClientSettings, clients: KeptClients) -> None:
        self._settings = settings
        self._clients = clients

    def of(self, topic: str) -> int:
        """How many partitions a topic has; errors as with :func:`partition_count`."""
        answers = self._clients.take(self._settings.key, _Answers) or _Answers()
        try:
            return answers.count(self._settings, topic)
        finally:
            self._clients.keep(self._settings.key, answers)


class _Answers:
    """What was asked of a cluster, and when."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, float]] = {}

    def count(self, settings: ClientSettings, topic: str) -> int:
        count, asked = self._known.get(topic, (0, -math.inf))
        if time.monotonic() - asked > _MAX_AGE_SECONDS:
            count = partition_count(settings, topic)
            self._known[topic] = count, time.monotonic()
        return count

    def close(self) -> None:
        """There is nothing to let go of."""


def _passes(code: int) -> bool:
    from confluent_kafka import KafkaError

    return code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.LEADER_NOT_AVAILABLE)
