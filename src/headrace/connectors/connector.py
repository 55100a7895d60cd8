"""Connectors by name: sources and sinks that are chosen by a text and options instead of a class of the program.

A distribution adds one as an entry point of the group ``headrace.connectors``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.common.config_options import ConfigOption
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, UnsupportedOperationError
from headrace.common.plugins import Plugin, PluginGroup
from headrace.common.serialization import Encoder
from headrace.common.typeinfo import TypeInformation, Types
from headrace.connectors.sink import Sink
from headrace.connectors.source import Source
from headrace.formats.file_format import FORMATS, BulkWriterFactory, FileFormat, Format

FORMAT: Final = ConfigOption[str | None](
    "format", str, None, "The name of the format; its options begin with this name and a dot."
)
"""The option of connectors whose records may have several formats."""


@dataclass(frozen=True, slots=True)
class ConnectorContext:
    """The options and the type from which a connector creates a source or a sink.

    Attributes:
        options: those of the connector, checked; those of its format are in it too, behind its name.
        record_type: the type of the records that the program has declared, if it has.
    """

    options: Configuration
    record_type: TypeInformation | None = None

    def decoding_format(self) -> FileFormat:
        """The reading half of the format that the option ``format`` names.

        Raises:
            ConfigurationError: when there is no such format, or its options are wrong.
            InvalidTypeError: when the type does not fit, or has to be declared.
            UnsupportedOperationError: when the format can only be written.
        """
        plugin, options = self._format()
        return plugin.create_decoding_format(self.record_type, options)

    def encoding_format(self) -> Encoder | BulkWriterFactory:
        """The writing half of the format that the option ``format`` names.

        Raises:
            ConfigurationError: when there is no such format, or its options are wrong.
            UnsupportedOperationError: when the format can only be read.
        """
        plugin, options = self._format()
        return plugin.create_encoding_format(options)

    def _format(self) -> tuple[Format, Configuration]:
        """The format that is named, and its options."""
        name = self.options.get(FORMAT)
        if name is None:
            raise ConfigurationError("the option 'format' has to name the format of the records")
        start = f"{name}."
        given = self.options.to_dict()
        plugin = FORMATS.load(name)
        options = {key.removeprefix(start): value for key, value in given.items() if key.startswith(start)}
        return plugin, plugin.read_options(options)


class Connector(Plugin):
    """Makes the sources and sinks of one kind of system."""

    noun = "connector"

    def create_source(self, context: ConnectorContext) -> Source:
        """A source.

        Raises:
            ConfigurationError: when options contradict each other.
            UnsupportedOperationError: unless overridden.
        """
        raise UnsupportedOperationError(f"{self} has a sink, but no source")

    def create_sink(self, context: ConnectorContext) -> Sink:
        """A sink.

        Raises:
            ConfigurationError: when options contradict each other.
            UnsupportedOperationError: unless overridden.
        """
        raise UnsupportedOperationError(f"{self} has a source, but no sink")


CONNECTORS: Final = PluginGroup(
    "headrace.connectors",
    Connector,
    {
        "filesystem": "headrace.connectors.file_system.sink:FileSystemConnector",
        "print": "headrace.connectors.driver_sink:Print",
        "postgres-cdc": "headrace.connectors.postgres.source:PostgresCdc",
        "jdbc": "headrace.connectors.postgres.sink:Jdbc",
    },
)
"""All connectors that are there."""


def create_source(
    connector: str, options: Mapping[str, object], record_type: TypeInformation | type | None = None
) -> Source:
    r"""A source of the connector of a name.

    Args:
        connector: the name.
        options: those of the connector; see its documentation.
        record_type: the type of the records, where the connector does not know it.

    Raises:
        ConfigurationError: when there is no such connector, or the options are wrong; the message says which there are.
        InvalidTypeError: when the type does not fit, or has to be declared.
        UnsupportedOperationError: when the connector has no source.

    Examples:
        >>> from pathlib import Path
        >>> from headrace.common import Types, WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import create_source
        >>> _ = Path("orders.csv").write_text("1,tea\n2,cake\n")
        >>> order = Types.ROW_NAMED(["id", "name"], [int, str])
        >>> source = create_source("filesystem", {"path": "orders.csv", "format": "csv"}, order)
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_source(source, WatermarkStrategy.no_watermarks(), "orders").execute_and_collect(limit=10)
        [Row(id=1, name='tea'), Row(id=2, name='cake')]
    """
    plugin, checked = _loaded(connector, options)
    return plugin.create_source(ConnectorContext(checked, None if record_type is None else Types.of(record_type)))


def create_sink(connector: str, options: Mapping[str, object] | None = None) -> Sink:
    """A sink of the connector of a name.

    Args:
        connector: the name.
        options: those of the connector; see its documentation.

    Raises:
        ConfigurationError: when there is no such connector, or the options are wrong; the message says which there are.
        UnsupportedOperationError: when the connector has no sink.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import create_sink
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> _ = env.from_collection(["tea"]).sink_to(create_sink("print", {"print-identifier": "orders"}))
        >>> _ = env.execute("orders")
        orders> tea
    """
    plugin, checked = _loaded(connector, options or {})
    return plugin.create_sink(ConnectorContext(checked))


def _loaded(connector: str, options: Mapping[str, Any]) -> tuple[Connector, Configuration]:
    """The connector of a name, and its options; those of its format are left for that one to check."""
    plugin = CONNECTORS.load(connector)
    return plugin, plugin.read_options(options, nested=options.get(FORMAT.key))
