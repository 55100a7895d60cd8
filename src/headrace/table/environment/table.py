"""``Table``: a query that is not run yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.table.bind import result_schema
from headrace.table.logical.relations import Relation
from headrace.table.logical.schema import Schema

if TYPE_CHECKING:
    from headrace.table.environment.table_environment import TableEnvironment
    from headrace.table.environment.table_result import TableResult


class Table:
    """A query that is not run yet.

    Examples:
        >>> from headrace.table import TableEnvironment
        >>> tables = TableEnvironment.create()
        >>> print(tables.sql_query("SELECT 1 AS one").get_resolved_schema())
        one INT NOT NULL
    """

    def __init__(self, environment: TableEnvironment, relation: Relation) -> None:
        self._environment = environment
        self._relation = relation

    def get_resolved_schema(self) -> Schema:
        """The columns of its rows."""
        return result_schema(self._relation)

    def execute(self) -> TableResult:
        """Run the query."""
        return self._environment.run_query(self._relation)

    def to_arrow(self) -> pa.Table:
        """Run the query, and give its rows as a table of Arrow."""
        return self.execute().to_arrow()

    def to_pandas(self) -> Any:
        """Run the query, and give its rows as a ``pandas.DataFrame``."""
        return self.execute().to_pandas()
