"""Errors of Kafka's clients: those that may pass, and those that somebody has to do something about."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Final

from headrace.common.errors import ConfigurationError, HeadraceError, InfrastructureError
from headrace.common.logs import get_logger

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

CLIENT_LOGGER: Final = get_logger("headrace.connectors.kafka.client")
"""Has the lines of librdkafka, and what clients tell beside their answers."""

_OF_CONNECTIONS: Final = ("_TRANSPORT", "_RESOLVE", "_SSL", "_AUTHENTICATION")
"""What errors are called that are about reaching a broker."""

_QUIET_SECONDS: Final = 10
"""How long errors of a kind are not logged again: a client tries to connect ten times a second."""

_FAILURE: Final = "FAIL"
_IN_USE: Final = "in state UP"
"""What is in librdkafka's line about a connection that was there."""


class ClientErrors:
    """What a client tells beside its answers: it goes on trying where a password is wrong, say.

    Attributes:
        shows_lines: whether all lines of the client are logged, or only those of its end.
        lost_connection: whether a connection broke that was in use, which its lines alone tell.
    """

    def __init__(self) -> None:
        self.shows_lines = False
        self.lost_connection = False
        self._lasting: KafkaError | None = None
        self._connection: KafkaError | None = None
        self._told_at: dict[int, float] = {}

    def note(self, error: KafkaError) -> None:
        """Log an error, each kind now and then, and remember one that does not pass."""
        now = time.monotonic()
        if now - self._told_at.get(error.code(), -math.inf) >= _QUIET_SECONDS:
            CLIENT_LOGGER.warning("Kafka's client: %s (%s)", error.str(), error.name())
            self._told_at[error.code()] = now
        if _is_lasting(error):
            self._lasting = error
        if error.name() in _OF_CONNECTIONS:
            self._connection = error

    def log(self, level: int, line: str, facility: str, *parts: str) -> None:
        """Take a line of the client, as a logger would."""
        if facility == _FAILURE and _IN_USE in parts[-1]:
            self.lost_connection = True
        if self.shows_lines or level >= logging.CRITICAL:
            CLIENT_LOGGER.log(level, line, facility, *parts)

    def check(self, what: str) -> None:
        """Give up where there is no use in trying on.

        Args:
            what: what was tried.

        Raises:
            ConfigurationError: saying why.
        """
        if self._lasting is not None:
            raise error_of(self._lasting, what)

    def failure(self, error: KafkaError, what: str) -> HeadraceError:
        """As :func:`error_of`, with why brokers could not be reached: an answer that is missed does not tell."""
        found = error_of(error, what)
        if self._connection is None or error.name() not in _OF_CONNECTIONS:
            return found
        return type(found)(f"{found}: {self._connection.str()}")


def error_of(error: KafkaError, what: str) -> HeadraceError:
    """What an error of a client means: one that may pass, or one that somebody has to do something about."""
    kind = ConfigurationError if _is_lasting(error) else InfrastructureError
    return kind(f"{what}: {error.str()} ({error.name()})")


def delivery_error(error: KafkaError, topic: str, servers: str) -> HeadraceError:
    """Why a message was not delivered; what fails again when it is sent again is no passing fault."""
    from confluent_kafka import KafkaError

    large = "have it be smaller, or raise 'message.max.bytes' here and 'max.message.bytes' of the topic"
    missing = "create it, or correct its name"
    advice = {
        KafkaError.MSG_SIZE_TOO_LARGE: large,
        KafkaError.RECORD_LIST_TOO_LARGE: large,
        KafkaError.UNKNOWN_TOPIC_OR_PART: missing,
        KafkaError._UNKNOWN_TOPIC: missing,
        KafkaError.TOPIC_EXCEPTION: missing,
        KafkaError.INVALID_RECORD: "look at what the topic asks of messages (one that is compacted asks for keys)",
    }
    what = f"topic {topic} at {servers} does not take a message"
    if error.code() in advice:
        return ConfigurationError(f"{what}: {error.str()} ({error.name()}); {advice[error.code()]}")
    return error_of(error, what)


def _is_lasting(error: KafkaError) -> bool:
    from confluent_kafka import KafkaError

    return error.code() in (
        *(KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED),
        *(KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED),
        *(KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    )
