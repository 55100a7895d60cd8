"""``log`` and ``upsert-log``: tables in topics of the embedded log, which needs no broker."""

from __future__ import annotations

from typing import ClassVar, Final

from headrace.common.config_options import ConfigOption, duration, integer
from headrace.common.errors import ConfigurationError
from headrace.common.time import Duration
from headrace.connectors.log.sink import LogSink
from headrace.connectors.log.source import LogSource
from headrace.connectors.topic_builders import TopicSinkBuilder, TopicSourceBuilder
from headrace.log.log import Log
from headrace.table.connectors.topics import TopicTable, TopicTables

PATH: Final = ConfigOption("path", str, "", "The folder of the log.")
GROUP: Final = ConfigOption("group.id", str, "", "The consumer group to which offsets are committed.")
PARTITIONS: Final = ConfigOption[int | None](
    "auto-create.partitions",
    integer(1, 10_000),
    None,
    "The log and the topic are made, with so many partitions, where they are not there.",
)
DISCOVERY: Final = ConfigOption(
    "scan.topic-partition-discovery.interval", duration, 300_000, "How often to look for new topics and partitions."
)


class LogTables(TopicTables):
    """Tables in topics of an embedded log."""

    required_options = (PATH,)
    own_options: ClassVar = (GROUP, PARTITIONS, DISCOVERY)

    def source_builder(self, table: TopicTable) -> TopicSourceBuilder:
        self._make(table)
        builder = LogSource.builder().set_log(table.options.get(PATH))
        builder.set_partition_discovery(Duration.of_millis(table.options.get(DISCOVERY)))
        group = table.options.get(GROUP)
        return builder.set_group_id(group) if group else builder

    def sink_builder(self, table: TopicTable) -> TopicSinkBuilder:
        self._make(table)
        return LogSink.builder().set_log(table.options.get(PATH))

    def _make(self, table: TopicTable) -> None:
        """Create the log and missing topics, if the table's options say so."""
        if not table.options.get(PATH):
            raise ConfigurationError("the option 'path' is empty: say where the log is")
        count = table.options.get(PARTITIONS)
        if count is None:
            return
        log = Log.open(table.options.get(PATH), create=True)
        known = log.topics()
        for topic in table.topics:
            if topic not in known:
                log.create_topic(topic, partitions=count)


class UpsertLogTables(LogTables):
    """Tables of upserts in topics of an embedded log."""

    is_upsert = True
