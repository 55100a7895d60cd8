"""Factories of sources and sinks of tables, by the name that ``'connector'`` gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, InvalidProgramError
from headrace.common.logical_types import RowType
from headrace.common.plugins import Plugin, PluginGroup
from headrace.table.connectors.table_sink import TableSink
from headrace.table.connectors.table_source import TableSource


@dataclass(frozen=True, slots=True)
class TableContext:
    """The table that a source or a sink is made for.

    Attributes:
        path: catalog, database and name.
        columns: its physical columns.
        primary_key: the columns of its key.
        partition_keys: the columns that it is partitioned by.
        options: what ``WITH`` says, without ``connector``.
        settings: the configuration of the session.
    """

    path: tuple[str, str, str]
    columns: RowType
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    settings: Configuration = field(default_factory=Configuration)

    @property
    def name(self) -> str:
        """The whole name, as messages have it."""
        return ".".join(self.path)


class TableConnector(Plugin):
    """A connector of tables. What it has no source or sink for is refused by name."""

    noun: ClassVar[str] = "table connector"

    def create_source(self, context: TableContext) -> TableSource:
        """The source of a table.

        Raises:
            InvalidProgramError: when the connector has none.
            ConfigurationError: when options of the table are wrong.
        """
        raise InvalidProgramError(f"table {context.name}: {self} cannot be read, it only takes rows")

    def create_sink(self, context: TableContext) -> TableSink:
        """The sink of a table.

        Raises:
            InvalidProgramError: when the connector has none.
            ConfigurationError: when options of the table are wrong.
        """
        raise InvalidProgramError(f"table {context.name}: {self} cannot be written, it only gives rows")

    def options_of(self, context: TableContext) -> Configuration:
        """The options of a table, of which the connector has to know every one.

        Raises:
            ConfigurationError: when one is unknown or missing, or its value cannot be read.
        """
        try:
            return self.read_options(context.options)
        except ConfigurationError as error:
            raise ConfigurationError(f"table {context.name}: {error}") from None


TABLE_CONNECTORS: Final = PluginGroup("headrace.table.connectors", TableConnector, {})
