"""Topics and consumer groups of a cluster of Kafka, as operators ask for them."""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from headrace.common.errors import InfrastructureError
from headrace.common.messages import TopicPartition
from headrace.connectors.kafka.clients import ClientErrors, ClientSettings
from headrace.connectors.kafka.partitioned_log import KafkaPartitionedLog
from headrace.connectors.kafka.transactions import committed_in, is_owner
from headrace.connectors.topic_state import GroupState, TopicMonitor, TopicsState, TopicState

T = TypeVar("T")

_SECONDS: Final = 30.0
_SHOWN: Final = ("cleanup.policy", "retention.ms", "retention.bytes")
_REQUESTS_AT_ONCE: Final = 8
_NOT_SHOWN: Final = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART)
"""Errors of partitions that may not be seen, or are gone meanwhile."""


class KafkaTopicMonitor(TopicMonitor):
    """Looks at a cluster. Sizes are not known: the client does not ask brokers for them.

    A consumer requests the offsets of a group, not an admin client, which ends the whole process when the group's
    coordinator goes meanwhile. Markers of sinks are no offsets of readers, and left out.

    Args:
        settings: how it is reached.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._log = KafkaPartitionedLog(settings)
        self._admin: AdminClient = settings.admin("monitor", ClientErrors())

    def look(self) -> TopicsState:
        counts = self._log.topics()
        partitions = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
        begins, ends = self._log.earliest(partitions), self._log.latest(partitions)
        settings, groups, now = self._settings_of(list(counts)), self._groups(partitions), time.monotonic()
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
        requested = self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic) for topic in topics])
        return {
            resource.name: {name: entry.value for name, entry in _answer(future).items() if name in _SHOWN}
            for resource, future in requested.items()
        }

    def _groups(self, partitions: Sequence[TopicPartition]) -> dict[str, GroupState]:
        listed = _answer(self._admin.list_consumer_groups())
        ids = [each.group_id for each in listed.valid]
        if not (ids and partitions):
            return {}
        described = {each: _answer(future) for each, future in self._admin.describe_consumer_groups(ids).items()}
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE, thread_name_prefix="headrace-topics-groups") as pool:
            offsets = pool.map(lambda group: self._offsets(group, partitions), ids)
            known = zip(ids, offsets, strict=True)
            return {group: GroupState(len(described[group].members), found) for group, found in known if found}

    def _offsets(self, group: str, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        with closing(self._settings.group(group, ClientErrors(), waits=False)) as consumer:
            try:
                found = committed_in(consumer, [KafkaPartition(*each) for each in partitions], _NOT_SHOWN)
            except KafkaException as error:
                raise _refused(error) from error
        return {
            TopicPartition(each.topic, each.partition): each.offset
            for each in found
            if each.offset >= 0 and not is_owner(each.metadata or "")
        }


def _answer(future: "Future[T]") -> T:
    try:
        return future.result(_SECONDS)
    except KafkaException as error:
        raise _refused(error) from error
    except TimeoutError:
        raise InfrastructureError(f"Kafka does not tell of its topics and groups within {_SECONDS:g} s") from None


def _refused(error: KafkaException) -> InfrastructureError:
    return InfrastructureError(f"Kafka does not tell of its topics and groups: {error.args[0].str()}")
