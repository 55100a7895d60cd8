"""``jdbc``: tables of PostgreSQL that are written, by upserts where they have a key, and looked up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.common.configuration import Configuration
from headrace.connectors.postgres.sink import DRIVER, OTHERS, PASSWORD, TABLE, TIMEOUT, URL, USERNAME, PostgresSink
from headrace.connectors.sink import Sink
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.connectors.factory import TableConnector, TableContext, told_of
from headrace.table.connectors.table_sink import PARALLELISM, TableSink


class JdbcTables(TableConnector):
    """Tables of PostgreSQL."""

    required_options = (URL, TABLE)
    optional_options = (USERNAME, PASSWORD, DRIVER, TIMEOUT, PARALLELISM)
    other_options = OTHERS

    def create_sink(self, context: TableContext) -> TableSink:
        table = JdbcTableSink(context, self.options_of(context))
        table.create_sink(())
        return table


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
        own = {key: value for key, value in self.context.options.items() if key != PARALLELISM.key}
        with told_of(self.context):
            return PostgresSink(own, primary_key=self.context.primary_key)
