"""Metadata services: they tell which topics of which clusters make up a stream."""

import json
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from headrace.common.errors import ConfigurationError, InvalidTypeError, expect, refused
from headrace.common.other_names import alike
from headrace.common.time import Duration
from headrace.connectors.kafka.clients import ClientSettings
from headrace.connectors.kafka.settings import check_library
from headrace.connectors.partitions import OffsetsInitializer


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The topics of a stream in one cluster, and how the cluster is reached.

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
            text = f"ClusterMetadata takes settings, {{'bootstrap.servers': 'host:9092'}} say, not {self.properties!r}"
            raise refused(text, InvalidTypeError)
        for initializer in (self.starting_offsets_initializer, self.stopping_offsets_initializer):
            if initializer is not None:
                expect(initializer, OffsetsInitializer, "ClusterMetadata")
        object.__setattr__(self, "topics", frozenset(self.topics))
        object.__setattr__(self, "properties", {name: str(value) for name, value in self.properties.items()})


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

    Threads of the driver query it beside the job, one after the other. It has to be picklable, as it is part of
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
        """List all streams."""

    def describe_streams(self, stream_ids: Collection[str]) -> Mapping[str, KafkaStream]:
        """Give streams by their ids; unknown ids are left out.

        They are looked for among all, unless this is overridden.
        """
        every = checked_streams(self.get_all_streams(), self)
        return {each.stream_id: each for each in every if each.stream_id in stream_ids}

    def is_cluster_active(self, kafka_cluster_id: str) -> bool:
        """Return whether a cluster is still to be read; called when it does not answer, or lacks a topic.

        It is, unless this is overridden. One that is not does not fail the job.
        """
        return True

    def close(self) -> None:
        """Close connections. A job that restarts after a failure queries the service again."""


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


_OF_A_STREAM: Final = ("streamId", "clusterMetadataList")
_OF_A_CLUSTER: Final = ("bootstrapServers", "topics", "clusterId", "properties")
_NEEDED: Final = (*_OF_A_STREAM, "bootstrapServers", "topics")


def listed_streams(document: object) -> list[KafkaStream]:
    """The streams that a document lists.

    Raises:
        ConfigurationError: saying which of them is not what it should be, and how it should be.
    """
    if not isinstance(document, list):
        text = "is empty" if document is None else f"is {document!r:.100}"
        raise ConfigurationError(
            f"it should be a list of streams, each with {' and '.join(map(repr, _OF_A_STREAM))}, and {text}"
        )
    streams = [_stream(each, f"stream {number}") for number, each in enumerate(document, 1)]
    _check_single([stream.stream_id for stream in streams], "stream")
    return streams


def _stream(listed: object, place: str) -> KafkaStream:
    found = _keys(listed, place, _OF_A_STREAM)
    place = f"stream {found['streamId']!r}"
    clusters = _list(found["clusterMetadataList"], f"'clusterMetadataList' of {place}")
    by_id = [_cluster(each, f"cluster {number} of {place}") for number, each in enumerate(clusters, 1)]
    _check_single([cluster_id for cluster_id, _ in by_id], f"{place}: cluster")
    return KafkaStream(str(found["streamId"]), dict(by_id))


def _cluster(listed: object, place: str) -> tuple[str, ClusterMetadata]:
    """An element of ``clusterMetadataList``, with its id."""
    found = _keys(listed, place, _OF_A_CLUSTER)
    servers = found["bootstrapServers"]
    if not isinstance(servers, str):
        raise ConfigurationError(f"'bootstrapServers' of {place} are text, as 'host:9092,host:9092', not {servers!r}")
    topics = set(map(str, _list(found["topics"], f"'topics' of {place}")))
    properties = found.get("properties") or {}
    if not isinstance(properties, Mapping):
        raise ConfigurationError(f"'properties' of {place} are settings with their values, not {properties!r}")
    settings = {str(name): _text(value) for name, value in properties.items()}
    return str(found.get("clusterId") or servers), ClusterMetadata(topics, {**settings, "bootstrap.servers": servers})


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigurationError(f"{what} should be a list, not {value!r}")
    return value


def _keys(listed: object, place: str, known: Collection[str]) -> Mapping[str, Any]:
    """Check that all keys of an element are known, and none is missing."""
    if not isinstance(listed, Mapping):
        raise ConfigurationError(f"{place} should have {', '.join(map(repr, known))}, and is {listed!r}")
    for key in listed:
        if key not in known:
            raise ConfigurationError(f"{place} has {key!r}, which is unknown{alike(str(key), known)}")
    for key in known:
        if key in _NEEDED and key not in listed:
            raise ConfigurationError(f"{place} has no {key!r}")
    return listed


