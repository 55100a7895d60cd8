"""Topics and consumer groups of a cluster of Kafka, as operators ask for them."""

import time
from concurrent.futures import Future
from typing import Final, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from headrace.common.errors import InfrastructureError
from headrace.common.messages import TopicPartition
from headrace.connectors.kafka.clients import ClientErrors, ClientSettings
from headrace.connectors.kafka.partitioned_log import KafkaPartitionedLog
from headrace.connectors.topic_state import GroupState, TopicMonitor, TopicsState, TopicState

T = TypeVar("T")

_SECONDS: Final = 30.0
_SHOWN: Final = ("cleanup.policy", "retention.ms", "retention.bytes")


class KafkaTopicMonitor(TopicMonitor):
    """Looks at a cluster. Sizes are not known: the client does not ask brokers for them.

    Args:
        settings: how it is reached.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._log = KafkaPartitionedLog(settings)
        self._admin: AdminClient = settings.admin("monitor", ClientErrors())

    def look(self) -> TopicsState:
        counts = self._log.topics()
        partitions = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
        begins, ends = self._log.earliest(partitions), self._log.latest(partitions)
        settings, groups, now = self._settings_of(list(counts)), self._groups(), time.monotonic()
        topics = {
            topic: TopicState(
                tuple(begins[TopicPartition(topic, number)] for number in range(count)),
                tuple(ends[TopicPartition(topic, number)] for number in range(count)),
                None,
                settings.get(topic, {}),
            )
            for topic, count in counts.items()
        }
        return TopicsState(now, topics, groups)

    def _settings_of(self, topics: list[str]) -> dict[str, dict[str, str]]:
        if not topics:
            return {}
        asked = self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic) for topic in topics])
        return {
            resource.name: {name: entry.value for name, entry in _answer(future).items() if name in _SHOWN}
            for resource, future in asked.items()
        }

    def _groups(self) -> dict[str, GroupState]:
        listed = _answer(self._admin.list_consumer_groups())
        ids = [each.group_id for each in listed.valid]
        if not ids:
            return {}
        described = {each: _answer(future) for each, future in self._admin.describe_consumer_groups(ids).items()}
        found = {}
        for group in ids:  # the client takes one group at a time
            (future,) = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
            offsets = {
                TopicPartition(each.topic, each.partition): each.offset
                for each in _answer(future).topic_partitions
                if each.offset >= 0
            }
            found[group] = GroupState(len(described[group].members), offsets)
        return found


def _answer(future: "Future[T]") -> T:
    try:
        return future.result(_SECONDS)
    except KafkaException as error:
        raise InfrastructureError(f"Kafka does not tell of its topics and groups: {error.args[0].str()}") from error
