"""``Table``: a query that is not executed yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.table.bind import result_schema
from headrace.table.environment.explain import explained
from headrace.table.logical.relations import Relation
from headrace.table.logical.schema import Schema
from headrace.table.parse.tree.statements import ExplainDetail

if TYPE_CHECKING:
    from headrace.table.environment.descriptors import TableDescriptor
    from headrace.table.environment.table_environment import TableEnvironment
    from headrace.table.environment.table_result import TableResult


class Table:
    """A query that is not executed yet.

    Examples:
        >>> from headrace.table import TableEnvironment
        >>> tables = TableEnvironment.create()
        >>> print(tables.sql_query("SELECT 1 AS n").get_resolved_schema())
        n INT NOT NULL
    """

    def __init__(self, environment: TableEnvironment, relation: Relation) -> None:
        self._environment = environment
        self.relation = relation

    def get_resolved_schema(self) -> Schema:
        """The columns of its rows."""
        return result_schema(self.relation)

    def execute(self) -> TableResult:
        """Execute the query."""
        return self._environment.run_query(self.relation)

    def execute_insert(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> TableResult:
        """Write the rows into a table.

        Args:
            table_path_or_descriptor: its path or definition.
            overwrite: whether they replace existing rows.

        Raises:
            SqlValidationError: when there is no such table.
            PlanningError: when the rows do not fit the table.
        """
        relations = self._environment.insert_of(self, table_path_or_descriptor, overwrite=overwrite)
        return self._environment.run_inserts(relations)

    def explain(self, *extra_details: ExplainDetail) -> str:
        """The plan of the query."""
        return explained(self._environment, [self.relation], extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print the plan of the query."""
        print(self.explain(*extra_details))  # noqa: T201 - what it is for

    def print_schema(self) -> None:
        """Print the columns of its rows."""
        print("(\n  {}\n)".format(",\n  ".join(f"`{each.name}` {each.type_text}" for each in self.relation.schema)))  # noqa: T201

    def to_arrow(self) -> pa.Table:
        """Execute the query, and return its rows as an Arrow table."""
        return self.execute().to_arrow()

    def to_spark(self) -> Any:
        """Execute the query, and return its rows as a Spark DataFrame."""
        return self.execute().to_spark()

    def to_pandas(self) -> Any:
        """Execute the query, and return its rows as a ``pandas.DataFrame``."""
        return self.execute().to_pandas()
