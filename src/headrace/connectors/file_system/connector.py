"""Files as a connector that is found by its name, with the options of Flink's ``filesystem`` connector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.common.config_options import ConfigOption, memory_size, positive_duration
from headrace.common.errors import ConfigurationError
from headrace.connectors.connector import FORMAT, Connector
from headrace.connectors.file_system.buckets import BucketAssigner
from headrace.connectors.file_system.rolling import DEFAULT_INTERVAL, DEFAULT_PART_SIZE, RollingPolicy
from headrace.connectors.file_system.sink import FileSink
from headrace.connectors.file_system.source import FileSourceBuilder
from headrace.formats.file_format import BulkWriterFactory

if TYPE_CHECKING:
    from headrace.common.configuration import Configuration
    from headrace.connectors.connector import ConnectorContext
    from headrace.connectors.sink import Sink
    from headrace.connectors.source import Source

PATH: Final = ConfigOption("path", str, "", "The folder, or for a source a file or a pattern as well.")
MONITOR_INTERVAL: Final = ConfigOption[int | None](
    "source.monitor-interval",
    positive_duration,
    None,
    "How often to look for new files; without it those are read that are there when the job first starts.",
)
ROLLING_SIZE: Final = ConfigOption(
    "sink.rolling-policy.file-size", memory_size, DEFAULT_PART_SIZE, "From which size on a file is complete."
)
ROLLOVER_INTERVAL: Final = ConfigOption(
    "sink.rolling-policy.rollover-interval", positive_duration, DEFAULT_INTERVAL, "How long a file stays hidden."
)
INACTIVITY_INTERVAL: Final = ConfigOption(
    "sink.rolling-policy.inactivity-interval", positive_duration, DEFAULT_INTERVAL, "How long a file waits for more."
)
_ROLLING: Final = (ROLLING_SIZE, ROLLOVER_INTERVAL, INACTIVITY_INTERVAL)


class FileSystemConnector(Connector):
    """Reads the files of a path; writes part files into a folder, in no folders below it."""

    required_options = (PATH, FORMAT)
    optional_options = (MONITOR_INTERVAL, *_ROLLING)

    def create_source(self, context: ConnectorContext) -> Source:
        self._refuse("source", context.options, _ROLLING)
        builder = FileSourceBuilder(context.decoding_format(), context.options.get(PATH))
        interval = context.options.get(MONITOR_INTERVAL)
        return (builder if interval is None else builder.monitor_continuously(interval)).build()

    def create_sink(self, context: ConnectorContext) -> Sink:
        options = context.options
        self._refuse("sink", options, (MONITOR_INTERVAL,))
        path, encoding = options.get(PATH), context.encoding_format()
        if isinstance(encoding, BulkWriterFactory):
            self._refuse("sink of a format that rolls at every checkpoint", options, _ROLLING)
            bulk = FileSink.for_bulk_format(path, encoding)
            return bulk.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
        rows = FileSink.for_row_format(path, encoding)
        policy = RollingPolicy.default_rolling_policy(*(options.get(option) for option in _ROLLING))
        assigner = BucketAssigner.base_path_bucket_assigner()
        return rows.with_bucket_assigner(assigner).with_rolling_policy(policy).build()

    def _refuse(self, where: str, options: Configuration, others: tuple[ConfigOption[Any], ...]) -> None:
        """Refuse options that would have no effect."""
        given = [option.key for option in others if options.contains_key(option.key)]
        if given:
            raise ConfigurationError(f"{self}: {given[0]!r} means nothing for a {where}; leave it out")
