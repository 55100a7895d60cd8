"""Clients of Kafka: how they are made, what their errors mean, and how transactions are published by them."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import ConfigurationError, HeadraceError, InfrastructureError
from headrace.common.logs import get_logger
from headrace.connectors.kafka.settings import is_of_consumers, is_of_producers, librdkafka_settings

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer
    from confluent_kafka.admin import AdminClient


_FIXED: Final[Mapping[str, object]] = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
}
_DEFAULTS: Final[Mapping[str, object]] = {
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": 32 << 10,  # each partition that a task reads has such a queue
    "fetch.wait.max.ms": 100,  # one that is under way holds up a consumer that has to read from somewhere else
    "fetch.queue.backoff.ms": 10,  # librdkafka's second is as long as some epochs
    "group.id": "headrace",  # librdkafka requires one; nothing joins it
}
_DEFAULTS_OF_PRODUCERS: Final[Mapping[str, object]] = {
    "enable.idempotence": True,  # what is sent again is neither there twice nor out of order
    "partitioner": "murmur2_random",  # that of Java's clients
}
_DEFAULTS_OF_SENDERS: Final[Mapping[str, object]] = {"message.timeout.ms": 120_000}  # as theirs
_DEFAULTS_OF_TRANSACTIONS: Final[Mapping[str, object]] = {"transaction.timeout.ms": 120_000}  # messages have as long
_TRANSACTIONAL_ID: Final = "transactional.id"
_NOTHING: Final[Mapping[str, object]] = {}

_FILES: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location")
"""The settings that are names of files."""

_CRITICAL: Final = 2
"""The level of librdkafka's own lines, of which those about errors repeat what ``error_cb`` gets."""
_INFO: Final = 6
"""The level of those about connections that broke, which ``error_cb`` does not get."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings from which clients are created.

    Attributes:
        properties: as the program gave them: Java's names or librdkafka's, with references to secrets. Not shown.
    """

    properties: Mapping[str, str] = field(repr=False)

    def consumer(self, purpose: str, errors: ClientErrors, more: Mapping[str, object] = _NOTHING) -> Consumer:
        """A consumer that commits nothing by itself, and reports the end of a partition.

        Args:
            purpose: what it is for, in its client id.
            errors: gets the errors of the client.
            more: callbacks.

        Raises:
            ConfigurationError: when librdkafka does not take the settings, or is not installed.
        """
        from confluent_kafka import Consumer

        return self._create(Consumer, {**_DEFAULTS, **self._given(purpose), **_FIXED, **more}, errors)

    def producer(
        self,
        purpose: str,
        errors: ClientErrors,
        on_delivery: Callable[[KafkaError, Message], None],
        more: Mapping[str, object] = _NOTHING,
    ) -> Producer:
        """A producer.

        Args:
            purpose: part of the client's id.
            errors: gets the errors of the client.
            on_delivery: is called with messages that were not delivered, while the producer is polled or flushed.
            more: settings that the sink decides, ``transactional.id`` among them if there are to be transactions.

        Raises:
            ConfigurationError: as above.
        """
        from confluent_kafka import Producer

        reports = {"on_delivery": on_delivery, "delivery.report.only.error": True}
        defaults = _DEFAULTS_OF_TRANSACTIONS if _TRANSACTIONAL_ID in more else _DEFAULTS_OF_SENDERS
        own = self._given(purpose, is_of_consumers)
        return self._create(Producer, {**_DEFAULTS_OF_PRODUCERS, **defaults, **own, **more, **reports}, errors)

    def group(self, group: str, errors: ClientErrors, *, waits: bool) -> Consumer:
        """A consumer for what a producer commits for a group, and for reading it: it reads no messages.

        Args:
            group: the group.
            errors: gets the errors of the client.
            waits: whether reading waits for an open transaction, or passes over it.

        Raises:
            ConfigurationError: as above.
        """
        from confluent_kafka import Consumer

        isolation = "read_committed" if waits else "read_uncommitted"
        own = {"group.id": group, "isolation.level": isolation, "enable.auto.commit": False}
        return self._create(Consumer, {**self._given(group, is_of_producers), **own}, errors)

    def admin(self, purpose: str, errors: ClientErrors) -> AdminClient:
        """A client that looks at topics and offsets.

        Raises:
            ConfigurationError: as above.
        """
        from confluent_kafka.admin import AdminClient

        return self._create(AdminClient, self._given(purpose, is_of_consumers), errors)

    def number(self, name: str, default: int) -> int:
        """A setting that is a number, under librdkafka's name.

        Raises:
            ConfigurationError: when it is none, or a secret in the settings is not there.
        """
        value = librdkafka_settings(self.properties, "").get(name, default)
        try:
            return int(value)
        except ValueError:
            raise ConfigurationError(f"{name!r} is a number, not {value!r}") from None

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """A key for kept clients: equal for equal settings."""
        return tuple(sorted(self.properties.items()))

    @property
    def servers(self) -> str:
        """The bootstrap servers."""
        return self.properties["bootstrap.servers"]

    def _given(self, purpose: str, is_foreign: Callable[[str], bool] = lambda _: False) -> dict[str, str]:
        """The settings of the program under librdkafka's names, without those that mean nothing to a client."""
        given = librdkafka_settings(self.properties, purpose)
        return {name: value for name, value in given.items() if not is_foreign(name)}

    def _create(self, client: Any, settings: Mapping[str, object], errors: ClientErrors) -> Any:
        from confluent_kafka import KafkaException

        errors.shows_lines = _shows_lines(settings)
        try:
            return client({**settings, **_lines(settings), "error_cb": errors.note}, logger=errors)
        except KafkaException as error:
            raise ConfigurationError(
                f"Kafka's client refuses its settings: {error.args[0].str()}{_unreadable(settings)}"
            ) from None


