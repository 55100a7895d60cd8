"""What all parts of the binder share about one statement."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from headrace.table.bind.errors import SqlPlanError, SqlValidationError, invalid
from headrace.table.bind.scopes import Correlation
from headrace.table.bind.types import TypeBinder
from headrace.table.catalog.manager import CatalogManager
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree.node import SqlNode


@dataclass
class BindContext:
    """A statement that is bound: its text, the catalogs, and how the session is set.

    Attributes:
        is_streaming: whether queries run in streaming mode.
        options: the settings of the session.
        deferred: errors that Flink finds only when it plans: a statement with one is valid.
    """

    source: SqlSource
    catalogs: CatalogManager
    is_streaming: bool = True
    options: dict[str, str] = field(default_factory=dict)
    deferred: list[SqlPlanError] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)
    view_depth: int = 0

    @property
    def types(self) -> TypeBinder:
        """What makes logical types of those in the text."""
        return TypeBinder(self.source)

    def text(self, node: SqlNode) -> str:
        """How a node is written."""
        return self.source.text[node.start : node.end]

    def error(self, node: SqlNode, reason: str, advice: str | None = None) -> SqlValidationError:
        """The error at a node."""
        return invalid(self.source, node, reason, advice)

    def defer(self, node: SqlNode, reason: str, advice: str | None = None) -> None:
        """Note an error that is none before the statement is planned."""
        self.deferred.append(SqlPlanError(reason, self.source, node.start, node.end, advice))

    def of_text(self, text: str) -> "BindContext":
        """The context of a part that was written elsewhere: a view, a computed column."""
        return replace(self, source=SqlSource(text), view_depth=self.view_depth + 1)

    def correlation(self) -> Correlation:
        """A new name for rows that subqueries refer to."""
        return Correlation(f"$cor{next(self.numbers)}")
