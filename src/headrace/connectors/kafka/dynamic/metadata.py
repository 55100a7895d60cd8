"""Where streams lie: which topics of which clusters, and who tells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from headrace.common.arguments import expect, refused
from headrace.common.errors import InvalidTypeError
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.connectors.partitions.offsets import OffsetsInitializer


@hides_engine_of_methods
@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """What there is of a stream in one cluster, and how the cluster is reached.

    Attributes:
        topics: the names of the topics.
        properties: settings of clients, ``bootstrap.servers`` among them; they go before those of the source. Not
            shown.
        starting_offsets_initializer: where reading starts in this cluster, instead of what the source says.
        stopping_offsets_initializer: where it stops in this cluster, instead of what the source says.

    Raises:
        InvalidTypeError: when an attribute is of another kind.

    Examples:
        >>> from headrace.datastream.connectors.dynamic_kafka import ClusterMetadata
        >>> ClusterMetadata({"payments"}, {"bootstrap.servers": "east:9092"}).topics
        frozenset({'payments'})
    """

    topics: Collection[str]
    properties: Mapping[str, str] = field(repr=False, hash=False)
    starting_offsets_initializer: OffsetsInitializer | None = field(default=None, hash=False)
    stopping_offsets_initializer: OffsetsInitializer | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if isinstance(self.topics, str) or not isinstance(self.topics, Iterable):
            raise refused(f"ClusterMetadata takes a set of topics, not {self.topics!r}", InvalidTypeError)
        if not isinstance(self.properties, Mapping):
            told = f"ClusterMetadata takes settings, {{'bootstrap.servers': 'host:9092'}} say, not {self.properties!r}"
            raise refused(told, InvalidTypeError)
        for initializer in (self.starting_offsets_initializer, self.stopping_offsets_initializer):
            if initializer is not None:
                expect(initializer, OffsetsInitializer, "ClusterMetadata")
        object.__setattr__(self, "topics", frozenset(self.topics))
        object.__setattr__(self, "properties", {name: str(value) for name, value in self.properties.items()})


@hides_engine_of_methods
@dataclass(frozen=True, slots=True)
class KafkaStream:
    """A stream, and where it lies.

    Attributes:
        stream_id: its name.
        cluster_metadata_map: by the id of each cluster, what there is of it.

    Raises:
        InvalidTypeError: when an attribute is of another kind.

    Examples:
        >>> from headrace.datastream.connectors.dynamic_kafka import ClusterMetadata, KafkaStream
        >>> east = ClusterMetadata({"payments-v1"}, {"bootstrap.servers": "east:9092"})
        >>> west = ClusterMetadata({"payments-v2"}, {"bootstrap.servers": "west:9092"})
        >>> sorted(KafkaStream("payments", {"east": east, "west": west}).cluster_metadata_map)
        ['east', 'west']
    """

    stream_id: str
    cluster_metadata_map: Mapping[str, ClusterMetadata] = field(hash=False)

    def __post_init__(self) -> None:
        expect(self.stream_id, str, "KafkaStream")
        expect(self.cluster_metadata_map, Mapping, "KafkaStream")
        for cluster_id, metadata in self.cluster_metadata_map.items():
            expect(metadata, ClusterMetadata, f"cluster {cluster_id!r} of stream {self.stream_id!r}")


class KafkaMetadataService(ABC):
    """Tells where streams lie.

    It is asked in the driver, by threads beside the job, one after the other. It has to be picklable, as it is part of
    the job: clients are made when they are needed. When a job first starts, an ``OSError`` is a passing fault, and what
    else it raises fails the job; later everything counts as a failure of the service.

    Examples:
        >>> from headrace.datastream.connectors.dynamic_kafka import *
        >>> class Moving(KafkaMetadataService):
        ...     def _cluster(self):
        ...         return "west"  # what a registry says
        ...
        ...     def get_all_streams(self):
        ...         where = ClusterMetadata({"payments"}, {"bootstrap.servers": f"{self._cluster()}:9092"})
        ...         return {KafkaStream("payments", {self._cluster(): where})}
        ...
        ...     def is_cluster_active(self, kafka_cluster_id):
        ...         return kafka_cluster_id == self._cluster()
        >>> list(Moving().describe_streams(["payments"]))
        ['payments']
    """

    @abstractmethod
    def get_all_streams(self) -> Collection[KafkaStream]:
        """All streams that there are."""

    def describe_streams(self, stream_ids: Collection[str]) -> Mapping[str, KafkaStream]:
        """Some streams by their ids; those that there are not are left out.

        They are looked for among all, unless this is overridden.
        """
        every = checked_streams(self.get_all_streams(), self)
        return {each.stream_id: each for each in every if each.stream_id in stream_ids}

    def is_cluster_active(self, kafka_cluster_id: str) -> bool:
        """Whether a cluster is still to be read; asked when it does not answer, or lacks a topic.

        It is, unless this is overridden. One that is not does not fail the job.
        """
        return True

    def close(self) -> None:
        """Let go of connections. A job that starts again after a failure asks again."""


def checked_streams(given: Collection[KafkaStream], by: object) -> Collection[KafkaStream]:
    """The streams that a service or a subscriber of the program has given.

    Raises:
        InvalidTypeError: when it has given something else.
    """
    name = type(by).__name__
    if isinstance(given, str | Mapping) or not isinstance(given, Collection):
        raise InvalidTypeError(f"{name} has to give a collection of KafkaStream, and gave {given!r}")
    for each in given:
        if not isinstance(each, KafkaStream):
            raise InvalidTypeError(f"{name} has to give a collection of KafkaStream, in which there was {each!r}")
    return given
