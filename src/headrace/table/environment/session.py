"""The session of a table environment, as what works on its tables needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from headrace.table.catalog.objects import CatalogTable, ObjectPath

if TYPE_CHECKING:
    from headrace.common.configuration import Configuration
    from headrace.graph.stream_graph import StreamGraph
    from headrace.table.bind.context import BindContext
    from headrace.table.catalog.manager import CatalogManager
    from headrace.table.environment.settings import TableConfig
    from headrace.table.environment.table_result import TableResult
    from headrace.table.logical.relations import Relation
    from headrace.table.parse.source import SqlSource
    from headrace.table.physical.planner import Planner


class RefreshTimes(Protocol):
    """The schedule of full refreshes of a materialized table."""

    @property
    def due(self) -> datetime:
        """The time of the next refresh."""
        ...


class TableSession(Protocol):
    """Catalogs and settings, and the jobs of statements under them."""

    @property
    def catalogs(self) -> CatalogManager:
        """The catalogs."""
        ...

    def new_graph(self) -> StreamGraph:
        """The graph of a new job."""
        ...

    def with_settings(self, settings: Mapping[str, str | None]) -> TableSession:
        """A session of the same catalogs with some settings changed, or removed where the value is None."""
        ...

    def get_config(self) -> TableConfig:
        """The settings."""
        ...

    def session_settings(self) -> dict[str, Any]:
        """All settings by key."""
        ...

    def job_configuration(self) -> Configuration:
        """The settings of jobs."""
        ...

    def path_of(self, text: str) -> ObjectPath:
        """The full path of an object that is named as in SQL."""
        ...

    def bind_context(self, source: SqlSource) -> BindContext:
        """The context in which a statement is bound."""
        ...

    def planner(self) -> Planner:
        """The planner with the settings."""
        ...

    def run_inserts(self, relations: Sequence[Relation]) -> TableResult:
        """Start one job of ``INSERT`` statements."""
        ...

    def execute_sql(self, stmt: str) -> TableResult:
        """Execute a statement."""
        ...

    def unnamed_table(self, definition: CatalogTable) -> AbstractContextManager[ObjectPath]:
        """A temporary table with a generated name, which statements inside can use."""
        ...

    def scheduled_refresh(self, path: ObjectPath) -> RefreshTimes | None:
        """The schedule of full refreshes of a materialized table; None where it has none here."""
        ...

    def last_refresh(self, path: ObjectPath) -> tuple[datetime | None, str | None]:
        """The time of the last refresh of a materialized table as a whole, and why it has failed."""
        ...
