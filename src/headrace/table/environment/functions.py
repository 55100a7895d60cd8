"""The methods of environments for functions."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from headrace.table.ddl.objects import create_function
from headrace.table.functions.python.decorators import as_user_function
from headrace.table.parse import parse_statement
from headrace.table.parse.format import quoted
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree.definitions import CreateFunction

if TYPE_CHECKING:
    from headrace.table.bind.context import BindContext
    from headrace.table.catalog.manager import CatalogManager
    from headrace.table.catalog.objects import ObjectPath
    from headrace.table.environment.table_result import TableResult


class FunctionMethods:
    """The methods of environments for functions, by the statements that they stand for."""

    catalogs: CatalogManager

    @abstractmethod
    def execute_sql(self, stmt: str) -> TableResult:
        """Execute a statement."""

    @abstractmethod
    def path_of(self, text: str) -> ObjectPath:
        """The full path of an object that a program names as in SQL."""

    @abstractmethod
    def bind_context(self, source: SqlSource) -> BindContext:
        """What names in a text mean."""

    def create_temporary_system_function(self, name: str, function: Any) -> None:
        """Register a function that is called by its name alone, whatever the current database is.

        Args:
            name: the name, in any case.
            function: the result of ``udf``, ``udtf`` or ``udaf``, or a Python function with annotations.

        Raises:
            InvalidProgramError: when it is not a function, or the name is taken.
        """
        self._put_function(f"TEMPORARY SYSTEM FUNCTION {quoted(name)}", name, function)

    def create_temporary_function(self, path: str, function: Any) -> None:
        """Register a function in a database, until the session ends.

        Args:
            path: its name, with or without those of its database and catalog.
            function: the result of ``udf``, ``udtf`` or ``udaf``, or a Python function with annotations.

        Raises:
            InvalidProgramError: when it is not a function, or the name is taken.
        """
        self._put_function(f"TEMPORARY FUNCTION {path}", path, function)

    def drop_temporary_system_function(self, name: str) -> bool:
        """Drop a temporary system function; False when there was none."""
        return self.catalogs.system_functions.pop(name.lower(), None) is not None

    def drop_temporary_function(self, path: str) -> bool:
        """Drop a temporary function; False when there was none."""
        found = self.path_of(path)
        return self.catalogs.temporary_functions.pop(found._replace(name=found.name.lower()), None) is not None

    def drop_function(self, path: str) -> bool:
        """Drop a function of a catalog; False when there was none."""
        found = self.path_of(path)
        catalog = self.catalogs.catalogs.get(found.catalog)
        there = catalog is not None and catalog.function(found.database, found.name) is not None
        self.execute_sql(f"DROP FUNCTION IF EXISTS {path}")
        return there

    def list_functions(self) -> list[str]:
        """The names of all functions."""
        return self._shown("FUNCTIONS")

    def list_user_defined_functions(self) -> list[str]:
        """The names of user-defined functions."""
        return self._shown("USER FUNCTIONS")

    def _shown(self, what: str) -> list[str]:
        with self.execute_sql(f"SHOW {what}").collect() as rows:
            return [row[0] for row in rows]

    def _put_function(self, what: str, name: str, given: Any) -> None:
        function = as_user_function(given, name)
        statement = f"CREATE {what} AS '{type(function.function).__name__}' LANGUAGE PYTHON"
        create = parse_statement(statement)
        assert isinstance(create, CreateFunction)
        create_function(self.bind_context(SqlSource(statement)), create, function)
