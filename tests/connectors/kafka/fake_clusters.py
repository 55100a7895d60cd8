"""Clusters of Kafka that are dictionaries, a metadata service that a test drives, and a source of both."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from headrace.common import SimpleStringSchema
from headrace.common.errors import InfrastructureError
from headrace.common.messages import TopicPartition
from headrace.connectors.kafka.clients import ClientSettings
from headrace.connectors.kafka.dynamic_enumerator import DynamicKafkaEnumerator
from headrace.connectors.partitions import PartitionedLog
from headrace.connectors.source import EnumeratorContext, SourceReader, SourceRecords, SplitEnumerator
from headrace.datastream.connectors.dynamic_kafka import (
    ClusterMetadata,
    DynamicKafkaSource,
    DynamicKafkaSourceBuilder,
    KafkaMetadataService,
    KafkaStream,
)

_numbers: Final = itertools.count()
_clusters: Final[dict[str, FakeCluster]] = {}
_metadata: Final[dict[str, FakeMetadata]] = {}


class FakeCluster:
    """A cluster; it is found again by its address, also by what was pickled.

    Attributes:
        topics: by name, the records of each partition.
        ids: by name, which topic that is.
        committed: what the group has committed.
        is_away: whether it does not answer.
        answers: until it is set, whoever asks has to wait.
    """

    def __init__(self, **topics: int) -> None:
        self.servers = f"cluster-{next(_numbers)}:9092"
        _clusters[self.servers] = self
        self.topics: dict[str, list[list[str]]] = {}
        self.ids: dict[str, str] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.is_away = False
        self.answers = threading.Event()
        self.answers.set()
        for name, partitions in topics.items():
            self.make(name, partitions)

    def make(self, topic: str, partitions: int = 1) -> None:
        """Have a topic there, anew."""
        self.topics[topic] = [[] for _ in range(partitions)]
        self.ids[topic] = f"id-{next(_numbers)}"

    def put(self, topic: str, *records: str, partition: int = 0) -> None:
        """Append records."""
        self.topics[topic][partition] += records

    def holding(self, *topics: str, **more: Any) -> ClusterMetadata:
        """What a service says of it."""
        return ClusterMetadata(topics, {"bootstrap.servers": self.servers}, **more)


class FakeMetadata:
    """What a service tells, until that is changed.

    Attributes:
        clusters: by id, what there is of the one stream.
        failure: what it raises instead.
    """

    def __init__(self, **clusters: ClusterMetadata) -> None:
        self.key = f"metadata-{next(_numbers)}"
        _metadata[self.key] = self
        self.clusters = clusters
        self.failure: Exception | None = None

    @property
    def service(self) -> KafkaMetadataService:
        """The service."""
        return FakeService(self.key)


class FakeService(KafkaMetadataService):
    """Tells of one stream, ``s``."""

    def __init__(self, key: str) -> None:
        self._key = key

    def get_all_streams(self) -> Collection[KafkaStream]:
        told = _metadata[self._key]
        if told.failure is not None:
            raise told.failure
        return [KafkaStream("s", dict(told.clusters))]

    def is_cluster_active(self, kafka_cluster_id: str) -> bool:
        return kafka_cluster_id in _metadata[self._key].clusters


class FakeLog(PartitionedLog):
    """A cluster as an enumerator asks it."""

    def __init__(self, settings: ClientSettings) -> None:
        self._cluster = _clusters[settings.servers]

    def topics(self) -> dict[str, int]:
        self._check()
        return {name: len(partitions) for name, partitions in self._cluster.topics.items()}

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        return {topic: self._cluster.ids[topic] for topic in topics}

    def earliest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def latest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        self._check()
        return {each: len(self._cluster.topics[each.topic][each.partition]) for each in partitions}

    def at_timestamp(self, partitions: Sequence[TopicPartition], millis: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, millis)

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._cluster.committed

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._cluster.committed |= offsets

    def _check(self) -> None:
        self._cluster.answers.wait()
        if self._cluster.is_away:
            raise InfrastructureError("no broker answers")


class FakeReader(SourceReader):
    """Reads pieces; what partitions it was told to let go of, it gives as a record."""

    def read(self, piece: Any) -> Iterator[SourceRecords]:
        cluster, properties, partition, start, end = piece
        if start < 0:
            yield SourceRecords(rows=[f"{cluster}/{partition} is over"])
            return
        asked = TopicPartition.parse(partition)
        yield SourceRecords(
            rows=_clusters[properties["bootstrap.servers"]].topics[asked.topic][asked.partition][start:end]
        )


class FakeSource(DynamicKafkaSource[str]):
    """A source whose clusters are these."""

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return DynamicKafkaEnumerator(self._plan, FakeLog, context.state)

    def create_reader(self) -> SourceReader:
        return FakeReader()


def builder(service: KafkaMetadataService) -> DynamicKafkaSourceBuilder[str]:
    """The beginning of a source that looks each second where the stream ``s`` lies."""
    made: DynamicKafkaSourceBuilder[str] = DynamicKafkaSource.builder()
    made.set_stream_ids({"s"}).set_kafka_metadata_service(service)
    made.set_property("stream-metadata-discovery-interval-ms", "1000")
    return made.set_value_only_deserializer(SimpleStringSchema())


def faked(made: DynamicKafkaSourceBuilder[str]) -> FakeSource:
    """The source that a builder makes, of these clusters."""
    source = made.build()
    return FakeSource(source._plan, source._schema, source.dead_letter)
