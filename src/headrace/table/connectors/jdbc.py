"""``jdbc``: tables of PostgreSQL that are read, written by upserts where they have a key, and looked up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from headrace.common.config_options import ConfigOption, choice
from headrace.common.configuration import Configuration
from headrace.common.typeinfo import RowTypeInfo
from headrace.connectors.postgres.scan import FETCH_SIZE, SCAN_OPTIONS, PostgresScan, ScannedTable, ScanParts
from headrace.connectors.postgres.server import quoted
from headrace.connectors.postgres.sink import (
    DRIVER,
    OTHERS,
    PASSWORD,
    TABLE,
    TIMEOUT,
    URL,
    USERNAME,
    PostgresSink,
    server_of_url,
)
from headrace.connectors.ranges import READ_RECORDS
from headrace.connectors.sink import Sink
from headrace.connectors.source import Source
from headrace.operators.lookup.readers import DatabaseReader
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.connectors.factory import TableConnector, TableContext, naming_table
from headrace.table.connectors.lookups import (
    CONNECTIONS,
    KEYS_PER_QUERY,
    LOOKUP_OPTIONS,
    LookupTable,
    RowsOfDatabase,
    database_lookup,
)
from headrace.table.connectors.table_lookup import TableLookup
from headrace.table.connectors.table_sink import PARALLELISM, TableSink
from headrace.table.connectors.table_source import TableSource

FILTER_POLICY: Final = ConfigOption(
    "filter.handling.policy", choice("always", "never"), "always", "Whether the database checks conditions of queries."
)


class JdbcTables(TableConnector):
    """Tables of PostgreSQL."""

    required_options = (URL, TABLE)
    optional_options = (USERNAME, PASSWORD, DRIVER, TIMEOUT, PARALLELISM, FILTER_POLICY, *SCAN_OPTIONS, *LOOKUP_OPTIONS)
    other_options = MappingProxyType({**OTHERS, "scan.auto-commit": "a part of a table is one query"})

    def create_source(self, context: TableContext) -> TableSource:
        options = self.options_of(context)
        with naming_table(context):
            server_of_url(options)
            ScanParts.of(options)
        return JdbcTableSource(context, options)

    def create_sink(self, context: TableContext) -> TableSink:
        table = JdbcTableSink(context, self.options_of(context))
        table.create_sink(())
        return table


class JdbcTableSource(LookupTable):
    """A table whose rows are read, or looked up."""

    can_project = True
    can_limit = True

    @property
    def can_filter(self) -> bool:
        return self.options.get(FILTER_POLICY) == "always"

    def create_source(self, metadata: Sequence[str]) -> Source[Any]:
        context, options, kind = self.context, self.options, self.context.record_type
        assert isinstance(kind, RowTypeInfo)
        with naming_table(context):
            schema, _, name = options.get(TABLE).rpartition(".")
            columns = dict(zip(kind.field_names, (each.logical_type for each in kind.types), strict=True))
            table = ScannedTable(
                schema or "public",
                name,
                columns,
                ScanParts.of(options),
                context.limit,
                options.get(FETCH_SIZE) or READ_RECORDS,
                context.filters,
            )
            return PostgresScan(server_of_url(options), table, kind)

    @property
    def summary(self) -> str:
        return f"jdbc({self.options.get(TABLE)})"

    def create_lookup(self, keys: Sequence[str]) -> TableLookup:
        with naming_table(self.context):
            options, kind = self.options, self.context.record_type
            assert isinstance(kind, RowTypeInfo)
            table = quoted(*options.get(TABLE).split("."))
            connect = partial(server_of_url(options).connect, f"lookup in {table}")
            reader = _PostgresReader(
                connect,
                table,
                tuple(keys),
                kind.field_names,
                connections=options.get(CONNECTIONS),
                keys_per_request=options.get(KEYS_PER_QUERY),
            )
            whole = RowsOfDatabase(connect, table, kind, tuple(map(quoted, kind.field_names)))
            return database_lookup(options, keys, reader, whole)


class _PostgresReader(DatabaseReader):
    """Queries a table, whose columns may have any names."""

    def named(self, column: str) -> str:
        return quoted(column)


@dataclass(frozen=True)
class JdbcTableSink(TableSink):
    """Writes rows into a table."""

    context: TableContext
    options: Configuration = field(compare=False)

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return ChangelogMode.UPSERT if self.context.primary_key else ChangelogMode.INSERT

    @property
    def parallelism(self) -> int | None:
        return self.options.get(PARALLELISM)

    @property
    def summary(self) -> str:
        return f"jdbc({self.options.get(TABLE)})"

    def create_sink(self, metadata: Sequence[str]) -> Sink[Any]:
        others = {option.key for option in (PARALLELISM, FILTER_POLICY, *SCAN_OPTIONS, *LOOKUP_OPTIONS)}
        own = {key: value for key, value in self.context.options.items() if key not in others}
        with naming_table(self.context):
            return PostgresSink(own, primary_key=self.context.primary_key)