def _check_single(names: Collection[str], what: str) -> None:
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"{what} {twice!r} is there twice")


class SingleClusterTopicMetadataService(KafkaMetadataService):
    """The topics of one cluster, each a stream of its name.

    Args:
        kafka_cluster_id: what the cluster is called in checkpoints and messages.
        properties: settings of clients, ``bootstrap.servers`` among them.

    Raises:
        ConfigurationError: without ``bootstrap.servers``.

    Examples:
        >>> from headrace.datastream.connectors.dynamic_kafka import SingleClusterTopicMetadataService
        >>> service = SingleClusterTopicMetadataService("east", {"bootstrap.servers": "east:9092"})
        >>> service.is_cluster_active("west")
        False
    """

    def __init__(self, kafka_cluster_id: str, properties: Mapping[str, str]) -> None:
        expect(kafka_cluster_id, str, "SingleClusterTopicMetadataService")
        given: object = properties
        if not isinstance(given, Mapping) or "bootstrap.servers" not in given:
            text = "SingleClusterTopicMetadataService needs settings with 'bootstrap.servers'"
            raise refused(f"{text}: {{'bootstrap.servers': 'host:9092'}}, say", ConfigurationError)
        self._cluster_id = kafka_cluster_id
        self._properties = dict(properties)

    def get_all_streams(self) -> Collection[KafkaStream]:
        check_library()
        from headrace.connectors.kafka.partitioned_log import KafkaPartitionedLog

        cluster = KafkaPartitionedLog(ClientSettings(self._properties))
        try:
            topics = cluster.topics()
        finally:
            cluster.close()
        return [KafkaStream(each, {self._cluster_id: ClusterMetadata({each}, self._properties)}) for each in topics]

    def is_cluster_active(self, kafka_cluster_id: str) -> bool:
        return kafka_cluster_id == self._cluster_id


class YamlFileMetadataService(KafkaMetadataService):
    """Streams that are listed in a file, which is read again on a request when it is too old.

    The file is YAML, or JSON if its name ends in ``.json``: a list of streams, as that of Flink's service has::

        - streamId: payments
          clusterMetadataList:
            - clusterId: east
              bootstrapServers: east-1:9092,east-2:9092
              topics: [payments-v1]
            - clusterId: west
              bootstrapServers: west-1:9092
              topics: [payments-v2]
              properties: {security.protocol: SSL}

    Without a ``clusterId`` a cluster is called by its servers. ``properties`` are further settings of its clients.

    Args:
        metadata_file_path: where the file is, for the driver.
        metadata_ttl: how old what was read may be; it is read each time unless said.

    Raises:
        ConfigurationError: when the file is YAML, and there is nothing to read that with.
        InvalidTypeError: when an argument is of another kind.

    Examples:
        >>> from headrace.datastream.connectors.dynamic_kafka import YamlFileMetadataService
        >>> east = {"clusterId": "east", "bootstrapServers": "east:9092", "topics": ["payments"]}
        >>> import json, pathlib
        >>> _ = pathlib.Path("streams.json").write_text(
        ...     json.dumps([{"streamId": "payments", "clusterMetadataList": [east]}])
        ... )
        >>> service = YamlFileMetadataService("streams.json")
        >>> list(service.describe_streams({"payments"})), service.is_cluster_active("east")
        (['payments'], True)
    """

    def __init__(self, metadata_file_path: str | os.PathLike[str], metadata_ttl: Duration | None = None) -> None:
        if not isinstance(metadata_file_path, str | os.PathLike):
            raise refused(f"YamlFileMetadataService takes a path, not {metadata_file_path!r}", InvalidTypeError)
        self._path = Path(metadata_file_path)
        if self._path.suffix != ".json" and find_spec("yaml") is None:
            raise refused(
                f"{self._path}: reading YAML needs a library that is not installed: pip install PyYAML, or write the "
                "file as JSON, with a name that ends in .json",
                ConfigurationError,
            )
        if metadata_ttl is not None:
            expect(metadata_ttl, Duration, "YamlFileMetadataService")
        self._seconds = 0.0 if metadata_ttl is None else metadata_ttl.to_millis() / 1000
        self._read_at: float | None = None
        self._streams: list[KafkaStream] = []

    def get_all_streams(self) -> Collection[KafkaStream]:
        now = time.monotonic()
        if self._read_at is None or now - self._read_at >= self._seconds:
            self._streams = self._parsed()
            self._read_at = now
        return self._streams

    def is_cluster_active(self, kafka_cluster_id: str) -> bool:
        return any(kafka_cluster_id in stream.cluster_metadata_map for stream in self.get_all_streams())

    def _parsed(self) -> list[KafkaStream]:
        """Parse the file.

        Raises:
            ConfigurationError: when that is not what it should be.
            OSError: when it cannot be read.
        """
        document = self._loaded(self._path.read_text(encoding="utf-8"))
        try:
            return listed_streams(document)
        except ConfigurationError as error:
            raise ConfigurationError(f"{self._path}: {error}") from None

    def _loaded(self, text: str) -> object:
        if self._path.suffix == ".json":
            try:
                return json.loads(text)
            except ValueError as error:
                raise ConfigurationError(f"{self._path} is no JSON: {error}") from None
        import yaml

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigurationError(f"{self._path} is no YAML: {error}") from None


