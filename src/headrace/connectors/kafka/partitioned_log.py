"""What the driver asks a Kafka cluster: topics, partitions, offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.common.errors import InfrastructureError, SourceChangedError
from headrace.common.topic_partition import TopicPartition
from headrace.connectors.kafka.clients.errors import ClientErrors
from headrace.connectors.kafka.group import GroupOffsets
from headrace.connectors.partitions.partitioned_log import PartitionedLog

if TYPE_CHECKING:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import OffsetSpec

    from headrace.connectors.kafka.clients.client import ClientSettings

T = TypeVar("T")

_REQUEST_SECONDS: Final = 20
_RETRY_SECONDS: Final = 0.2
_ANSWER_SECONDS: Final = 3
_NO_RECORD: Final = -1
"""The offset of a timestamp behind which there is nothing."""
_PURPOSE: Final = "enumerator"


class KafkaPartitionedLog(PartitionedLog):
    """A cluster as an enumerator sees it.

    Args:
        settings: how it is reached.

    Raises:
        ConfigurationError: when the settings are wrong.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._errors = ClientErrors()
        self._admin = settings.admin(_PURPOSE, self._errors)
        self._group = GroupOffsets(settings, self._errors)

    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic that may be seen; those of Kafka itself are left out.

        Raises:
            InfrastructureError: when no broker answers.
            ConfigurationError: when the client may not ask.
        """
        from confluent_kafka import KafkaException

        end = time.monotonic() + _REQUEST_SECONDS
        while True:
            try:
                found = self._admin.list_topics(timeout=_ANSWER_SECONDS).topics
                break
            except KafkaException as error:
                self._admin.poll(0)  # has it tell its errors
                self._errors.check(f"topics cannot be listed, at {self._settings.servers}")
                if time.monotonic() > end:
                    raise self._failure(error, "topics cannot be listed") from None
        return {name: len(topic.partitions) for name, topic in found.items() if not name.startswith("__")}

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        from confluent_kafka import TopicCollection

        def ask() -> dict[str, str]:
            asked = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=_ANSWER_SECONDS)
            described = {topic: self._answer(future, f"topic {topic}") for topic, future in asked.items()}
            return {topic: f"{found.topic_id}" for topic, found in described.items()}

        return self._asked_again(ask) if topics else {}

    def earliest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(partitions, OffsetSpec.earliest())

    def latest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(partitions, OffsetSpec.latest())

    def at_timestamp(self, partitions: Sequence[TopicPartition], millis: int) -> dict[TopicPartition, int]:
        from confluent_kafka.admin import OffsetSpec

        found = self._offsets(partitions, OffsetSpec.for_timestamp(millis))
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._asked_again(lambda: self._group.committed(partitions, _ANSWER_SECONDS))

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Begin to commit offsets of the consumer group, for others to see; a failure is logged, later."""
        self._group.commit(offsets)

    def close(self) -> None:
        """Wait for the last :meth:`commit`."""
        self._group.close()

    def _offsets(self, partitions: Sequence[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        return self._asked_again(lambda: self._offsets_now(partitions, spec)) if partitions else {}

    def _asked_again(self, ask: Callable[[], T]) -> T:
        """Asks for a while: a leader or coordinator that moves, or comes back, is not a reason to run a job again.

        What is not there, may be new: not every broker has heard of a topic as soon as one of them lists it.
        """
        started = time.monotonic()
        while True:
            try:
                return ask()
            except (InfrastructureError, SourceChangedError) as error:
                patience = _ANSWER_SECONDS if isinstance(error, SourceChangedError) else _REQUEST_SECONDS
                if time.monotonic() - started > patience:
                    raise
            time.sleep(_RETRY_SECONDS)
            self.topics()  # who leads what is looked up anew by that

    def _offsets_now(self, partitions: Sequence[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        from confluent_kafka import IsolationLevel
        from confluent_kafka import TopicPartition as Asked

        reads_all = self._settings.properties.get("isolation.level") == "read_uncommitted"
        answers = self._admin.list_offsets(
            {Asked(each.topic, each.partition): spec for each in partitions},
            isolation_level=IsolationLevel.READ_UNCOMMITTED if reads_all else IsolationLevel.READ_COMMITTED,
            request_timeout=_ANSWER_SECONDS,  # who was asked may be down
        )
        found = {}
        for asked, future in answers.items():
            partition = TopicPartition(asked.topic, asked.partition)
            offset = int(self._answer(future, f"partition {partition}").offset)
            if offset < _NO_RECORD:  # what librdkafka gives while a partition has no leader
                raise InfrastructureError(
                    f"partition {partition} at {self._settings.servers}: its offsets are not known now"
                )
            found[partition] = offset
        return found

    def _answer(self, future: Future[T], what: str) -> T:
        from confluent_kafka import KafkaException

        try:
            return future.result(2 * _REQUEST_SECONDS)
        except KafkaException as error:
            raise self._failure(error, what) from None
        except NotInTime:
            raise InfrastructureError(f"{what} at {self._settings.servers}: no broker has answered") from None

    def _failure(self, error: KafkaException, what: str) -> Exception:
        from confluent_kafka import KafkaError

        cause = error.args[0]
        if cause.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
            return SourceChangedError(
                f"{what} is gone: it was deleted, or may not be seen any more. Take it from the source, or make it "
                "again and start the job without its checkpoints"
            )
        return self._errors.failure(cause, f"{what}, at {self._settings.servers}")