def _unreadable(settings: Mapping[str, object]) -> str:
    """The files in settings that cannot be read here, as the end of a message: librdkafka does not name them."""
    found = []
    for name, value in settings.items():
        if name in _FILES:
            try:
                Path(str(value)).open("rb").close()
            except OSError as error:
                found.append(f"; '{name}' is {value}: {error.strerror}")
    return "".join(found)


def _shows_lines(settings: Mapping[str, object]) -> bool:
    """Return whether lines of a client are to be logged."""
    return "debug" in settings or "log_level" in settings


def _lines(settings: Mapping[str, object]) -> Mapping[str, object]:
    """The settings by which a client writes the lines that are needed of it."""
    if _TRANSACTIONAL_ID in settings:
        level = {} if "debug" in settings else {"log_level": _INFO}
        return {**level, "log.connection.close": True}
    return {} if _shows_lines(settings) else {"log_level": _CRITICAL}


CLIENT_LOGGER: Final = get_logger("headrace.connectors.kafka.client")
"""Has the lines of librdkafka, and what clients tell beside their answers."""

_OF_CONNECTIONS: Final = ("_TRANSPORT", "_RESOLVE", "_SSL", "_AUTHENTICATION")
"""The names of errors about reaching a broker."""

_QUIET_SECONDS: Final = 10
"""Errors of a kind are not logged again for so long: a client tries to connect ten times a second."""

_FAILURE: Final = "FAIL"
_IN_USE: Final = "in state UP"
"""A part of librdkafka's line about a connection that was in use."""


class ClientErrors:
    """Collects the errors that a client reports beside its answers: with a wrong password it just goes on trying.

    Attributes:
        shows_lines: whether all lines of the client are logged, or only those of its end.
        lost_connection: whether a connection broke that was in use, which its lines alone tell.
    """

    def __init__(self) -> None:
        self.shows_lines = False
        self.lost_connection = False
        self._lasting: KafkaError | None = None
        self._connection: KafkaError | None = None
        self._logged_at: dict[int, float] = {}

    def note(self, error: KafkaError) -> None:
        """Log an error, each kind now and then, and remember one that does not pass."""
        now = time.monotonic()
        if now - self._logged_at.get(error.code(), -math.inf) >= _QUIET_SECONDS:
            CLIENT_LOGGER.warning("Kafka's client: %s (%s)", error.str(), error.name())
            self._logged_at[error.code()] = now
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
        """Make an error as :func:`error_of` does; a timeout gets the reason why brokers cannot be reached."""
        found = error_of(error, what)
        if self._connection is None or error.name() not in _OF_CONNECTIONS:
            return found
        return type(found)(f"{found}: {self._connection.str()}")


