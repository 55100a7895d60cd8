"""Clients of Kafka: their settings, secrets in them, and what their errors mean."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import ConfigurationError, HeadraceError, InfrastructureError
from headrace.common.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer, KafkaError, Message, Producer
    from confluent_kafka.admin import AdminClient

logger = get_logger(__name__)

_REFERENCE: Final = re.compile(r"\$\{(env|file|directory):([^}]+)\}")
_LOGIN: Final = re.compile(r"(?:Plain|Scram)LoginModule\s+required\s+(.*?);?\s*$", re.DOTALL)
_LOGIN_OPTION: Final = re.compile(r"""(username|password)\s*=\s*(?:"([^"]*)"|'([^']*)')""")

_RENAMED: Final[Mapping[str, str]] = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "max.request.size": "message.max.bytes",
}
"""What Java's clients call it, and what librdkafka does."""

_WITHOUT_MEANING: Final = frozenset(
    (
        *("key.deserializer", "value.deserializer", "key.serializer", "value.serializer"),
        *("max.poll.records", "register.consumer.metrics", "metric.reporters"),
    )
)
"""What Java's clients need: the builder's schema reads and writes records, and epochs say how many."""

SOURCE: Final = "source"
SINK: Final = "sink"

_OWN: Final[Mapping[str, frozenset[str]]] = {
    SOURCE: frozenset(("enable.auto.commit", "enable.partition.eof", "enable.auto.offset.store")),
    SINK: frozenset(("transactional.id", "delivery.report.only.error", "group.id")),
}
"""What a source or a sink itself decides."""

_FIXED: Final[Mapping[str, Any]] = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
}
_DEFAULTS: Final[Mapping[str, Any]] = {
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": 32 << 10,  # each partition that a task reads has such a queue
    "fetch.wait.max.ms": 100,  # one that is under way holds up a consumer that has to read from somewhere else
    "fetch.queue.backoff.ms": 10,  # librdkafka's second is as long as some epochs
    "group.id": "headrace",  # librdkafka asks for one; nothing joins it
}
_DEFAULTS_OF_PRODUCERS: Final[Mapping[str, Any]] = {
    "enable.idempotence": True,  # what is sent again is neither there twice nor out of order
    "partitioner": "murmur2_random",  # that of Java's clients
}
_DEFAULTS_OF_SENDERS: Final[Mapping[str, Any]] = {"message.timeout.ms": 120_000}  # as theirs
_DEFAULTS_OF_TRANSACTIONS: Final[Mapping[str, Any]] = {"transaction.timeout.ms": 120_000}  # messages have as long
_TRANSACTIONAL_ID: Final = "transactional.id"
_NOTHING: Final[Mapping[str, Any]] = {}

_CRITICAL: Final = 2
"""The level of librdkafka's own lines, of which those about errors say again what ``error_cb`` is told."""
_QUIET_SECONDS: Final = 10
"""How long errors of a kind are not logged again: a client tries to connect ten times a second."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What a client is told.

    Attributes:
        properties: as the program gave them: Java's names or librdkafka's, with references to secrets. Not shown.
    """

    properties: Mapping[str, str] = field(repr=False)

    def consumer(self, purpose: str, errors: ClientErrors, more: Mapping[str, Any] = _NOTHING) -> Consumer:
        """A consumer that commits nothing by itself, and tells when it comes to the end of a partition.

        Args:
            purpose: what it is for, in its client id.
            errors: what it tells its errors.
            more: callbacks.

        Raises:
            ConfigurationError: when librdkafka does not take the settings, or is not installed.
        """
        from confluent_kafka import Consumer

        return self._made(Consumer, {**_DEFAULTS, **self._resolved(purpose), **_FIXED, **more}, errors)

    def producer(
        self,
        purpose: str,
        errors: ClientErrors,
        on_delivery: Callable[[KafkaError, Message], None],
        more: Mapping[str, Any] = _NOTHING,
    ) -> Producer:
        """A producer.

        Args:
            purpose: part of the client's id.
            errors: gets the errors of the client.
            on_delivery: is told of messages that were not delivered, while the producer is polled or flushed.
            more: settings that the sink decides, ``transactional.id`` among them if there are to be transactions.

        Raises:
            ConfigurationError: as above.
        """
        from confluent_kafka import Producer

        reports = {"on_delivery": on_delivery, "delivery.report.only.error": True}
        defaults = _DEFAULTS_OF_TRANSACTIONS if _TRANSACTIONAL_ID in more else _DEFAULTS_OF_SENDERS
        given = {**_DEFAULTS_OF_PRODUCERS, **defaults, **self._resolved(purpose), **more}
        return self._made(Producer, {**given, **reports}, errors)

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

        settings = self._resolved(group)
        shared = {name: value for name, value in settings.items() if not _is_of_producers(name)}
        isolation = "read_committed" if waits else "read_uncommitted"
        own = {"group.id": group, "isolation.level": isolation, "enable.auto.commit": False}
        return self._made(Consumer, {**shared, **own}, errors)

    def admin(self, purpose: str, errors: ClientErrors) -> AdminClient:
        """A client that looks at topics and offsets.

        Raises:
            ConfigurationError: as above.
        """
        from confluent_kafka.admin import AdminClient

        settings = self._resolved(purpose)
        shared = {name: value for name, value in settings.items() if not _is_of_consumers(name)}
        return self._made(AdminClient, shared, errors)

    def number(self, name: str, default: int) -> int:
        """A setting that is a number, under librdkafka's name.

        Raises:
            ConfigurationError: when it is none, or a secret in the settings is not there.
        """
        value = self._resolved("").get(name, default)
        try:
            return int(value)
        except ValueError:
            raise ConfigurationError(f"{name!r} is a number, not {value!r}") from None

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """The same for the same settings."""
        return tuple(sorted(self.properties.items()))

    @property
    def servers(self) -> str:
        """The bootstrap servers."""
        return self.properties["bootstrap.servers"]

    def _made(self, client: Any, settings: dict[str, Any], errors: ClientErrors) -> Any:
        from confluent_kafka import KafkaException

        told = {} if "debug" in settings else {"log_level": _CRITICAL}
        try:
            return client({**told, **settings, "error_cb": errors.note}, logger=logger)
        except KafkaException as error:
            raise ConfigurationError(f"Kafka's client refuses its settings: {error.args[0].str()}") from None

    def _resolved(self, purpose: str) -> dict[str, Any]:
        settings = {}
        for name, value in self.properties.items():
            settings.update(_translated(name, _REFERENCE.sub(_secret, value)))
        prefix = settings.pop("client.id.prefix", None)
        if prefix is not None:
            settings["client.id"] = f"{prefix}-{purpose}"
        return settings


