"""What builders of sources of Kafka are told about their consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.common.arguments import refused
from headrace.common.errors import ConfigurationError
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.connectors.kafka.client_builder import KafkaClientBuilder
from headrace.connectors.kafka.clients.properties import SOURCE
from headrace.connectors.partitions.builder import MessageSourceBuilder
from headrace.connectors.partitions.enumerator import DISCOVERY_MILLIS, ReadingPlan

if TYPE_CHECKING:
    from typing import Self

    from headrace.connectors.partitions.subscription import Subscription

_DISCOVERY: Final = "partition.discovery.interval.ms"
_COMMITS: Final = "commit.offsets.on.checkpoint"
_RESET: Final = "auto.offset.reset"


@hides_engine_of_methods
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
