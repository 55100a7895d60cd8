"""Places in the text of a statement that advice on its plan is about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from headrace.table.catalog.manager import CatalogManager
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree.node import SqlNode, walk
from headrace.table.parse.tree.queries import AliasedRelation, JoinRelation, SelectQuery, SqlRelation, TableReference
from headrace.table.physical.advice import StatementText


@dataclass(frozen=True)
class PlacesInText(StatementText):
    """Finds clauses of a statement by the tables that they are about, since nodes of plans do not know their places.

    Attributes:
        statement: the statement.
        source: its text.
        catalogs: where its tables are.
    """

    statement: SqlNode
    source: SqlSource
    catalogs: CatalogManager

    def place(self, kind: str, tables: frozenset[str]) -> str:
        found = [at for each, of, at in self._clauses if each == kind and of == tables]
        return f" at {self.source.position(found[0])}" if len(found) == 1 else ""

    def aliases(self, left: str, right: str) -> tuple[str, str] | None:
        joins = [node for node in walk(self.statement) if isinstance(node, JoinRelation)]
        found = [(self._name_of(node.left, left), self._name_of(node.right, right)) for node in joins]
        pairs = [(one, other) for one, other in found if one is not None and other is not None]
        return pairs[0] if len(pairs) == 1 else None

    def _name_of(self, relation: SqlRelation, table: str) -> str | None:
        """The name of a relation that reads a table alone; None for others."""
        references = [each for each in walk(relation) if isinstance(each, TableReference)]
        if [str(self.catalogs.qualify(each.table.texts)) for each in references] != [table]:
            return None
        return relation.alias.text if isinstance(relation, AliasedRelation) else references[0].table.texts[-1]

    @cached_property
    def _clauses(self) -> list[tuple[str, frozenset[str], int]]:
        return [clause for node in walk(self.statement) for clause in self._clauses_of(node)]

    def _clauses_of(self, node: SqlNode) -> Iterator[tuple[str, frozenset[str], int]]:
        if isinstance(node, TableReference):
            yield "TABLE", self._tables(node), node.start
        if isinstance(node, JoinRelation):
            yield "JOIN", self._tables(node), self._join_of(node)
        if isinstance(node, SelectQuery) and node.relation is not None:
            yield "FROM", self._tables(node.relation), node.relation.start
            if node.group_by is not None:
                yield "GROUP BY", self._tables(node.relation), node.group_by.start

    def _tables(self, node: SqlNode) -> frozenset[str]:
        references = (each for each in walk(node) if isinstance(each, TableReference))
        return frozenset(str(self.catalogs.qualify(each.table.texts)) for each in references)

    def _join_of(self, node: JoinRelation) -> int:
        """The offset of the keywords of a join, which stand between its sides."""
        between = self.source.text[node.left.end : node.right.start]
        return node.left.end + len(between) - len(between.lstrip())
