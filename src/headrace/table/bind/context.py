"""The context that all parts of the binder share for a statement."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

from headrace.common.errors import InvalidProgramError, InvalidTypeError, UnsupportedOperationError
from headrace.common.plugins import imported
from headrace.table.bind.errors import SqlPlanError, SqlValidationError, invalid, misspelt
from headrace.table.bind.expansion import Expansions
from headrace.table.bind.scopes import Correlation
from headrace.table.bind.types import TypeBinder
from headrace.table.bind.user_functions import definition_of
from headrace.table.catalog.manager import CatalogManager
from headrace.table.catalog.objects import CatalogFunction, ObjectPath
from headrace.table.functions.definitions import FunctionDefinition
from headrace.table.functions.table import FUNCTIONS
from headrace.table.parse.source import SqlError, SqlSource
from headrace.table.parse.tree.node import Path, SqlNode

ALIASES: Final = {
    "CEILING": "CEIL",
    "CHARACTER_LENGTH": "CHAR_LENGTH",
    "SUBSTR": "SUBSTRING",
    "TRANSLATE3": "TRANSLATE",
    "TUMBLE": "$TUMBLE",
    "HOP": "$HOP",
    "SESSION": "$SESSION",
}
"""Aliases of functions."""


@dataclass
class BindContext:
    """The context of binding a statement: its text, the catalogs, and the session's settings.

    Attributes:
        is_streaming: whether queries run in streaming mode.
        options: the settings of the session.
        expansions: the expansions of names.
        deferred: errors that Flink reports only at planning; a statement with one is valid.
    """

    source: SqlSource
    catalogs: CatalogManager
    is_streaming: bool = True
    options: dict[str, str] = field(default_factory=dict)
    deferred: list[SqlPlanError] = field(default_factory=list)
    expansions: Expansions = field(default_factory=Expansions)
    numbers: Iterator[int] = field(default_factory=count)
    view_depth: int = 0

    @property
    def types(self) -> TypeBinder:
        """The binder of data types."""
        return TypeBinder(self.source)

    def text(self, node: SqlNode) -> str:
        """The text of a node as it was written."""
        return self.source.text[node.start : node.end]

    def error(self, node: SqlNode, reason: str, advice: str | None = None) -> SqlValidationError:
        """The error at a node."""
        return invalid(self.source, node, reason, advice)

    def unplanned(self, node: SqlNode, reason: str, advice: str | None = None) -> SqlPlanError:
        """The error of a valid statement that cannot be planned."""
        return SqlPlanError(reason, self.source, node.start, node.end, advice)

    def missing_table(self, node: SqlNode, path: ObjectPath, word: str = "table or view") -> SqlValidationError:
        """The error of a table that does not exist."""
        known: list[str] = []
        if self.catalogs.has_database(path.catalog, path.database):
            known = self.catalogs.tables(path.catalog, path.database)
        return self.error(node, f"{word} '{path}' does not exist", misspelt(path.name, known))

    def missing_catalog(self, node: SqlNode, name: str) -> SqlValidationError:
        """The error of a catalog that does not exist."""
        return self.error(node, f"catalog '{name}' does not exist", misspelt(name, self.catalogs.catalogs))

    def function(self, node: Path) -> FunctionDefinition | None:
        """The function of a name: a temporary system function, a built-in one, or one of a catalog.

        Raises:
            SqlValidationError: when a user-defined function cannot be imported, or does not say its types.
        """
        names = node.texts
        created = self.catalogs.system_function(names) if len(names) == 1 else self.catalogs.function(names)
        if created is None and len(names) == 1:
            name = names[0].upper()
            if (found := FUNCTIONS.get(ALIASES.get(name, name))) is not None:
                return found
            created = self.catalogs.function(names)
        return None if created is None else self._user_function(created, node)

    def function_names(self) -> list[str]:
        """The names of the functions that can be called without the name of a database, the user's first."""
        return [*self.user_function_names(), *FUNCTIONS.names()]

    def user_function_names(self) -> list[str]:
        """The names of the user's functions in the current database, and of temporary system functions."""
        return sorted(self.catalogs.user_functions(self.catalogs.catalog, self.catalogs.database))

    def advice_about_hidden(self, node: Path) -> str | None:
        """The advice where a built-in function hides one of the catalog, which has its name; None where it does not."""
        names, catalogs = node.texts, self.catalogs
        if len(names) > 1 or catalogs.system_function(names) is not None or catalogs.function(names) is None:
            return None
        name = names[0].upper()
        if FUNCTIONS.get(ALIASES.get(name, name)) is None:
            return None
        whole = ".".join(f"`{part}`" for part in catalogs.qualify(names))
        return f"The built-in {name} hides yours: call {whole}(...), or create a temporary system function."

    def _user_function(self, created: CatalogFunction, node: Path) -> FunctionDefinition:
        if created.language != "PYTHON":
            reason = f"function '{node}' is written in {created.language}: {created.class_name}"
            raise self.error(node, reason, "Write it in Python, and CREATE FUNCTION ... LANGUAGE PYTHON.")
        try:
            return definition_of(self.imported_function(created), self._path_of_function(node.texts))
        except (InvalidProgramError, UnsupportedOperationError, InvalidTypeError, SqlError) as error:
            raise self.error(node, f"function '{node}' cannot be called: {error}") from error

    def _path_of_function(self, names: Sequence[str]) -> tuple[str, ...]:
        is_of_system = self.catalogs.system_function(names) is not None
        return tuple(names) if is_of_system else tuple(self.catalogs.qualify(names))

    @staticmethod
    def imported_function(created: CatalogFunction) -> Any:
        """The function of Python that a program has registered, or a class or a function of a module."""
        return imported(created.class_name) if created.inline is None else created.inline

    def defer(self, node: SqlNode, reason: str, advice: str | None = None) -> None:
        """Add an error that is raised only when the statement is planned."""
        self.deferred.append(self.unplanned(node, reason, advice))

    def place(self, node: SqlNode) -> str:
        """The place of a node in the statement, for messages at run time; empty in text from the catalog."""
        if self.view_depth:
            return ""
        file = "" if self.source.name is None else f" of {self.source.name}"
        return f"{self.source.position(node.start)}{file}"

    def of_text(self, text: str) -> "BindContext":
        """A context for text from the catalog, such as a view or a computed column."""
        return replace(self, source=SqlSource(text), expansions=Expansions(), view_depth=self.view_depth + 1)

    def correlation(self) -> Correlation:
        """A new correlation, by which subqueries refer to the rows of a scope."""
        return Correlation(self.numbers)
