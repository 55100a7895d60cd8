"""Settings of Kafka's clients: under the names of Java's and of librdkafka's, and the secrets that they refer to."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from headrace.common.errors import ConfigurationError

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
