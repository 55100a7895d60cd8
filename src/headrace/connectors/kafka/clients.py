"""Clients of Kafka: their settings under Java's names and librdkafka's, their secrets, and what their errors mean."""

from __future__ import annotations

import logging
import math
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.common.arguments import refused
from headrace.common.errors import ConfigurationError, HeadraceError, InfrastructureError
from headrace.common.logs import get_logger
from headrace.common.other_names import alike

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer, KafkaError, Message, Producer
    from confluent_kafka.admin import AdminClient


_REFERENCE: Final = re.compile(r"\$\{(env|file|directory):([^}]+)\}")
_CLIENT_ID_PREFIX: Final = "client.id.prefix"
_LOGIN_OF_JAVA: Final = "sasl.jaas.config"
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
    SINK: frozenset(("transactional.id", "delivery.report.only.error")),
}
"""What a source or a sink itself decides."""


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


def librdkafka_settings(properties: Mapping[str, str], purpose: str) -> dict[str, Any]:
    """Settings under librdkafka's names, with secrets in the place of what refers to them.

    Args:
        properties: as the program gave them.
        purpose: what the client is for, in its id.

    Raises:
        ConfigurationError: when a secret is not there.
    """
    settings: dict[str, Any] = {}
    for name, value in properties.items():
        settings.update(_translated(name, _REFERENCE.sub(_secret, value)))
    prefix = settings.pop(_CLIENT_ID_PREFIX, None)
    if prefix is not None:
        settings["client.id"] = f"{prefix}-{purpose}"
    return settings


def settings_without_secrets(properties: Mapping[str, str]) -> dict[str, str | None]:
    """Settings under librdkafka's names, as far as they are known without looking up secrets.

    Args:
        properties: as the program gave them.

    Returns:
        None in place of a value that refers to a secret.
    """
    settings = dict[str, str | None]()
    for name, value in properties.items():
        if not _REFERENCE.search(value):
            settings.update(_translated(name, value))
        elif name != _LOGIN_OF_JAVA:
            settings.update(dict.fromkeys(_translated(name, value)))
    settings.pop(_CLIENT_ID_PREFIX, None)
    return settings


def is_of_consumers(name: str) -> bool:
    """Whether a setting of librdkafka means nothing to other clients than consumers."""
    starts = ("group.", "isolation.", "fetch.", "queued.", "max.p", "session.", "heartbeat.", "auto.", "check.crcs")
    return name.startswith(starts) or name in ("max.partition.fetch.bytes", "partition.assignment.strategy")


def is_of_producers(name: str) -> bool:
    """Whether a setting of librdkafka means nothing to other clients than producers."""
    starts = ("linger.", "batch.", "compression.", "queue.buffering.", "message.", "transaction", "max.in.flight")
    others = ("acks", "request.required.acks", "partitioner", "retries", "retry.backoff.ms", "delivery.timeout.ms")
    return name.startswith(starts) or name in (*others, "enable.idempotence", "sticky.partitioning.linger.ms")


def _translated(name: str, value: str) -> dict[str, str]:
    """A setting under librdkafka's names."""
    if name in _WITHOUT_MEANING:
        return {}
    if name == _LOGIN_OF_JAVA:
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

_FILES: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location")
"""The settings that are names of files."""

_CRITICAL: Final = 2
"""The level of librdkafka's own lines, of which those about errors say again what ``error_cb`` is told."""
_INFO: Final = 6
"""The level of those about connections that broke, of which ``error_cb`` is not told."""


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
            errors: gets the errors of the client.
            more: callbacks.

        Raises:
            ConfigurationError: when librdkafka does not take the settings, or is not installed.
        """
        from confluent_kafka import Consumer

        return self._create(
            Consumer, {**_DEFAULTS, **librdkafka_settings(self.properties, purpose), **_FIXED, **more}, errors
        )

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
        settings = librdkafka_settings(self.properties, purpose)
        own = {name: value for name, value in settings.items() if not is_of_consumers(name)}
        given = {**_DEFAULTS_OF_PRODUCERS, **defaults, **own, **more}
        return self._create(Producer, {**given, **reports}, errors)

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

        settings = librdkafka_settings(self.properties, group)
        shared = {name: value for name, value in settings.items() if not is_of_producers(name)}
        isolation = "read_committed" if waits else "read_uncommitted"
        own = {"group.id": group, "isolation.level": isolation, "enable.auto.commit": False}
        return self._create(Consumer, {**shared, **own}, errors)

    def admin(self, purpose: str, errors: ClientErrors) -> AdminClient:
        """A client that looks at topics and offsets.

        Raises:
            ConfigurationError: as above.
        """
        from confluent_kafka.admin import AdminClient

        settings = librdkafka_settings(self.properties, purpose)
        shared = {name: value for name, value in settings.items() if not is_of_consumers(name)}
        return self._create(AdminClient, shared, errors)

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
        """The same for the same settings."""
        return tuple(sorted(self.properties.items()))

    @property
    def servers(self) -> str:
        """The bootstrap servers."""
        return self.properties["bootstrap.servers"]

    def _create(self, client: Any, settings: dict[str, Any], errors: ClientErrors) -> Any:
        from confluent_kafka import KafkaException

        errors.shows_lines = _shows_lines(settings)
        try:
            return client({**settings, **_lines(settings), "error_cb": errors.note}, logger=errors)
        except KafkaException as error:
            raise ConfigurationError(
                f"Kafka's client refuses its settings: {error.args[0].str()}{_unreadable(settings)}"
            ) from None


def _unreadable(settings: Mapping[str, Any]) -> str:
    """What of the files that settings name cannot be read here, as the end of a message: librdkafka does not say."""
    found = []
    for name, value in settings.items():
        if name in _FILES:
            try:
                Path(value).open("rb").close()
            except OSError as error:
                found.append(f"; '{name}' is {value}: {error.strerror}")
    return "".join(found)


def _shows_lines(settings: Mapping[str, Any]) -> bool:
    """Whether lines of a client are asked for."""
    return "debug" in settings or "log_level" in settings


def _lines(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings by which a client writes the lines that are needed of it."""
    if _TRANSACTIONAL_ID in settings:
        level = {} if "debug" in settings else {"log_level": _INFO}
        return {**level, "log.connection.close": True}
    return {} if _shows_lines(settings) else {"log_level": _CRITICAL}


