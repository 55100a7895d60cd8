"""The context that all parts of the binder share for a statement."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from headrace.table.bind.errors import SqlPlanError, SqlValidationError, invalid, misspelt
from headrace.table.bind.expansion import Expansions
from headrace.table.bind.scopes import Correlation
from headrace.table.bind.types import TypeBinder
from headrace.table.catalog.manager import CatalogManager
from headrace.table.catalog.objects import ObjectPath
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree.node import Path, SqlNode


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

    def refuse_created(self, node: Path) -> None:
        """Refuse the call of a function that ``CREATE FUNCTION`` has made.

        Raises:
            SqlValidationError: when the name is one of theirs.
        """
        created = self.catalogs.function(node.texts)
        if created is not None:
            reason = f"function '{node}' stands for {created.class_name}, which SQL cannot call yet"
            raise self.error(node, reason, "Use a built-in function, or DataStream.map() behind to_data_stream().")

    def defer(self, node: SqlNode, reason: str, advice: str | None = None) -> None:
        """Add an error that is raised only when the statement is planned."""
        self.deferred.append(self.unplanned(node, reason, advice))

    def of_text(self, text: str) -> "BindContext":
        """The context of text from the catalog: a view, a computed column."""
        return replace(self, source=SqlSource(text), expansions=Expansions(), view_depth=self.view_depth + 1)

    def correlation(self) -> Correlation:
        """A new correlation, by which subqueries refer to the rows of a scope."""
        return Correlation(self.numbers)