class KafkaStreamSubscriber(ABC):
    """Says which streams are read, of those that a metadata service knows.

    Examples:
        >>> from headrace.datastream.connectors.dynamic_kafka import KafkaStreamSubscriber
        >>> class NotOfTests(KafkaStreamSubscriber):
        ...     def get_subscribed_streams(self, kafka_metadata_service):
        ...         streams = kafka_metadata_service.get_all_streams()
        ...         return [each for each in streams if not each.stream_id.startswith("test-")]
    """

    @abstractmethod
    def get_subscribed_streams(self, kafka_metadata_service: KafkaMetadataService) -> Collection[KafkaStream]:
        """The streams, and where they lie now."""


class KafkaStreamSetSubscriber(KafkaStreamSubscriber):
    """Subscribes to some streams.

    Args:
        stream_ids: their names.

    Raises:
        InvalidProgramError: when there are none.

    Examples:
        >>> from headrace.datastream.connectors.dynamic_kafka import KafkaStreamSetSubscriber
        >>> print(KafkaStreamSetSubscriber({"payments"}))
        payments
    """

    def __init__(self, stream_ids: set[str]) -> None:
        given: object = stream_ids
        if isinstance(given, str) or not isinstance(given, Iterable) or not all(isinstance(x, str) for x in stream_ids):
            raise refused(f"stream ids are a set of names, not {stream_ids!r}")
        if not stream_ids:
            raise refused("no stream is to be read: the set of stream ids is empty")
        self._stream_ids = tuple(sorted(stream_ids))

    def get_subscribed_streams(self, kafka_metadata_service: KafkaMetadataService) -> Collection[KafkaStream]:
        found = kafka_metadata_service.describe_streams(self._stream_ids)
        for stream_id in self._stream_ids:
            if stream_id not in found:
                known = [each.stream_id for each in _all_streams(kafka_metadata_service)]
                raise ConfigurationError(f"the metadata service has no stream {stream_id!r}{alike(stream_id, known)}")
        return [found[stream_id] for stream_id in self._stream_ids]

    def __str__(self) -> str:
        return ", ".join(self._stream_ids)


class StreamPatternSubscriber(KafkaStreamSubscriber):
    """Subscribes to all streams in whose names a regular expression is found, now or later.

    Args:
        stream_pattern: the expression.

    Raises:
        InvalidProgramError: when it is none.
        InvalidTypeError: when it is no text.

    Examples:
        >>> from headrace.datastream.connectors.dynamic_kafka import StreamPatternSubscriber
        >>> print(StreamPatternSubscriber("^payments-"))
        streams like ^payments-
    """

    def __init__(self, stream_pattern: str) -> None:
        expect(stream_pattern, str, "StreamPatternSubscriber")
        try:
            self._pattern = re.compile(stream_pattern)
        except re.error as error:
            raise refused(f"{stream_pattern!r} is no regular expression: {error}") from None

    def get_subscribed_streams(self, kafka_metadata_service: KafkaMetadataService) -> Collection[KafkaStream]:
        return [each for each in _all_streams(kafka_metadata_service) if self._pattern.search(each.stream_id)]

    def __str__(self) -> str:
        return f"streams like {self._pattern.pattern}"


def _all_streams(service: KafkaMetadataService) -> Collection[KafkaStream]:
    return checked_streams(service.get_all_streams(), service)
