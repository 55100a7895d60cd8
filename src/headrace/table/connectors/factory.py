"""Factories of table sources and sinks, by the name in ``'connector'``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Final

from headrace.common.configuration import Configuration
from headrace.common.errors import (
    ConfigurationError,
    InvalidProgramError,
    InvalidTypeError,
    UnsupportedOperationError,
)
from headrace.common.logical_types import RowType
from headrace.common.plugins import Plugin, PluginGroup
from headrace.common.typeinfo import TypeInformation
from headrace.common.typeinfo.types import type_of_logical
from headrace.connectors.conditions import Condition
from headrace.table.connectors.table_sink import TableSink
from headrace.table.connectors.table_source import Partition, TableSource


@dataclass(frozen=True, slots=True)
class TableContext:
    """The table for which a source or a sink is created.

    Attributes:
        path: catalog, database and name.
        columns: its physical columns.
        primary_key: the columns of its key.
        partition_keys: the columns that partition it.
        options: the options of ``WITH``, without ``connector``.
        settings: the configuration of the session.
        is_batch: whether the statement runs in batch mode.
        takes_statistics: whether the plan depends on what is known of the rows.
        partitions: the partitions to read; None for all.
        filters: conditions on columns; rows that do not meet them may be left out.
        limit: how many rows are enough; None for all.
        declared: all physical columns of the table where only some are read; else None.
    """

    path: tuple[str, str, str]
    columns: RowType
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    settings: Configuration = field(default_factory=Configuration, compare=False)
    is_batch: bool = False
    takes_statistics: bool = False
    partitions: tuple[Partition, ...] | None = None
    filters: tuple[Condition, ...] = field(default=(), compare=False)
    limit: int | None = None
    declared: RowType | None = None

    def __hash__(self) -> int:
        return hash(self.path)

    @property
    def name(self) -> str:
        """The full name, for messages."""
        return ".".join(self.path)

    @property
    def record_type(self) -> TypeInformation:
        """The type of records of the physical columns."""
        return self.type_of(self.columns.names)

    def type_of(self, names: Sequence[str], *, without: str = "") -> TypeInformation:
        """The type of records of some physical columns of the table, any of which may be null.

        Args:
            names: of the columns.
            without: a prefix that is removed from the names in the records.
        """
        columns = self.declared or self.columns
        kinds = dict(zip(columns.names, columns.types, strict=True))
        shown = tuple(name.removeprefix(without) for name in names)
        return type_of_logical(RowType(shown, tuple(kinds[name].as_nullable() for name in names)))


ALL_TASKS: Final = "tables are read by as many tasks as a job has, 'parallelism.default'"
"""The advice on ``scan.parallelism``."""


class TableConnector(Plugin):
    """A table connector. By default it refuses to create a source or a sink."""

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

    def options_of(self, context: TableContext, given: Mapping[str, str] | None = None) -> Configuration:
        """The options of a table, all of which the connector has to know.

        Args:
            context: the table.
            given: the connector's own options; all options by default.

        Raises:
            ConfigurationError: when one is unknown or missing, or its value cannot be read.
        """
        with naming_table(context):
            return self.read_options(context.options if given is None else given)


@contextmanager
def naming_table(context: TableContext) -> Iterator[None]:
    """Add the name of the table to errors about options."""
    try:
        yield
    except (ConfigurationError, InvalidProgramError, InvalidTypeError, UnsupportedOperationError) as error:
        place = f"table {context.name}: "
        if str(error).startswith(place):
            raise
        raise type(error)(f"{place}{error}") from None


_HERE: Final = "headrace.table.connectors"

TABLE_CONNECTORS: Final = PluginGroup(
    _HERE,
    TableConnector,
    {
        "filesystem": f"{_HERE}.files:FileSystemTables",
        "print": f"{_HERE}.plain:PrintTables",
        "blackhole": f"{_HERE}.plain:BlackholeTables",
        "datagen": f"{_HERE}.datagen:GeneratedTables",
        "log": f"{_HERE}.log:LogTables",
        "upsert-log": f"{_HERE}.log:UpsertLogTables",
        "kafka": f"{_HERE}.kafka:KafkaTables",
        "upsert-kafka": f"{_HERE}.kafka:UpsertKafkaTables",
        "spark": f"{_HERE}.spark:SparkTables",
        "function": f"{_HERE}.lookups:FunctionTables",
        "database": f"{_HERE}.lookups:DatabaseTables",
        "jdbc": f"{_HERE}.jdbc:JdbcTables",
        "postgres-cdc": f"{_HERE}.postgres_cdc:PostgresCdcTables",
    },
    dict.fromkeys(("file", "files", "filesystems"), "it is 'filesystem'"),
)
"""All connectors of tables."""