def check_properties(properties: Mapping[str, str], of: str = SOURCE) -> None:
    """Refuse settings that the source or sink decides itself, and those that mean something to Java alone.

    Args:
        properties: the settings.
        of: whose they are, ``SOURCE`` or ``SINK``.

    Raises:
        ConfigurationError: naming the setting.
    """
    for name, value in properties.items():
        if name in _OWN[of]:
            raise ConfigurationError(f"{name!r} is for the {of} itself to decide: remove it")
        if not _REFERENCE.search(value):
            _translated(name, value)


def check_library() -> None:
    """Refuse to go on without librdkafka.

    Raises:
        ConfigurationError: saying what to install.
    """
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        raise ConfigurationError(
            "Kafka needs a library that is not installed: pip install 'headrace[kafka]', on executors too"
        ) from None


class ClientErrors:
    """What a client tells beside its answers: it goes on trying where a password is wrong, say."""

    def __init__(self) -> None:
        self._lasting: KafkaError | None = None
        self._told_at: dict[int, float] = {}

    def note(self, error: KafkaError) -> None:
        """Log an error, each kind now and then, and remember one that does not pass."""
        now = time.monotonic()
        if now - self._told_at.get(error.code(), -math.inf) >= _QUIET_SECONDS:
            logger.warning("Kafka's client: %s (%s)", error.str(), error.name())
            self._told_at[error.code()] = now
        if _is_lasting(error):
            self._lasting = error

    def check(self, what: str) -> None:
        """Give up where there is no use in trying on.

        Args:
            what: what was tried.

        Raises:
            ConfigurationError: saying why.
        """
        if self._lasting is not None:
            raise error_of(self._lasting, what)


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


def _is_of_consumers(name: str) -> bool:
    starts = ("group.", "isolation.", "fetch.", "queued.", "max.p", "session.", "heartbeat.", "auto.", "check.crcs")
    return name.startswith(starts) or name in ("max.partition.fetch.bytes", "partition.assignment.strategy")


def _is_of_producers(name: str) -> bool:
    starts = ("linger.", "batch.", "compression.", "queue.buffering.", "message.", "transaction", "max.in.flight")
    others = ("acks", "request.required.acks", "partitioner", "retries", "retry.backoff.ms", "delivery.timeout.ms")
    return name.startswith(starts) or name in (*others, "enable.idempotence", "sticky.partitioning.linger.ms")


def _translated(name: str, value: str) -> dict[str, str]:
    """A setting under librdkafka's names."""
    if name in _WITHOUT_MEANING:
        return {}
    if name == "sasl.jaas.config":
        return _login(value)
    if name in ("ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type"):
        raise ConfigurationError(
            f"{name!r} is for Java: export the certificates as PEM (keytool -exportcert -rfc), and give their file as "
            "'ssl.ca.location'"
        )
    return {_RENAMED.get(name, name): value}


def _login(value: str) -> dict[str, str]:
    """User and password of what Java's clients are given."""
    found = _LOGIN.search(value)
    options = {name: first or second for name, first, second in _LOGIN_OPTION.findall(found[1] if found else "")}
    if set(options) != {"username", "password"}:
        raise ConfigurationError(
            "'sasl.jaas.config' is understood for PlainLoginModule and ScramLoginModule with username and password; "
            "give 'sasl.username' and 'sasl.password', or what librdkafka's documentation says for other mechanisms"
        )
    return {f"sasl.{name}": text for name, text in options.items()}


def _secret(reference: re.Match[str]) -> str:
    """What a reference stands for, as Kafka's own configuration providers would say."""
    kind, place = reference.groups()
    try:
        if kind == "env":
            return os.environ[place]
        path, _, name = place.rpartition(":")
        if kind == "directory":
            return Path(path, name).read_text().rstrip("\n")
        lines = (line.partition("=") for line in Path(path).read_text().splitlines())
        return {key.strip(): value.strip() for key, _, value in lines}[name]
    except (KeyError, OSError) as error:
        told = "is not set" if isinstance(error, KeyError) else f"cannot be read: {error.strerror}"
        raise ConfigurationError(f"{reference[0]}, part of Kafka's settings, {told}") from None
