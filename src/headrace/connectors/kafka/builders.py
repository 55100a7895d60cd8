"""Settings of clients and consumers, shared by the builders of Kafka sources and sinks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from headrace.common.arguments import refused
from headrace.common.call_site import warn_caller
from headrace.common.errors import ConfigurationError, InvalidTypeError
from headrace.connectors.kafka.clients import SINK, SOURCE, check_properties, is_of_consumers
from headrace.connectors.partitions.builder import MessageSourceBuilder
from headrace.connectors.partitions.enumerator import DISCOVERY_MILLIS, ReadingPlan

if TYPE_CHECKING:
    from typing import Self

    from headrace.connectors.partitions.subscription import Subscription


class KafkaClientBuilder:
    """Puts something together that clients of Kafka read or write."""

    _name: ClassVar[str]
    """What is built, in errors."""
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

    def _check_servers(self) -> None:
        if "bootstrap.servers" not in self._properties:
            raise refused(f"a {self._name} needs set_bootstrap_servers('host:port')", ConfigurationError)


def _text(key: str, value: object) -> str:
    """The value of a setting, as librdkafka takes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value).lower()
    raise refused(f"set_property takes text for {key!r}, not {value!r}", InvalidTypeError)


_DISCOVERY: Final = "partition.discovery.interval.ms"
_COMMITS: Final = "commit.offsets.on.checkpoint"
_RESET: Final = "auto.offset.reset"


class KafkaConsumerBuilder(KafkaClientBuilder, MessageSourceBuilder):
    """Puts a source together whose messages are read by clients of Kafka."""

    _kind = SOURCE

    def set_group_id(self, group_id: str) -> Self:
        """The consumer group whose offsets show how far the job has come; the job itself goes by its checkpoints."""
        return self.set_property("group.id", group_id)

    def set_client_id_prefix(self, prefix: str) -> Self:
        """What the ids of clients begin with, in quotas and logs of brokers."""
        return self.set_property("client.id.prefix", prefix)

    def _reading_plan(self, subscription: Subscription, properties: dict[str, str]) -> ReadingPlan:
        """What is read.

        Args:
            subscription: which partitions.
            properties: the settings, of which those that are no client's are taken out.

        Raises:
            ConfigurationError: when one of them is malformed.
        """
        return self._planned(
            subscription,
            has_group="group.id" in properties,
            commits=_boolean(_COMMITS, properties.pop(_COMMITS, "true")),
            discovery_millis=whole_number(_DISCOVERY, properties.pop(_DISCOVERY, str(DISCOVERY_MILLIS))),
            resets_to=_reset_of(properties.pop(_RESET, "none")),
        )


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise refused(f"{name!r} is true or false, not {text!r}", ConfigurationError)
    return text.lower() == "true"


def whole_number(name: str, text: str) -> int:
    """A setting that is a whole number.

    Raises:
        ConfigurationError: when it is none.
    """
    try:
        return int(text)
    except ValueError:
        raise refused(f"{name!r} is a whole number, not {text!r}", ConfigurationError) from None


def _reset_of(text: str) -> str | None:
    if text not in ("none", "earliest", "latest"):
        raise refused(f"{_RESET!r} is earliest, latest or none, not {text!r}", ConfigurationError)
    return None if text == "none" else text
