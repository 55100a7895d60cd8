"""``function`` and ``database``: tables whose rows can only be looked up by a key."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.config_options import ConfigOption, integer
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, UnsupportedOperationError
from headrace.common.plugins import imported
from headrace.common.typeinfo import RowTypeInfo, TypeInformation
from headrace.common.types import Row
from headrace.connectors.source import Source
from headrace.operators.lookup.readers import Found, LookupFunctionReader, LookupReader, TableReader
from headrace.table.connectors.factory import TableConnector, TableContext, naming_table
from headrace.table.connectors.table_lookup import (
    ASYNC,
    CACHE,
    FULL_OPTIONS,
    MAX_RETRIES,
    PARTIAL_OPTIONS,
    TableLookup,
    cache_of,
    reload_trigger,
)
from headrace.table.connectors.table_source import TableSource

FUNCTION: Final = ConfigOption("function", str, "", "The function, as 'module.name'.")
CONNECT: Final = ConfigOption("connect", str, "", "A function that makes a connection, as 'module.name'.")
TABLE: Final = ConfigOption("table-name", str, "", "The name of the table in the database.")
CONNECTIONS: Final = ConfigOption(
    "lookup.connections", integer(1, 1_000), 1, "How many queries of each subtask run at a time."
)
KEYS_PER_QUERY: Final = ConfigOption("lookup.keys-per-query", integer(1, 100_000), 500, "How many keys are in a query.")


LOOKUP_OPTIONS: Final = (CONNECTIONS, KEYS_PER_QUERY, MAX_RETRIES, CACHE, *PARTIAL_OPTIONS, *FULL_OPTIONS)
"""The options of lookups in databases."""


@dataclass(frozen=True)
class LookupTable(TableSource):
    """A table that is looked up, and not scanned unless its connector can."""

    context: TableContext
    options: Configuration = field(compare=False)
    is_bounded = True
    can_look_up = True

    def create_source(self, metadata: Sequence[str]) -> Source[Any]:
        raise UnsupportedOperationError(
            f"table {self.context.name} cannot be scanned, only looked up: JOIN {self.context.path[-1]} "
            f"FOR SYSTEM_TIME AS OF left.proctime ON left.key = right.key"
        )


class FunctionTables(TableConnector):
    """Rows that a Python function returns for a key: the primary key of the table."""

    required_options = (FUNCTION,)
    optional_options = (ASYNC, MAX_RETRIES, CACHE, *PARTIAL_OPTIONS)

    def create_source(self, context: TableContext) -> TableSource:
        with naming_table(context):
            options = self.options_of(context)
            if not context.primary_key:
                raise ConfigurationError(
                    "a function is called with the primary key: add PRIMARY KEY (...) NOT ENFORCED to the table"
                )
            if options.get(CACHE) == "FULL":
                raise ConfigurationError("a function cannot give all rows: use 'lookup.cache' = 'PARTIAL', or 'NONE'")
            return FunctionLookupTable(context, options)


class FunctionLookupTable(LookupTable):
    """The rows of a function."""

    @property
    def summary(self) -> str:
        return f"function({self.options.get(FUNCTION)})"

    def create_lookup(self, keys: Sequence[str]) -> TableLookup:
        from headrace.datastream.lookup import Lookup

        own, options = self.context.primary_key, self.options
        with naming_table(self.context):
            if missing := [name for name in own if name not in keys]:
                raise ConfigurationError(
                    f"the function is called with the primary key ({', '.join(own)}): compare {missing[0]} with a "
                    "column or a constant, too"
                )
            function = imported(options.get(FUNCTION))
            Lookup.function(function, self.context.record_type)
            reader = RowsOfFunction(function, self.context.record_type)
            is_async = options.get(ASYNC)
            if is_async is None:
                is_async = inspect.iscoroutinefunction(reader.called)
            return TableLookup(reader, own, cache_of(options), is_async=is_async, max_retries=options.get(MAX_RETRIES))


class RowsOfFunction(LookupFunctionReader):
    """Calls a function that returns a row, or a list of rows: a ``Row``, a tuple of all columns, or a dict.

    Args:
        function: the function of a key; of several columns it is a tuple.
        row_type: the type of the rows.
    """

    def __init__(self, function: Any, row_type: TypeInformation) -> None:
        super().__init__(function, 0)
        self._row_type = row_type

    async def read(self, keys: list[Any]) -> Mapping[Any, Found]:
        returned = await self._call(keys[0])
        rows = returned if isinstance(returned, list) else [] if returned is None else [returned]
        return {keys[0]: list(map(self._row, rows))}

    def _row(self, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        assert isinstance(self._row_type, RowTypeInfo)
        row = Row(*(given.get(name) for name in self._row_type.field_names))
        row.set_field_names(list(self._row_type.field_names))
        return row


class DatabaseTables(TableConnector):
    """A table of a database, by any driver that follows the DB-API."""

    required_options = (CONNECT, TABLE)
    optional_options = LOOKUP_OPTIONS

    def create_source(self, context: TableContext) -> TableSource:
        return DatabaseTable(context, self.options_of(context))


class DatabaseTable(LookupTable):
    """A table that lookup joins query by Python's DB-API."""

    @property
    def summary(self) -> str:
        return f"database({self.options.get(TABLE)})"

    def create_lookup(self, keys: Sequence[str]) -> TableLookup:
        from headrace.datastream.lookup import Lookup

        options, kind = self.options, self.context.record_type
        assert isinstance(kind, RowTypeInfo)
        with naming_table(self.context):
            connect, table = imported(options.get(CONNECT)), options.get(TABLE)
            found = Lookup.table(
                connect,
                table,
                tuple(keys),
                dict(zip(kind.field_names, kind.field_types, strict=True)),
                connections=options.get(CONNECTIONS),
                keys_per_request=options.get(KEYS_PER_QUERY),
            )
            whole = RowsOfDatabase(connect, table, kind, kind.field_names)
            return database_lookup(options, keys, found.reader, whole)


def database_lookup(
    options: Configuration, keys: Sequence[str], reader: LookupReader, whole: RowsOfDatabase
) -> TableLookup:
    """Lookups in a table of a database.

    Args:
        options: the options of the table here.
        keys: the columns of the key.
        reader: queries the table by keys.
        whole: reads all of it.

    Raises:
        ConfigurationError: when an option is wrong.
    """
    cache = cache_of(options)
    if options.get(CACHE) == "FULL":
        return TableLookup(whole, tuple(keys), reload=reload_trigger(options))
    is_async = options.get(CONNECTIONS) > 1
    return TableLookup(reader, tuple(keys), cache, is_async=is_async, max_retries=options.get(MAX_RETRIES))


@dataclass(frozen=True)
class RowsOfDatabase(TableReader):
    """All rows of a table of a database.

    Attributes:
        connect: makes a connection.
        table: its name.
        row_type: the type of the rows.
        columns: the names of their columns in the database.
    """

    connect: Any
    table: str
    row_type: RowTypeInfo
    columns: tuple[str, ...]

    def read(self, now: int) -> pa.RecordBatch:
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(f"SELECT {', '.join(self.columns)} FROM {self.table}")
            return layout_of(self.row_type).rows_to_columns([Row(*values) for values in cursor.fetchall()])
