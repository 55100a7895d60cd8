"""Settings of Kafka's clients: Java's names and librdkafka's, secrets, and the builders that collect them."""

import re
from collections.abc import Mapping
from typing import ClassVar, Final, Self

from headrace.common.builder import Builder
from headrace.common.call_site import warn_caller
from headrace.common.errors import ConfigurationError, InvalidTypeError, expect, refused
from headrace.common.masking import MASK, is_sensitive
from headrace.common.other_names import alike
from headrace.common.secret_references import has_reference, with_secrets

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
"""Names of settings: those of Java's clients, and librdkafka's."""


_WITHOUT_MEANING: Final = frozenset(
    (
        *("key.deserializer", "value.deserializer", "key.serializer", "value.serializer"),
        *("max.poll.records", "register.consumer.metrics", "metric.reporters"),
    )
)
"""Settings that Java's clients need, and that mean nothing here: schemas and epochs do what they are for."""


SOURCE: Final = "source"


SINK: Final = "sink"


_OWN: Final[Mapping[str, frozenset[str]]] = {
    SOURCE: frozenset(("enable.auto.commit", "enable.partition.eof", "enable.auto.offset.store")),
    SINK: frozenset(("transactional.id", "delivery.report.only.error")),
}
"""Settings that a source or a sink decides itself."""


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
        if not has_reference(value):
            _translated(name, value)


def librdkafka_settings(properties: Mapping[str, str], purpose: str) -> dict[str, str]:
    """Settings under librdkafka's names, with secrets in the place of what refers to them.

    Args:
        properties: as the program gave them.
        purpose: what the client is for, in its id.

    Raises:
        ConfigurationError: when a secret is not there.
    """
    settings: dict[str, str] = {}
    for name, value in properties.items():
        settings.update(_translated(name, with_secrets(value, "Kafka's settings")))
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
        if not has_reference(value):
            settings.update(_translated(name, value))
        elif name != _LOGIN_OF_JAVA:
            settings.update(dict.fromkeys(_translated(name, value)))
    settings.pop(_CLIENT_ID_PREFIX, None)
    return settings


def is_of_consumers(name: str) -> bool:
    """Tell whether a setting of librdkafka means nothing to other clients than consumers."""
    starts = ("group.", "isolation.", "fetch.", "queued.", "max.p", "session.", "heartbeat.", "auto.", "check.crcs")
    return name.startswith(starts) or name in ("max.partition.fetch.bytes", "partition.assignment.strategy")


def is_of_producers(name: str) -> bool:
    """Tell whether a setting of librdkafka means nothing to other clients than producers."""
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


_NO_SETTING: Final = "headrace.no.setting"
"""A setting that no client knows: given last, it has librdkafka refuse a client if all before it are right."""


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
"""Names that a user may mean, librdkafka's and those that stand for them here; librdkafka itself has no list."""


def check_known(properties: Mapping[str, str]) -> None:
    """Refuse settings that librdkafka would refuse when a client is made; where it is not installed, none is.

    Args:
        properties: as the program gave them, without those that are no client's.

    Raises:
        ConfigurationError: naming the setting, and what it may have been meant to be.
    """
    try:
        import confluent_kafka  # noqa: F401 (the start of a job reports that it is not there)
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
        said = said.replace(value, MASK) if value and is_sensitive(name) else said
        raise refused(f"Kafka's clients refuse {name!r}: {said}", ConfigurationError)


def _refusal(name: str, value: str | None) -> str:
    """The error of librdkafka about a setting, or else about the one that does not exist."""
    from confluent_kafka import KafkaException, Producer

    try:
        Producer({name: value, _NO_SETTING: ""})
    except KafkaException as error:
        return str(error.args[0].str()).strip()
    except (TypeError, ValueError) as error:
        return str(error)
    raise AssertionError(f"librdkafka has a setting {_NO_SETTING}")


class KafkaClientBuilder(Builder):
    """Puts something together that clients of Kafka read or write."""

    _kind: ClassVar[str]
    """``SOURCE`` or ``SINK``."""

    def __init__(self) -> None:
        super().__init__()
        self._properties: dict[str, str] = {}

    def set_property(self, key: str, value: str) -> Self:
        """A setting of librdkafka, or of Java's clients where both know it.

        ``${env:NAME}``, ``${directory:/run/secrets:password}`` and ``${file:/etc/kafka.properties:password}`` stand for
        secrets, which are looked up where a client is made and are not part of the job.

        Raises:
            ConfigurationError: when it is for the source or sink itself to decide, or for Java alone.
            InvalidTypeError: when the value is neither text nor a number nor a boolean.
        """
        text = _text(key, value)
        try:
            check_properties({key: text}, self._kind)
        except ConfigurationError as error:
            raise refused(str(error), ConfigurationError) from None
        if self._kind == SINK and is_of_consumers(key):
            warn_caller(f"{key!r} has no effect on a sink: only consumers use it")
        self._properties[key] = text
        return self

    def set_properties(self, props: Mapping[str, str]) -> Self:
        """Several settings, see :meth:`set_property`."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def set_client_id_prefix(self, prefix: str) -> Self:
        """Set the beginning of the ids of clients, which quotas and logs of brokers show."""
        return self.set_property(_CLIENT_ID_PREFIX, prefix)


class KafkaClusterBuilder(KafkaClientBuilder):
    """Puts something together that clients of one cluster read or write."""

    def set_bootstrap_servers(self, bootstrap_servers: str) -> Self:
        """Set the brokers to connect to first: ``host:port``, several with commas.

        Raises:
            InvalidTypeError: when it is no text.
        """
        expect(bootstrap_servers, str, "set_bootstrap_servers")
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def _check_servers(self) -> None:
        if "bootstrap.servers" not in self._properties:
            raise refused(f"a {self._name} needs set_bootstrap_servers('host:port')", ConfigurationError)


def _text(key: str, value: object) -> str:
    """The value of a setting, as librdkafka takes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value).lower()
    shown = MASK if is_sensitive(key) else repr(value)
    raise refused(f"set_property takes text for {key!r}, not {shown}", InvalidTypeError)
