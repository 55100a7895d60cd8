"""Whether Kafka's clients take settings, before there is a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.common.arguments import refused
from headrace.common.errors import ConfigurationError
from headrace.common.other_names import alike
from headrace.connectors.kafka.clients.properties import settings_without_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

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
