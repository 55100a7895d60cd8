"""The methods of environments for functions and models."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from headrace.common.errors import expect
from headrace.table.ddl.objects import create_function
from headrace.table.environment.descriptors import ModelDescriptor
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


class CatalogObjectMethods:
    """The methods of environments for functions and models, by the statements that they stand for."""

    catalogs: CatalogManager

    @abstractmethod
    def execute_sql(self, stmt: str) -> TableResult:
        """Execute a statement."""

    @abstractmethod
    def path_of(self, text: str) -> ObjectPath:
        """The full path of an object that a program names as in SQL."""

    @abstractmethod
    def bind_context(self, source: SqlSource) -> BindContext:
        """The context that resolves the names in a text."""

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
        return self._list("FUNCTIONS")

    def list_user_defined_functions(self) -> list[str]:
        """The names of user-defined functions."""
        return self._list("USER FUNCTIONS")

    def _list(self, what: str) -> list[str]:
        with self.execute_sql(f"SHOW {what}").collect() as rows:
            return [row[0] for row in rows]

    def _put_function(self, what: str, name: str, given: Any) -> None:
        function = as_user_function(given, name)
        statement = f"CREATE {what} AS '{type(function.function).__name__}' LANGUAGE PYTHON"
        create = parse_statement(statement)
        assert isinstance(create, CreateFunction)
        create_function(self.bind_context(SqlSource(statement)), create, function)

    def create_model(self, path: str, descriptor: ModelDescriptor, ignore_if_exists: bool = False) -> None:
        """Create a model in the catalog.

        Args:
            path: its path, as in SQL.
            descriptor: its definition.
            ignore_if_exists: whether nothing happens if the model exists already.

        Raises:
            SqlValidationError: when the definition is not valid, or the model exists already.
        """
        self._create_model(f"MODEL{' IF NOT EXISTS' if ignore_if_exists else ''}", path, descriptor)

    def create_temporary_model(self, path: str, descriptor: ModelDescriptor, ignore_if_exists: bool = False) -> None:
        """Create a model that exists until the session ends; arguments as those of :meth:`create_model`.

        Raises:
            SqlValidationError: when the definition is not valid, or the model exists already.
        """
        self._create_model(f"TEMPORARY MODEL{' IF NOT EXISTS' if ignore_if_exists else ''}", path, descriptor)

    def drop_model(self, path: str, ignore_if_not_exists: bool = True) -> bool:
        """Drop a model; False when there was none, which is an error unless it is to be ignored."""
        there = self.path_of(path) in self.catalogs.models
        self.execute_sql(f"DROP MODEL {'IF EXISTS ' if ignore_if_not_exists else ''}{path}")
        return there

    def drop_temporary_model(self, path: str) -> bool:
        """Drop a temporary model; False when there was none."""
        return self.catalogs.temporary_models.pop(self.path_of(path), None) is not None

    def list_models(self) -> list[str]:
        """The names of the models of the current database, temporary ones included."""
        here = self.catalogs.qualify(("",))[:2]
        known = {*self.catalogs.models, *self.catalogs.temporary_models}
        return sorted(path.name for path in known if path[:2] == here)

    def list_temporary_models(self) -> list[str]:
        """The names of the temporary models of the current database."""
        here = self.catalogs.qualify(("",))[:2]
        return sorted(path.name for path in self.catalogs.temporary_models if path[:2] == here)

    def _create_model(self, kind: str, path: str, descriptor: ModelDescriptor) -> None:
        expect(descriptor, ModelDescriptor, "create_model")
        self.execute_sql(f"CREATE {kind} {path}\n{descriptor}")