def check_library() -> None:
    """Refuse to go on without librdkafka.

    Raises:
        ConfigurationError: saying what to install.
    """
    try:
        import confluent_kafka  # noqa: F401 (only whether it can be)
    except ImportError:
        raise ConfigurationError(
            "Kafka needs a library that is not installed: pip install 'headrace[kafka]', on executors too"
        ) from None


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


_NO_SETTING: Final = "headrace.no.setting"
"""What no client knows: asked for last, it has librdkafka refuse to make one when all before it is right."""

_UNKNOWN: Final = 'No such configuration property: "{}"'

_PLUGINS: Final = "plugin.library.paths"
"""A plugin of librdkafka is loaded when this is set, and may know settings of its own."""

_NAMES: Final = """
acks allow.auto.create.topics auto.commit.interval.ms auto.offset.reset batch.num.messages batch.size
bootstrap.servers broker.address.family broker.address.ttl check.crcs client.dns.lookup client.id client.id.prefix
client.rack commit.offsets.on.checkpoint compression.codec compression.level compression.type connections.max.idle.ms
debug delivery.timeout.ms enable.idempotence enable.metrics.push enable.ssl.certificate.verification
fetch.error.backoff.ms fetch.max.bytes fetch.max.wait.ms fetch.message.max.bytes fetch.min.bytes
fetch.queue.backoff.ms fetch.wait.max.ms group.id group.instance.id group.protocol heartbeat.interval.ms
https.ca.location https.ca.pem isolation.level linger.ms log.connection.close log.thread.name log_level
max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms max.request.size
message.copy.max.bytes message.max.bytes message.send.max.retries message.timeout.ms metadata.max.age.ms
metadata.recovery.strategy partition.assignment.strategy partition.discovery.interval.ms partitioner
queue.buffering.backpressure.threshold queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms
queued.max.messages.kbytes queued.min.messages receive.message.max.bytes reconnect.backoff.max.ms reconnect.backoff.ms
request.required.acks request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms sasl.jaas.config
sasl.kerberos.keytab sasl.kerberos.kinit.cmd sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism
sasl.mechanisms sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.config
sasl.oauthbearer.extensions sasl.oauthbearer.method sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url
sasl.password sasl.username security.protocol session.timeout.ms socket.connection.setup.timeout.ms
socket.keepalive.enable socket.max.fails socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes
socket.timeout.ms ssl.ca.certificate.stores ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem
ssl.cipher.suites ssl.crl.location ssl.endpoint.identification.algorithm ssl.key.location ssl.key.password ssl.key.pem
ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
ssl.truststore.certificates statistics.interval.ms sticky.partitioning.linger.ms topic.metadata.propagation.max.ms
topic.metadata.refresh.interval.ms transaction.timeout.ms
"""

PROPOSED: Final = tuple(_NAMES.split())
"""Names that somebody may mean, librdkafka's and those that stand for them here; librdkafka itself has no list."""


def check_known(properties: Mapping[str, str]) -> None:
    """Refuse settings that librdkafka would refuse when a client is made; where it is not installed, none is.

    Args:
        properties: as the program gave them, without those that are no client's.

    Raises:
        ConfigurationError: naming the setting, and what it may have been meant to be.
    """
    try:
        import confluent_kafka  # noqa: F401 (the start of a job tells that it is not there)
    except ImportError:
        return
    if _PLUGINS in properties:
        return
    for name, value in settings_without_secrets(properties).items():
        _check(name, value)


def _check(name: str, value: str | None) -> None:
    said = _refusal(name, value)
    if said == _UNKNOWN.format(name):
        raise refused(f"Kafka's clients have no setting {name!r}{alike(name, PROPOSED)}", ConfigurationError)
    if value is not None and said != _UNKNOWN.format(_NO_SETTING):
        raise refused(f"Kafka's clients refuse {name!r}: {said}", ConfigurationError)


def _refusal(name: str, value: str | None) -> str:
    """What librdkafka says to a setting, or at last to the one that there is not."""
    from confluent_kafka import KafkaException, Producer

    try:
        Producer({name: value, _NO_SETTING: ""})
    except KafkaException as error:
        return str(error.args[0].str()).strip()
    except (TypeError, ValueError) as error:
        return str(error)
    raise AssertionError(f"librdkafka has a setting {_NO_SETTING}")