def error_of(error: KafkaError, what: str) -> HeadraceError:
    """Translate an error of a client into one that may pass, or one that needs a change of the configuration."""
    kind = ConfigurationError if _is_lasting(error) else InfrastructureError
    return kind(f"{what}: {error.str()} ({error.name()})")


def delivery_error(error: KafkaError, topic: str, servers: str) -> HeadraceError:
    """The error of a message that was not delivered; one that fails again when it is sent again is no passing fault."""
    from confluent_kafka import KafkaError

    large = "have it be smaller, or raise 'message.max.bytes' here and 'max.message.bytes' of the topic"
    missing = "create it, or correct its name"
    advice = {
        KafkaError.MSG_SIZE_TOO_LARGE: large,
        KafkaError.RECORD_LIST_TOO_LARGE: large,
        KafkaError.UNKNOWN_TOPIC_OR_PART: missing,
        KafkaError._UNKNOWN_TOPIC: missing,
        KafkaError.TOPIC_EXCEPTION: missing,
        KafkaError.INVALID_RECORD: "look at what the topic requires of messages (one that is compacted requires keys)",
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


class MissingMarker(Enum):
    """Tells what a ``KafkaSink`` does when Kafka has lost the marker of the epoch that was published last.

    Examples:
        >>> from headrace.datastream.connectors.kafka import MissingMarker
        >>> [choice.name for choice in MissingMarker]
        ['FAIL', 'PUBLISH']
    """

    FAIL = "fail"
    """Stop the job, and say so, until ``set_published_up_to`` says: messages could be there twice, or be lost."""

    PUBLISH = "publish"
    """Publish what waits: its messages may be there twice."""


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The settings of a sink's transactions, and the user's decision about epochs whose marker is lost.

    Attributes:
        client: how the cluster is reached.
        marker_topic: at which topic markers are.
        missing_marker: what to do where a marker is lost and nothing was said about it.
        published_up_to: up to which epoch messages are there, by transactional id; under None, of all other ids.
        transactional_id_prefix: the beginning of transactional ids; the job's and the sink's when None.
    """

    client: ClientSettings
    marker_topic: str
    missing_marker: MissingMarker = MissingMarker.FAIL
    published_up_to: Mapping[str | None, int] = field(default_factory=dict)
    transactional_id_prefix: str | None = None

    def transactional_id(self, job_id: str, operator_id: str, subtask: int) -> str:
        """The id under which a subtask's messages are published, the same over all restarts."""
        return f"{self.transactional_id_prefix or f'headrace-{job_id}-{operator_id}'}-{subtask}"

    def last_published(self, transactional_id: str, epoch: int, waiting: Sequence[int]) -> int | None:
        """The epoch that counts as published last under an id, whose marker is gone.

        What was said is about the epochs that waited then. It answers for no others: a marker that is lost a second
        time would not be missed.

        Args:
            transactional_id: the id.
            epoch: the epoch that is to be published.
            waiting: those that waited when the job was started.

        Returns:
            None if that is not known.
        """
        said = self._said_of(transactional_id)
        if said is not None and epoch in waiting and waiting[0] - 1 <= said <= waiting[-1]:
            return said
        return epoch - 1 if self.missing_marker is MissingMarker.PUBLISH else None

    def advice(self, transactional_id: str, epoch: int, waiting: Sequence[int]) -> str:
        """Advice for the case that it is not known; the arguments are those of :meth:`last_published`."""
        if epoch not in waiting:
            return "Start the job again: it says then which epochs wait, and what to do"
        said = self._said_of(transactional_id)
        beside = "" if said is None else f" set_published_up_to({said}) is about epochs before these."
        return (
            f"These epochs wait: {', '.join(map(str, waiting))}.{beside} Look which of their messages are there; then "
            f"say which epoch is the last one that is, set_published_up_to({waiting[-1]}) if all of them are and "
            f"set_published_up_to({waiting[0] - 1}) if none is; or have what waits be published, perhaps again, with "
            "set_missing_marker(MissingMarker.PUBLISH)"
        )

    def _said_of(self, transactional_id: str) -> int | None:
        return self.published_up_to.get(transactional_id, self.published_up_to.get(None))
