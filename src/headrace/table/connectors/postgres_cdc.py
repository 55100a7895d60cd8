"""``postgres-cdc``: tables of PostgreSQL with their changes, by logical replication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.common.logical_types import LogicalType
from headrace.connectors.postgres.decoding import METADATA
from headrace.connectors.postgres.enumerator import StartupMode
from headrace.connectors.postgres.source import (
    BOUNDED,
    CHANGELOG,
    OPTIONAL,
    OTHERS,
    REQUIRED,
    STARTUP,
    TABLE,
    PostgresSource,
)
from headrace.connectors.source import Source
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.connectors.factory import ALL_TASKS, TableConnector, TableContext, naming_table
from headrace.table.connectors.table_source import StartPosition, TableSource


class PostgresCdcTables(TableConnector):
    """Tables of PostgreSQL, of which every change is read."""

    required_options = REQUIRED
    optional_options = OPTIONAL
    other_options = MappingProxyType({**OTHERS, "scan.parallelism": ALL_TASKS})

    def create_source(self, context: TableContext) -> TableSource:
        options = self.options_of(context)
        with naming_table(context):
            if options.get(CHANGELOG) == "upsert" and not context.primary_key:
                raise ConfigurationError("'changelog-mode' = 'upsert' needs a PRIMARY KEY ... NOT ENFORCED")
            table = PostgresCdcTable(context, options)
            table.create_source(())
        return table


@dataclass(frozen=True)
class PostgresCdcTable(TableSource):
    """The rows of a table, and their changes."""

    context: TableContext
    options: Configuration = field(compare=False)

    @property
    def changelog_mode(self) -> ChangelogMode:
        return ChangelogMode.ALL if self.options.get(CHANGELOG) == "all" else ChangelogMode.UPSERT

    @property
    def is_bounded(self) -> bool:
        is_snapshot = self.options.get(STARTUP) == StartupMode.SNAPSHOT.value
        return is_snapshot or self.options.get(BOUNDED) != "unbounded"

    def starting_at(self, start: StartPosition) -> TableSource | None:
        if not start.is_now:
            return None
        mode = StartupMode.LATEST_OFFSET.value
        context = replace(self.context, options={**self.context.options, STARTUP.key: mode})
        return replace(self, context=context, options=Configuration(self.options).set(STARTUP, mode))

    @property
    def readable_metadata(self) -> Mapping[str, LogicalType]:
        return METADATA

    @property
    def summary(self) -> str:
        return f"postgres-cdc({self.options.get(TABLE)})"

    def create_source(self, metadata: Sequence[str]) -> Source[Any]:
        context = self.context
        with naming_table(context):
            return PostgresSource(
                context.options, context.record_type, primary_key=context.primary_key, metadata=metadata
            )
