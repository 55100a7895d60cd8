"""Metadata services that come along: one cluster, and a file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common.arguments import expect, refused
from headrace.common.errors import ConfigurationError, InvalidTypeError
from headrace.common.time import Duration
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.connectors.kafka.clients.client import ClientSettings, check_library
from headrace.connectors.kafka.dynamic.metadata import ClusterMetadata, KafkaMetadataService, KafkaStream
from headrace.connectors.kafka.dynamic.streams_file import listed_streams
from headrace.connectors.kafka.partitioned_log import KafkaPartitionedLog

if TYPE_CHECKING:
    from collections.abc import Collection


@hides_engine_of_methods
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
            told = "SingleClusterTopicMetadataService needs settings with 'bootstrap.servers'"
            raise refused(f"{told}: {{'bootstrap.servers': 'host:9092'}}, say", ConfigurationError)
        self._cluster_id = kafka_cluster_id
        self._properties = dict(properties)

    def get_all_streams(self) -> Collection[KafkaStream]:
        check_library()
        cluster = KafkaPartitionedLog(ClientSettings(self._properties))
        try:
            topics = cluster.topics()
        finally:
            cluster.close()
        return [KafkaStream(each, {self._cluster_id: ClusterMetadata({each}, self._properties)}) for each in topics]

    def is_cluster_active(self, kafka_cluster_id: str) -> bool:
        return kafka_cluster_id == self._cluster_id


@hides_engine_of_methods
class YamlFileMetadataService(KafkaMetadataService):
    """Streams that are listed in a file, which is read again when it is asked for and has got too old.

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
        """What the file says.

        Raises:
            ConfigurationError: when that is not what it should be.
            OSError: when it cannot be read.
        """
        document = self._loaded(self._path.read_text(encoding="utf-8"))
        try:
            return listed_streams(document)
        except ConfigurationError as error:
            raise ConfigurationError(f"{self._path}: {error}") from None

    def _loaded(self, text: str) -> Any:
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
