"""The driver's requests to a Kafka cluster: topics, partitions, offsets, and offsets of a consumer group."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import OffsetSpec

from headrace.common.errors import ConfigurationError, InfrastructureError, SourceChangedError
from headrace.common.logs import get_logger
from headrace.common.messages import TopicPartition
from headrace.connectors.kafka.clients import ClientErrors, ClientSettings, error_of
from headrace.connectors.partitions import PartitionedLog
from headrace.connectors.source import KeptClients

T = TypeVar("T")

logger = get_logger(__name__)

_CLOSE_SECONDS: Final = 20
_POLL_SECONDS: Final = 0.05
_REQUEST_SECONDS: Final = 20
_RETRY_SECONDS: Final = 0.2
_ANSWER_SECONDS: Final = 3
_NO_RECORD: Final = -1
"""The offset of a timestamp behind which there is nothing."""


class KafkaPartitionedLog(PartitionedLog):
    """A cluster as an enumerator sees it.

    Requests about the consumer group go by a consumer: librdkafka's admin client ends the whole process when
    the group's coordinator goes meanwhile.

    Args:
        settings: how it is reached.

    Raises:
        ConfigurationError: when the settings are wrong.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._errors = ClientErrors()
        self._admin = settings.admin("enumerator", self._errors)
        self._member: Consumer | None = None
        self._to_commit: Mapping[TopicPartition, int] = {}
        self._is_committing = False

    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic that may be seen; those of Kafka itself are left out.

        Raises:
            InfrastructureError: when no broker answers.
            ConfigurationError: when the client may not ask.
        """
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
        def ask() -> dict[str, str]:
            requested = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=_ANSWER_SECONDS)
            described = {topic: self._answer(future, f"topic {topic}") for topic, future in requested.items()}
            return {topic: f"{found.topic_id}" for topic, found in described.items()}

        return self._with_retries(ask) if topics else {}

    def earliest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(partitions, OffsetSpec.earliest())

    def latest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(partitions, OffsetSpec.latest())

    def at_timestamp(self, partitions: Sequence[TopicPartition], millis: int) -> dict[TopicPartition, int]:
        found = self._offsets(partitions, OffsetSpec.for_timestamp(millis))
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._with_retries(lambda: self._committed_now(partitions))

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Begin to commit offsets; a failure is logged, later. While one is under way, only the newest waits."""
        self._to_commit = offsets
        if offsets:
            self._group().poll(0)  # calls back about the last commit
            self._begin_commit()

    def close(self) -> None:
        """Wait for the last :meth:`commit`, and close connections."""
        if self._member is None:
            return
        end = time.monotonic() + _CLOSE_SECONDS
        while (self._is_committing or self._to_commit) and time.monotonic() < end:
            self._begin_commit()
            self._member.poll(_POLL_SECONDS)
        if self._is_committing or self._to_commit:
            logger.warning("the offsets of group %s were not committed: no broker has answered", self._group_id)
        self._member.close()
        self._member = None

    @property
    def _group_id(self) -> str:
        return self._settings.properties["group.id"]

    def _group(self) -> Consumer:
        if self._member is None:
            self._member = self._settings.consumer("group", self._errors, {"on_commit": self._on_commit})
        return self._member

    def _committed_now(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        what = f"the offsets of group {self._group_id} at {self._settings.servers}"
        try:
            found = self._group().committed([KafkaPartition(*each) for each in partitions], _ANSWER_SECONDS)
        except KafkaException as error:
            self._errors.check(what)
            raise error_of(error.args[0], what) from None
        for each in found:
            if each.error is not None:  # its offset says nothing then, not that there is none
                raise InfrastructureError(f"{what} in {each.topic}-{each.partition}: {each.error.str()}")
        return {TopicPartition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def _begin_commit(self) -> None:
        if self._is_committing or not self._to_commit:
            return
        listed = [KafkaPartition(*each, offset) for each, offset in self._to_commit.items()]
        self._to_commit, self._is_committing = {}, True
        self._group().commit(offsets=listed, asynchronous=True)

    def _on_commit(self, error: KafkaError | None, partitions: Sequence[Any]) -> None:
        self._is_committing = False
        failures = [each for each in (error, *(partition.error for partition in partitions)) if each is not None]
        if failures:
            logger.warning("the offsets of group %s were not committed: %s", self._group_id, failures[0].str())

    def _offsets(self, partitions: Sequence[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        return self._with_retries(lambda: self._offsets_now(partitions, spec)) if partitions else {}

    def _with_retries(self, ask: Callable[[], T]) -> T:
        """The answer to a request, retried for a while: no job should fail since a leader or coordinator moves.

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
            self.topics()  # looks up the leaders anew

    def _offsets_now(self, partitions: Sequence[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        reads_all = self._settings.properties.get("isolation.level") == "read_uncommitted"
        answers = self._admin.list_offsets(
            {KafkaPartition(*each): spec for each in partitions},
            isolation_level=IsolationLevel.READ_UNCOMMITTED if reads_all else IsolationLevel.READ_COMMITTED,
            request_timeout=_ANSWER_SECONDS,  # the broker may be down
        )
        found = {}
        for requested, future in answers.items():
            partition = TopicPartition(requested.topic, requested.partition)
            offset = int(self._answer(future, f"partition {partition}").offset)
            if offset < _NO_RECORD:  # what librdkafka gives while a partition has no leader
                raise InfrastructureError(
                    f"partition {partition} at {self._settings.servers}: its offsets are not known now"
                )
            found[partition] = offset
        return found

    def _answer(self, future: Future[T], what: str) -> T:
        try:
            return future.result(2 * _REQUEST_SECONDS)
        except KafkaException as error:
            raise self._failure(error, what) from None
        except NotInTime:
            raise InfrastructureError(f"{what} at {self._settings.servers}: no broker has answered") from None

    def _failure(self, error: KafkaException, what: str) -> Exception:
        cause = error.args[0]
        if cause.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
            return SourceChangedError(
                f"{what} is gone: it was deleted, or may not be seen any more. Take it from the source, or make it "
                "again and start the job without its checkpoints"
            )
        return self._errors.failure(cause, f"{what}, at {self._settings.servers}")


_TOPIC_RETRY_SECONDS: Final = 0.1
_MAX_AGE_SECONDS: Final = 300
"""``metadata.max.age.ms`` of Java's clients."""


def partition_count(settings: ClientSettings, topic: str) -> int:
    """The number of partitions of a topic; brokers create one on a request, if they are set up to.

    Raises:
        ConfigurationError: when it is not there.
        InfrastructureError: when no broker answers.
    """
    errors = ClientErrors()
    admin = settings.admin("topics", errors)
    end = time.monotonic() + _REQUEST_SECONDS
    while True:
        try:
            found = admin.list_topics(topic, timeout=_REQUEST_SECONDS).topics[topic]
        except KafkaException as error:
            admin.poll(0)  # has it tell its errors
            errors.check(f"topic {topic} cannot be described, at {settings.servers}")
            raise errors.failure(error.args[0], f"topic {topic} at {settings.servers}") from None
        if found.error is None:
            return len(found.partitions)
        if time.monotonic() > end or not _passes(found.error.code()):
            raise ConfigurationError(
                f"topic {topic} at {settings.servers}: {found.error.str()}; create it, or correct its name"
            )
        time.sleep(_TOPIC_RETRY_SECONDS)


def known_partition_count(settings: ClientSettings, clients: KeptClients, topic: str) -> int:
    """The number of partitions of a topic, requested again now and then: partitions may be added to a topic.

    Args:
        settings: how the cluster is reached.
        clients: keep the answers to other tasks of this process.
        topic: the topic; errors are those of :func:`partition_count`.
    """
    answers = clients.take(settings.key, _Answers) or _Answers()
    try:
        count, requested = answers.get(topic, (0, -math.inf))
        if time.monotonic() - requested > _MAX_AGE_SECONDS:
            count = partition_count(settings, topic)
            answers[topic] = count, time.monotonic()
        return count
    finally:
        clients.keep(settings.key, answers)


class _Answers(dict[str, tuple[int, float]]):
    """A cluster's answers by topic, and when they came."""

    def close(self) -> None:
        """There is nothing to close."""


def _passes(code: int) -> bool:
    return code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.LEADER_NOT_AVAILABLE)
