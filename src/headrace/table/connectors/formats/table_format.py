"""``TableFormat``: formats of the rows of a table in files or messages, with Flink's option keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final

from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, UnsupportedOperationError
from headrace.common.logical_types import LogicalType
from headrace.common.plugins import Plugin, PluginGroup
from headrace.common.serialization import DeserializationSchema, Encoder, SerializationSchema
from headrace.common.typeinfo import TypeInformation
from headrace.formats.file_format import BulkWriterFactory, FileFormat
from headrace.table.connectors.changelog_mode import ChangelogMode

_NO_METADATA: Final[Mapping[str, str]] = MappingProxyType({})


class TableFormat(Plugin):
    """A table format. By default it refuses to read and write files and messages.

    Class attributes:
        changelog_mode: the row kinds that it reads and writes.
    """

    noun: ClassVar[str] = "format"
    changelog_mode: ChangelogMode = ChangelogMode.INSERT

    @property
    def can_project(self) -> bool:
        """Return whether columns of its files can be left out, so that reading takes less."""
        return False

    def file_reader(self, record_type: TypeInformation, options: Configuration) -> FileFormat:
        """The reader of files.

        Raises:
            UnsupportedOperationError: unless overridden.
        """
        raise UnsupportedOperationError(f"{self} is one of messages, and not of files")

    def projecting_reader(
        self, record_type: TypeInformation, in_files: TypeInformation, options: Configuration
    ) -> FileFormat:
        """The reader of some columns of files.

        Args:
            record_type: the type of these columns.
            in_files: the type of all columns of the table that are in its files, which a format needs that does not
                find them by their names.
            options: the options of the format.

        Raises:
            UnsupportedOperationError: when it is a format of messages.
        """
        return self.file_reader(record_type, options)

    def file_writer(self, record_type: TypeInformation, options: Configuration) -> Encoder | BulkWriterFactory:
        """The writer of files.

        Raises:
            UnsupportedOperationError: unless overridden.
        """
        raise UnsupportedOperationError(f"{self} is one of messages, and not of files")

    @property
    def readable_metadata(self) -> Mapping[str, LogicalType]:
        """The metadata of its messages besides the columns, with the types."""
        return {}

    def message_reader(
        self, record_type: TypeInformation, options: Configuration, metadata: Mapping[str, str] = _NO_METADATA
    ) -> DeserializationSchema:
        """The deserialization schema of messages.

        Args:
            record_type: the type of the columns.
            options: the options of the format.
            metadata: by field, the metadata that it holds; these fields follow the columns.

        Raises:
            UnsupportedOperationError: unless overridden.
        """
        raise UnsupportedOperationError(f"{self} is one of files, and not of messages")

    def message_writer(self, record_type: TypeInformation, options: Configuration) -> SerializationSchema:
        """The serialization schema of messages.

        Raises:
            UnsupportedOperationError: unless overridden.
        """
        raise UnsupportedOperationError(f"{self} is one of files, and not of messages")

    def ignores_errors(self, options: Configuration) -> bool:
        """Return whether bad records are skipped."""
        return False


_BUILT_IN: Final = "headrace.table.connectors.formats.built_in:BuiltInTableFormat"
_NAMES: Final = (
    *("csv", "json", "avro", "parquet", "orc", "raw"),
    *("debezium-json", "canal-json", "maxwell-json", "ogg-json"),
)

TABLE_FORMATS: Final = PluginGroup(
    "headrace.table.formats",
    TableFormat,
    dict.fromkeys(_NAMES, _BUILT_IN),
    {"text": "it is 'raw' for tables", "debezium-avro-confluent": "write 'debezium-json'"},
)
"""All formats of tables."""


@dataclass(frozen=True, slots=True)
class BoundFormat:
    """A format with its options in a table."""

    plugin: TableFormat
    options: Configuration

    @property
    def changelog_mode(self) -> ChangelogMode:
        """The row kinds that it reads and writes."""
        return self.plugin.changelog_mode

    @property
    def ignores_errors(self) -> bool:
        """Return whether bad records are skipped."""
        return self.plugin.ignores_errors(self.options)

    def file_reader(self, record_type: TypeInformation, in_files: TypeInformation) -> FileFormat:
        """The reader of files: of all their columns, or of those of one of the types."""
        if record_type == in_files:
            return self.plugin.file_reader(record_type, self.options)
        return self.plugin.projecting_reader(record_type, in_files, self.options)

    def file_writer(self, record_type: TypeInformation) -> Encoder | BulkWriterFactory:
        """The writer of files."""
        return self.plugin.file_writer(record_type, self.options)

    def message_reader(
        self, record_type: TypeInformation, metadata: Mapping[str, str] = _NO_METADATA
    ) -> DeserializationSchema:
        """The deserialization schema of messages."""
        if not metadata:
            return self.plugin.message_reader(record_type, self.options)
        return self.plugin.message_reader(record_type, self.options, metadata)

    def message_writer(self, record_type: TypeInformation) -> SerializationSchema:
        """The serialization schema of messages."""
        return self.plugin.message_writer(record_type, self.options)


def formats_in(options: Mapping[str, str], keys: Iterable[str]) -> tuple[dict[str, BoundFormat], dict[str, str]]:
    """The formats that options name, and the options that do not belong to a format.

    Options of a format ``f`` start with ``f.``, and with ``key.f.`` if ``key.format`` names it.

    Args:
        options: of a table.
        keys: the options that name formats.

    Raises:
        ConfigurationError: when there is no such format, or it does not know an option.
    """
    found: dict[str, BoundFormat] = {}
    rest = dict(options)
    for key in keys:
        name = options.get(key)
        if name is None:
            continue
        start = f"{key.removesuffix('format')}{name}."
        own = {option.removeprefix(start): value for option, value in options.items() if option.startswith(start)}
        plugin = TABLE_FORMATS.load(name)
        try:
            found[key] = BoundFormat(plugin, plugin.read_options(own))
        except ConfigurationError as error:
            raise ConfigurationError(f"{error} (options of it begin with {start!r})") from None
        rest = {option: value for option, value in rest.items() if not option.startswith(start)}
    return found, rest
