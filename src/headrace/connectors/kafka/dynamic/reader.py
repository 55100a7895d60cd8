"""The tasks' half of a source of several clusters: a reader for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.connectors.kafka.dynamic.pieces import ClusterPiece, cluster_settings
from headrace.connectors.kafka.reader import KafkaReader
from headrace.connectors.source import ReaderContext, SourceReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.connectors.incoming_messages import MessageDeserializationSchema
    from headrace.connectors.kafka.clients.client import ClientSettings
    from headrace.connectors.source import Json, SourceRecords


class DynamicKafkaReader(SourceReader):
    """Reads ranges of offsets of partitions of clusters, which each piece says how to reach.

    Args:
        properties: settings of all clients.
        schema: what records are made of.
        reject: whether there is an output for dead letters.
    """

    def __init__(self, properties: Mapping[str, str], schema: MessageDeserializationSchema, *, reject: bool) -> None:
        self._properties = properties
        self._schema = schema
        self._reject = reject
        self._readers: dict[str, tuple[ClientSettings, KafkaReader]] = {}
        self._context = ReaderContext()

    def open(self, context: ReaderContext) -> None:
        self._context = context

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        asked = ClusterPiece(*piece)
        reader = self._reader(asked)
        if asked.is_last:
            reader.let_go(asked.partition)
        else:
            yield from reader.read([asked.partition, asked.start, asked.end])

    def close(self) -> None:
        for _, reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _reader(self, asked: ClusterPiece) -> KafkaReader:
        """The reader of a cluster; another one where the cluster is reached in another way now."""
        settings = cluster_settings(self._properties, asked.cluster, asked.properties)
        known = self._readers.get(asked.cluster)
        if known is not None and known[0] == settings:
            return known[1]
        if known is not None:
            known[1].close()
        reader = KafkaReader(settings, self._schema, reject=self._reject, place=f"{asked.cluster}/")
        reader.open(self._context)
        self._readers[asked.cluster] = settings, reader
        return reader
