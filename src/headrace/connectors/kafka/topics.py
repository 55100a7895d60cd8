"""Seeing whether a topic is there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from headrace.common.errors import ConfigurationError
from headrace.connectors.kafka.clients.errors import ClientErrors

if TYPE_CHECKING:
    from headrace.connectors.kafka.clients.client import ClientSettings

_REQUEST_SECONDS: Final = 20
_RETRY_SECONDS: Final = 0.1


def require_topic(settings: ClientSettings, topic: str) -> None:
    """See whether a topic is there; brokers make one that is asked for, if they are set up to.

    Raises:
        ConfigurationError: when it is not.
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
            return
        if time.monotonic() > end or not _passes(found.error.code()):
            raise ConfigurationError(
                f"topic {topic} at {settings.servers}: {found.error.str()}; create it, or correct its name"
            )
        time.sleep(_RETRY_SECONDS)


def _passes(code: int) -> bool:
    from confluent_kafka import KafkaError

    return code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.LEADER_NOT_AVAILABLE)
