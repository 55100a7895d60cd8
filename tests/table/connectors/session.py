"""Environments of tables on the local runtime, and what statements give."""

from __future__ import annotations

from typing import Any

from headrace.table import EnvironmentSettings, TableEnvironment


def session(*statements: str, is_streaming: bool = True, **settings: str) -> TableEnvironment:
    """An environment in which some statements were executed."""
    mode = EnvironmentSettings.in_streaming_mode() if is_streaming else EnvironmentSettings.in_batch_mode()
    tables = TableEnvironment.create(mode)
    known = {"headrace.runtime": "local", "parallelism.default": "1", "restart-strategy.type": "none"}
    for key, value in (known | settings).items():
        tables.get_config().set(key, value)
    for statement in statements:
        tables.execute_sql(statement)
    return tables


def rows(tables: TableEnvironment, query: str) -> list[Any]:
    """The values of the rows of a query."""
    with tables.execute_sql(query).collect() as found:
        return [tuple(row) for row in found]


def run(tables: TableEnvironment, insert: str) -> None:
    """Execute an ``INSERT`` to its end."""
    tables.execute_sql(insert).wait()
