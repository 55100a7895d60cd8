"""``kafka`` and ``upsert-kafka``: tables in topics of Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from headrace.common.config_options import ConfigOption, duration
from headrace.common.errors import ConfigurationError
from headrace.connectors.kafka.sink import KafkaSink
from headrace.connectors.kafka.source import KafkaSource
from headrace.connectors.topic_builders import TopicSinkBuilder, TopicSourceBuilder
from headrace.table.connectors.topics import TopicTable, TopicTables

_PROPERTIES: Final = "properties."
_SERVERS: Final = f"{_PROPERTIES}bootstrap.servers"

PREFIX: Final = ConfigOption("sink.transactional-id-prefix", str, "", "How transactional ids begin.")
DISCOVERY: Final = ConfigOption(
    "scan.topic-partition-discovery.interval", duration, 300_000, "How often to look for new topics and partitions."
)


class KafkaTables(TopicTables):
    """Tables in topics of Kafka."""

    own_options: ClassVar = (PREFIX, DISCOVERY)

    def own(self, options: Mapping[str, str]) -> dict[str, str]:
        if _SERVERS not in options:
            raise ConfigurationError(f"{self} needs {_SERVERS!r} among its options: host:port, several with commas")
        return {key: value for key, value in options.items() if not key.startswith(_PROPERTIES)}

    def source_builder(self, table: TopicTable) -> TopicSourceBuilder:
        builder = KafkaSource.builder()
        builder.set_property("partition.discovery.interval.ms", str(table.options.get(DISCOVERY)))
        return builder.set_properties(_client_properties(table))

    def sink_builder(self, table: TopicTable) -> TopicSinkBuilder:
        given = {key: value for key, value in _client_properties(table).items() if key not in _OF_CONSUMERS}
        builder = KafkaSink.builder().set_properties(given)
        prefix = table.options.get(PREFIX)
        return builder.set_transactional_id_prefix(prefix) if prefix else builder


_OF_CONSUMERS: Final = ("group.id", "auto.offset.reset", "isolation.level", "enable.auto.commit")
"""Properties of consumers, which a producer ignores."""


def _client_properties(table: TopicTable) -> dict[str, str]:
    given = table.context.options.items()
    return {key.removeprefix(_PROPERTIES): value for key, value in given if key.startswith(_PROPERTIES)}


class UpsertKafkaTables(KafkaTables):
    """Tables of upserts in topics of Kafka."""

    is_upsert = True
