"""``StatementSet``: several ``INSERT`` statements as one job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.errors import InvalidProgramError
from headrace.table.environment.compiled_plan import CompiledPlan, compiled_plan
from headrace.table.environment.explain import explained
from headrace.table.environment.statements import bound_statements
from headrace.table.logical.relations import Relation
from headrace.table.parse import parse_statement
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree.statements import ExplainDetail, Insert

if TYPE_CHECKING:
    from headrace.table.environment.descriptors import TableDescriptor
    from headrace.table.environment.table import Table
    from headrace.table.environment.table_environment import TableEnvironment
    from headrace.table.environment.table_result import TableResult


class StatementSet:
    """Several ``INSERT`` statements as one job, in which sources and subplans are shared.

    Examples:
        >>> from headrace.table import TableEnvironment
        >>> tables = TableEnvironment.create()
        >>> _ = tables.get_config().set("headrace.runtime", "local")
        >>> for name in ("even", "odd"):
        ...     _ = tables.execute_sql(f"CREATE TABLE {name} (n INT) WITH ('connector' = 'blackhole')")
        >>> _ = tables.execute_sql("CREATE TEMPORARY VIEW numbers AS SELECT * FROM (VALUES (1), (2)) AS v(n)")
        >>> statements = tables.create_statement_set()
        >>> _ = statements.add_insert_sql("INSERT INTO even SELECT n FROM numbers WHERE MOD(n, 2) = 0")
        >>> _ = statements.add_insert_sql("INSERT INTO odd SELECT n FROM numbers WHERE MOD(n, 2) = 1")
        >>> statements.execute().wait()
    """

    def __init__(self, environment: TableEnvironment) -> None:
        self._environment = environment
        self._relations: list[Relation] = []

    def add_insert_sql(self, stmt: str) -> StatementSet:
        """Add an ``INSERT``.

        Raises:
            SqlParseError: when it has a syntax error.
            SqlValidationError: when it refers to an unknown object, or its types do not fit.
            InvalidProgramError: when it is a statement of another kind.
        """
        statement = parse_statement(stmt)
        if not isinstance(statement, Insert):
            raise InvalidProgramError(f"a StatementSet takes INSERT, and not {type(statement).__name__}")
        self._relations += bound_statements(self._environment, statement, SqlSource(stmt))
        return self

    def add_insert(
        self, target_path_or_descriptor: str | TableDescriptor, table: Table, overwrite: bool = False
    ) -> StatementSet:
        """Add an ``INSERT`` of the rows of a table into another one.

        Args:
            target_path_or_descriptor: the path or definition of the other one.
            table: the rows.
            overwrite: whether they replace existing rows.
        """
        self._relations += self._environment.insert_of(table, target_path_or_descriptor, overwrite=overwrite)
        return self

    def explain(self, *extra_details: ExplainDetail) -> str:
        """The plan of all statements."""
        return explained(self._environment, self._relations, extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print the plan of all statements."""
        print(self.explain(*extra_details))  # noqa: T201 - what it is for

    def compile_plan(self) -> CompiledPlan:
        """Compile the statements to one plan; the set is empty again.

        Raises:
            InvalidProgramError: when there are no statements.
            PlanningError: when they cannot be planned, or read or write what exists in this program alone.
        """
        return compiled_plan(self._environment, self._taken())

    def execute(self) -> TableResult:
        """Start the job; the set is empty again.

        Raises:
            InvalidProgramError: when there are no statements.
            PlanningError: when they cannot be planned.
        """
        return self._environment.run_inserts(self._taken())

    def _taken(self) -> list[Relation]:
        if not self._relations:
            raise InvalidProgramError("a StatementSet without statements has nothing to do: add_insert_sql(...)")
        relations, self._relations = self._relations, []
        return relations
