"""Scopes: the columns that names can refer to, in a query and in outer queries."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from headrace.common.logical_types import LogicalType, RowType
from headrace.table.bind.errors import invalid, misspelt
from headrace.table.catalog.objects import ObjectPath
from headrace.table.logical.scalars import CorrelatedRef, InputRef, Scalar, Subquery
from headrace.table.logical.schema import Schema
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree.node import Name, SqlNode


@dataclass(frozen=True, slots=True)
class NamedRelation:
    """A relation of FROM, to whose columns names refer.

    Attributes:
        alias: its alias, or the name of the table; None for a query without one.
        offset: the index of its first column in the rows of FROM.
        path: the path of a table, by which columns can be qualified too.
        generated: the alias that the text of a view gives to a query without one.
    """

    alias: str | None
    schema: Schema
    offset: int = 0
    path: ObjectPath | None = None
    generated: str | None = None

    @property
    def qualifier(self) -> str | None:
        """The qualifier of its columns in the text of a view."""
        return self.generated if self.alias is None else self.alias

    def shifted(self, by: int) -> "NamedRelation":
        """The same source further right in a row."""
        return replace(self, offset=self.offset + by)

    def is_named(self, names: tuple[str, ...]) -> bool:
        """Return whether a qualifier refers to it."""
        if self.alias is not None and names == (self.alias,):
            return True
        return self.path is not None and self.alias == self.path.name and names == self.path[-len(names) :]


class Correlation:
    """The variable by which subqueries refer to rows of a scope. It is numbered when it is first used.

    Attributes:
        columns: the columns of the row that they refer to.
    """

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._name: str | None = None
        self.columns: set[int] = set()

    @property
    def is_used(self) -> bool:
        """Return whether a subquery refers to the row."""
        return self._name is not None

    @property
    def name(self) -> str:
        """The name of the variable, as in ``$cor0``."""
        if self._name is None:
            self._name = f"$cor{next(self._numbers)}"
        return self._name


@dataclass(frozen=True, slots=True)
class Shared:
    """A column of both inputs of a ``USING`` or ``NATURAL`` join: an unqualified name means either that is not NULL.

    Joins of more inputs share the column of the first one with that of each other.

    Attributes:
        name: the name of the column.
        left: its index on the left.
        right: its index on the right.
        is_ambiguous: whether an unqualified name means neither, as below ``NATURAL``, where only ``*`` has the column.
    """

    name: str
    left: int
    right: int
    is_ambiguous: bool = False


@dataclass(frozen=True)
class Scope:
    """The columns to which expressions of a query can refer.

    Attributes:
        sources: the relations of FROM.
        row: the types of the row of FROM, in which joins have made columns nullable.
        parent: the scope of the outer query.
        shared: the shared columns of ``USING`` and ``NATURAL`` joins.
        correlation: how subqueries refer to the row.
        aliases: the aliases in SELECT, which other clauses do not see.
    """

    sources: tuple[NamedRelation, ...]
    row: Schema
    correlation: Correlation
    parent: "Scope | None" = None
    shared: tuple[Shared, ...] = ()
    aliases: frozenset[str] = frozenset()

    def column(self, index: int) -> InputRef:
        """A reference to a column of the row."""
        return InputRef.of(self.row, index)

    def merged_with(self, index: int) -> tuple[int, ...]:
        """The columns that joins have merged with a column, any of which may be NULL in outer joins."""
        return tuple(each.right for each in self.shared if each.left == index)

    def source_of(self, index: int) -> NamedRelation:
        """The source of a column of the row."""
        return next(each for each in self.sources if each.offset <= index < each.offset + len(each.schema))

    def matches(self, names: tuple[str, ...]) -> "Iterator[_Match]":
        """The columns to which names can refer, without a qualifier."""
        hidden = {shared.right for shared in self.shared if not shared.is_ambiguous}
        for source in self.sources:
            yield from (each for each in _matches(source, names[0], 1) if each.column not in hidden)

    def qualified(self, names: tuple[str, ...]) -> "Iterator[_Match]":
        """The columns to which qualified names can refer."""
        for length in range(1, min(len(names), 4)):
            for source in self.sources:
                if source.is_named(names[:length]):
                    yield from _matches(source, names[length], length + 1)

    def named(self, names: tuple[str, ...]) -> NamedRelation | None:
        """The source to which a qualifier refers."""
        return next((source for source in self.sources if source.is_named(names)), None)

    def all_names(self) -> Iterator[str]:
        """The names of all columns, those of outer queries last."""
        yield from self.row.names
        if self.parent is not None:
            yield from self.parent.all_names()


class _Match(NamedTuple):
    """A column to which names can refer.

    Attributes:
        column: the index of the column in the row.
        taken: how many of the names were used; the rest are fields of rows.
        path: the column's name, and behind it the fields of rows that lead to the name.
    """

    column: int
    taken: int
    path: tuple[str, ...]


def _matches(source: NamedRelation, name: str, taken: int) -> Iterator[_Match]:
    """The columns of a name; where there is none, the fields of that name in rows."""
    columns = list(enumerate(source.schema, source.offset))
    direct = [_Match(index, taken, (name,)) for index, column in columns if column.name == name]
    yield from direct
    if not direct:
        for index, column in columns:
            yield from (_Match(index, taken, (column.name, *path)) for path in _fields(column.type, name))


def _fields(kind: LogicalType, name: str) -> Iterator[tuple[str, ...]]:
    """The ways to the fields of a name, inside rows of rows too."""
    if not isinstance(kind, RowType):
        return
    if name in kind.names:
        yield (name,)
        return
    for field, part in zip(kind.names, kind.types, strict=True):
        yield from ((field, *path) for path in _fields(part, name))


@dataclass(frozen=True, slots=True)
class ResolvedColumn:
    """The column that a name refers to.

    Attributes:
        taken: how many of the name's parts were used.
        path: the name of the column, and behind it the fields of rows that lead to the name.
    """

    scalar: Scalar
    taken: int
    path: tuple[str, ...]
    source: NamedRelation


def resolve(scope: Scope, source: SqlSource, node: SqlNode, names: tuple[Name, ...]) -> ResolvedColumn:
    """The column to which names refer.

    Raises:
        SqlValidationError: when there is none, or more than one.
    """
    texts = tuple(name.text for name in names)
    found = _resolved(scope, source, node, texts)
    if found is not None:
        return found
    raise _not_found(scope, source, names)


def _resolved(scope: Scope, source: SqlSource, node: SqlNode, texts: tuple[str, ...]) -> ResolvedColumn | None:
    outer: Scope | None = scope
    while outer is not None:
        matches = list(outer.qualified(texts)) or list(outer.matches(texts))
        if len(matches) > 1:
            raise invalid(source, node, f"column '{texts[0]}' is ambiguous", _qualify(outer, texts[0]))
        if matches:
            index, taken, path = matches[0]
            if outer is scope:
                return ResolvedColumn(scope.column(index), taken, path, scope.source_of(index))
            outer.correlation.columns.add(index)
            column = outer.row[index]
            name = outer.correlation.name
            scalar = CorrelatedRef(name, index, column.name, type=column.type, time=column.time)
            return ResolvedColumn(scalar, taken, path, outer.source_of(index))
        outer = outer.parent
    return None


def _qualify(scope: Scope, name: str) -> str:
    names = [f"{each.alias}.{name}" for each in scope.sources if name in each.schema.names and each.alias]
    return f"Write {' or '.join(names)}." if names else "Give the relations aliases."


def missing_alias(scope: Scope, source: SqlSource, name: Name) -> Exception:
    """The error of a qualifier that is not a table of FROM."""
    aliases = [each.alias for each in scope.sources if each.alias]
    others = f"FROM names {', '.join(aliases)}." if aliases else None
    return invalid(source, name, f"table '{name}' not found", misspelt(name.text, aliases) or others)


def _not_found(scope: Scope, source: SqlSource, names: tuple[Name, ...]) -> Exception:
    if len(names) > 1:
        named = scope.named((names[0].text,))
        if named is None:
            return missing_alias(scope, source, names[0])
        advice = misspelt(names[1].text, named.schema.names)
        return invalid(source, names[1], f"column '{names[1]}' not found in table '{names[0]}'", advice)
    advice = misspelt(names[0].text, scope.all_names())
    if names[0].text in scope.aliases:
        advice = f"'{names[0]}' is a name that SELECT gives: repeat its expression here, or select from a subquery."
    return invalid(source, names[0], f"column '{names[0]}' not found in any table", advice)


def correlation_of(scalars: Sequence[Scalar], correlation: Correlation) -> str | None:
    """The variable by which subqueries in these scalars refer to the row; None when none does."""
    subqueries = any(isinstance(each, Subquery) for scalar in scalars for each in scalar.walk())
    return correlation.name if subqueries and correlation.is_used else None
