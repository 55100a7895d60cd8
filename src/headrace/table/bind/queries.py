"""Queries: SELECT, VALUES, set operations, WITH, ORDER BY."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from headrace.common.logical_types import IntervalType, LogicalType, RowType, TypeRoot
from headrace.table.bind.aggregates import GroupBinder, has_aggregate
from headrace.table.bind.context import BindContext
from headrace.table.bind.expansion import place
from headrace.table.bind.expressions import ExpressionBinder
from headrace.table.bind.hints import bound_hints, check_names
from headrace.table.bind.relations import FromItem, RelationBinder, renamed
from headrace.table.bind.scopes import Correlation, NamedRelation, Scope, correlation_of, missing_alias
from headrace.table.catalog.objects import CatalogView, ObjectPath
from headrace.table.functions.types import INT, least_restrictive, root_of, to_external, with_nullability
from headrace.table.logical.relations import (
    Filter,
    Hint,
    LogicalAggregate,
    LogicalSort,
    Project,
    Relation,
    SetOperation,
    SetOperator,
    Values,
)
from headrace.table.logical.scalars import Cast, InputRef, Literal, OverCall, Scalar, SortKey
from headrace.table.logical.schema import Field, Schema, unique_names
from headrace.table.parse.parser import parse_expression, parse_statement
from headrace.table.parse.tree import expressions as sqle
from headrace.table.parse.tree import queries as sql
from headrace.table.parse.tree.node import QueryExpression, SqlNode
from headrace.table.parse.tree.statements import QueryStatement

_MOST_VIEWS: Final = 60


@dataclass(frozen=True)
class SelectedColumns:
    """The projection of a SELECT before ORDER BY; columns behind ``width`` are there only to sort by."""

    relation: Relation
    width: int
    keys: tuple[SortKey, ...] = ()
    names: tuple[str, ...] = ()


class QueryBinder:
    """Binds queries.

    Args:
        context: the statement.
        parent: the binder of the outer query, whose WITH is visible.
    """

    def __init__(self, context: BindContext, parent: "QueryBinder | None" = None) -> None:
        self.context = context
        self._parent = parent
        self._with: dict[str, Relation] = {}
        self._names: dict[int, tuple[str, ...]] = {}

    def query(self, node: QueryExpression, parent: Scope | None = None) -> Relation:
        """Bind a query to a relation.

        Raises:
            SqlValidationError: when a name is unknown, or types do not fit.
        """
        rule = _RULES.get(type(node))
        if rule is None:
            raise self.context.error(node, f"{type(node).__name__} is not supported yet")
        return rule(self, node, parent)

    def named_columns(self, node: QueryExpression, relation: Relation) -> tuple[str, ...]:
        """The names of a query's columns as written, possibly with duplicates."""
        return self._names.get(id(node), relation.schema.names)

    def subquery(self, node: QueryExpression, scope: Scope) -> Relation:
        """Bind a subquery, which may refer to columns of outer queries."""
        return QueryBinder(self.context, self).query(node, scope)

    def with_query(self, name: str) -> Relation | None:
        """The query of a name in WITH."""
        found = self._with.get(name)
        if found is None and self._parent is not None:
            return self._parent.with_query(name)
        return found

    def view(self, path: ObjectPath, view: CatalogView, node: SqlNode) -> Relation:
        """The rows of a view, under the names of its columns, and of the types that they had when it was created."""
        if self.context.view_depth > _MOST_VIEWS:
            raise self.context.error(node, f"the view '{path}' refers to itself")
        statement = parse_statement(view.query)
        assert isinstance(statement, QueryStatement)
        inner = QueryBinder(self.context.of_text(view.query))
        relation = renamed(inner.query(statement.query), view.schema.names)
        kept = tuple(_of_type(relation.column(at), kind) for at, kind in enumerate(view.schema.types))
        if _is_identity(kept, len(kept)):
            return relation
        return Project(relation, kept, view.schema.names)

    def bound_text(self, text: str, schema: Schema) -> Scalar:
        """Bind the text of an expression over columns."""
        inner = QueryBinder(self.context.of_text(text))
        scope = Scope((NamedRelation(None, schema),), schema, self.context.correlation())
        return ExpressionBinder(inner, scope, "the expression").bind(parse_expression(text))

    # --- SELECT ------------------------------------------------------------------------------------------------------

    def _select(self, node: sql.SelectQuery, parent: Scope | None) -> Relation:
        selected = self.select(node, parent, ())
        self._names[id(node)] = selected.names
        return selected.relation

    def select(
        self, node: sql.SelectQuery, parent: Scope | None, order_by: Sequence[sqle.OrderItem]
    ) -> SelectedColumns:
        """Bind SELECT, with the columns that its ORDER BY needs."""
        hints = bound_hints(self.context, node.hints)
        item = self._from(node.relation, parent, hints)
        check_names(self.context, node.hints, item.sources)
        correlation = self.context.correlation()
        aliases = frozenset(each.alias.text for each in node.items if each.alias is not None)
        scope = Scope(item.sources, item.relation.schema, correlation, parent, item.shared, aliases)
        relation = item.relation
        if node.where is not None:
            condition = ExpressionBinder(self, scope, "WHERE").condition(node.where)
            relation = filtered(relation, condition, correlation)
        windows = {window.name.text: window.window for window in node.windows}
        if len(windows) < len(node.windows):
            raise self.context.error(node.windows[-1], "a window is named twice")
        return _SelectBinder(self, node, scope, windows).bind(relation, order_by)

    def _from(self, node: sql.SqlRelation | None, parent: Scope | None, hints: tuple[Hint, ...] = ()) -> FromItem:
        if node is not None:
            return RelationBinder(self, parent, hints).bind(node)
        one = Values(((Literal(0, type=INT.not_null()),),), Schema((Field("ZERO", INT.not_null()),)))
        return FromItem(one, (NamedRelation(None, Schema(())),))

    # --- other queries -----------------------------------------------------------------------------------------------

    def _table(self, node: sql.TableQuery, parent: Scope | None) -> Relation:
        reference = sql.TableReference(node.table, start=node.start, end=node.end)
        item = self._from(reference, parent)
        names = [(source.alias, name) for source in item.sources for name in source.schema.names]
        self.context.expansions.stars[place(node)] = [(alias or "", name) for alias, name in names]
        return _identity(item.relation)

    def _values(self, node: sql.ValuesQuery, parent: Scope | None) -> Relation:
        scope = Scope((), Schema(()), self.context.correlation(), parent)
        binder = ExpressionBinder(self, scope, "VALUES")
        rows = [binder.bind_all(row) for row in node.rows]
        width = len(rows[0])
        for row, nodes in zip(rows, node.rows, strict=True):
            if len(row) != width:
                raise self.context.error(nodes[0], f"VALUES has rows of {width} and of {len(row)} values")
        for nodes, row in zip(node.rows, rows, strict=True):
            for each, scalar in zip(nodes, row, strict=True):
                refuse_null(self.context, each, scalar)
        types = [self._values_type(node, [row[at] for row in rows]) for at in range(width)]
        columns = Schema(tuple(Field(f"EXPR${at}", kind) for at, kind in enumerate(types)))
        return _rows(binder, rows, columns)

    def _values_type(self, node: SqlNode, column: Sequence[Scalar]) -> LogicalType:
        kind = least_restrictive([scalar.type for scalar in column])
        if kind is None:
            shown = ", ".join(dict.fromkeys(str(scalar.type) for scalar in column))
            raise self.context.error(node, f"the values of a column have no common type: {shown}")
        return kind

    def _set_operation(self, node: sql.SqlSetOperation, parent: Scope | None) -> Relation:
        nodes = list(_arms(node))
        arms = [self.query(arm, parent) for arm in nodes]
        word = node.operator.value + (" ALL" if node.is_all else "")
        width = len(arms[0].schema)
        for arm, each in zip(arms, nodes, strict=True):
            if len(arm.schema) != width:
                raise self.context.error(
                    each, f"column count mismatch in {word}: {width} and {len(arm.schema)} columns"
                )
        fields = tuple(self._set_column(nodes, arms, at, word) for at in range(width))
        operator = SetOperator[node.operator.name]
        return SetOperation(operator, tuple(arms), node.is_all, Schema(fields))

    def _set_column(self, nodes: Sequence[SqlNode], arms: Sequence[Relation], at: int, word: str) -> Field:
        columns = [arm.schema[at] for arm in arms]
        kind = least_restrictive([column.type for column in columns])
        if kind is None:
            shown = " and ".join(dict.fromkeys(str(column.type) for column in columns))
            raise self.context.error(nodes[-1], f"type mismatch in column {at + 1} of {word}: {shown}")
        first = kind.as_nullable()  # times of another precision make the first one a plain time as well
        is_first = all(root_of(each.type) is not root_of(kind) or each.type.as_nullable() == first for each in columns)
        is_time = is_first and columns[0].type.as_nullable() == first
        return Field(columns[0].name, kind, columns[0].time if is_time else None)

    def _with_query(self, node: sql.WithQuery, parent: Scope | None) -> Relation:
        if node.is_recursive:
            self.context.defer(node, "WITH RECURSIVE cannot be executed")
        inner = QueryBinder(self.context, self)
        for item in node.items:
            if node.is_recursive and isinstance(item.query, sql.SqlSetOperation):
                # The first arm of the recursion determines its columns.
                columns = inner.query(item.query.left, parent).schema
                given = [name.text for name in item.columns]
                inner._with[item.name.text] = Values((), columns.renamed([*given, *columns.names[len(given) :]]))
            relation = inner.query(item.query, parent)
            if item.columns:
                if len(item.columns) != len(relation.schema):
                    raise self.context.error(
                        item, f"'{item.name}' names {len(item.columns)} columns of {len(relation.schema)}"
                    )
                names = [name.text for name in item.columns]
                if len(set(names)) < len(names):
                    raise self.context.error(item, f"a column name is given twice in the list of '{item.name}'")
                relation = renamed(relation, tuple(names))
            inner._with[item.name.text] = relation
        return inner.query(node.body, parent)

    def _ordered(self, node: sql.OrderedQuery, parent: Scope | None) -> Relation:
        limit, offset = self._count(node.limit, "LIMIT"), self._count(node.offset, "OFFSET") or 0
        body = node.body
        if isinstance(body, sql.SelectQuery):
            selected = self.select(body, parent, node.order_by)
        else:
            given = self.query(body, parent)
            selected = self._ordered_columns(
                _identity(given) if isinstance(body, sql.SqlSetOperation) else given, node.order_by
            )
        if not selected.keys and limit is None and not offset:
            return selected.relation
        relation: Relation = LogicalSort(
            selected.relation,
            selected.keys,
            offset,
            limit,
            at=self.context.place(next(filter(None, (*node.order_by, node.limit, node.offset)), node)),
        )
        if selected.width < len(relation.schema):
            kept = range(selected.width)
            names = relation.schema.names[: selected.width]
            relation = Project(relation, tuple(map(relation.column, kept)), names)
        return relation

    def _count(self, node: sqle.SqlExpression | None, clause: str) -> int | None:
        if node is None:
            return None
        if not isinstance(node, sqle.IntegerLiteral):
            raise self.context.error(node, f"{clause} takes a number")
        return node.value

    def _ordered_columns(self, relation: Relation, items: Sequence[sqle.OrderItem]) -> SelectedColumns:
        schema = relation.schema
        scope = Scope((NamedRelation(None, schema),), schema, self.context.correlation())
        binder = ExpressionBinder(self, scope, "ORDER BY")
        keys, extra = [], []
        for item in items:
            index = ordinal(self.context, item.expression, len(schema))
            scalar = relation.column(index) if index is not None else binder.bind(item.expression)
            if not isinstance(scalar, InputRef):
                extra.append(scalar)
                index = len(schema) + len(extra) - 1
            keys.append(_sort_key(item, index if index is not None else getattr(scalar, "index", 0)))
        if extra:
            names = unique_names((*schema.names, *(f"EXPR${len(schema) + at}" for at in range(len(extra)))))
            relation = Project(relation, (*map(relation.column, range(len(schema))), *extra), names)
        return SelectedColumns(relation, len(schema), tuple(keys))


class _SelectBinder:
    """Binds the clauses from SELECT to QUALIFY, over the rows of FROM and WHERE."""

    def __init__(
        self, queries: QueryBinder, node: sql.SelectQuery, scope: Scope, windows: dict[str, sqle.OverWindow]
    ) -> None:
        self.queries = queries
        self.context = queries.context
        self.node = node
        self.scope = scope
        self.windows = windows
        self.groups: GroupBinder | None = None
        self.binder = ExpressionBinder(queries, scope, "SELECT", windows)
        for window in windows.values():  # of which no function need be
            self.binder.bind_all((*window.partition_by, *(item.expression for item in window.order_by)))

    def bind(self, relation: Relation, order_by: Sequence[sqle.OrderItem]) -> SelectedColumns:
        """The projection, with columns to sort by."""
        node = self.node
        if self._is_aggregated(order_by):
            self.groups = GroupBinder(self.queries, self.scope, node.group_by, self.windows)
            self.binder = self.groups
        items = list(self._items())
        having = None if node.having is None else self._clause("HAVING", node.having)
        qualify = self._qualify(items)
        self.binder.clause = "ORDER BY"
        self.binder.aliases = self._aliases(items)
        keys, extra = self._order_keys(items, order_by)
        self.binder.aliases = {}
        hints = bound_hints(self.context, node.hints)
        if self.groups is not None:
            names = {scalar.index: name for scalar, name in items if isinstance(scalar, InputRef)}
            relation = self.groups.relation(relation, names, hints)
        if having is not None:
            relation = filtered(relation, having, self._correlation)
        extra_names = (
            relation.schema.names[each.index] if isinstance(each, InputRef) else f"EXPR${at}"
            for at, each in enumerate(extra, len(items))
        )
        names_of = unique_names([*(name for _, name in items), *extra_names])
        expressions = (*(scalar for scalar, _ in items), *extra)
        relation = self._qualified(relation, qualify, expressions, names_of, hints)
        if node.quantifier is sqle.SetQuantifier.DISTINCT:
            relation = self._distinct(relation, len(items))
        return SelectedColumns(relation, len(items), keys, tuple(name for _, name in items))

    @property
    def _correlation(self) -> Correlation:
        """The variable by which subqueries behind WHERE refer to the row."""
        return self.scope.correlation if self.groups is None else self.groups.correlation

    def _clause(self, clause: str, node: sqle.SqlExpression) -> Scalar:
        self.binder.clause = clause
        return self.binder.condition(node)

    def _is_aggregated(self, order_by: Sequence[sqle.OrderItem]) -> bool:
        node = self.node
        nodes: list[SqlNode | None] = [item.expression for item in node.items]
        nodes += [node.having, node.qualify, *(item.expression for item in order_by)]
        grouped = node.group_by is not None or node.having is not None
        return grouped or any(each is not None and has_aggregate(each, self.context) for each in nodes)

    def _projected(
        self, relation: Relation, expressions: tuple[Scalar, ...], names: tuple[str, ...], hints: tuple[Hint, ...]
    ) -> Relation:
        """The projection; above an aggregation it is left out if it would only rename."""
        is_grouped = self.groups is not None
        if is_grouped and isinstance(relation, LogicalAggregate) and _is_identity(expressions, len(relation.schema)):
            return replace(relation, names=names)
        is_having = is_grouped and isinstance(relation, Filter) and relation.correlation is None
        below = relation.input if is_having and isinstance(relation, Filter) else None
        if isinstance(below, LogicalAggregate) and _is_identity(expressions, len(relation.schema)):
            return relation.with_parts(Relation, [replace(below, names=names)])
        correlation = correlation_of(expressions, self._correlation)
        return Project(relation, expressions, names, hints if self.groups is None else (), correlation=correlation)

    def _distinct(self, relation: Relation, width: int) -> Relation:
        if len(relation.schema) > width:
            raise self.context.error(self.node, "ORDER BY of SELECT DISTINCT takes only what is selected")
        group = tuple(range(width))
        return LogicalAggregate(relation, group, (), relation.schema.names, (group,))

    def _qualify(self, items: Sequence[tuple[Scalar, str]]) -> Scalar | None:
        """The condition of QUALIFY, which may refer to selected columns."""
        if self.node.qualify is None:
            return None
        self.binder.aliases = self._aliases(items)
        condition = self._clause("QUALIFY", self.node.qualify)
        self.binder.aliases = {}
        if not any(isinstance(each, OverCall) for each in condition.walk()):
            raise self.context.error(self.node.qualify, "QUALIFY needs a function with OVER", "Use WHERE, or HAVING.")
        return condition

    def _aliases(self, items: Sequence[tuple[Scalar, str]]) -> dict[str, Scalar]:
        """The selected expressions that have an alias."""
        named = {item.alias.text for item in self.node.items if item.alias is not None}
        return {name: scalar for scalar, name in items if name in named}

    def _qualified(
        self,
        relation: Relation,
        condition: Scalar | None,
        expressions: tuple[Scalar, ...],
        names: tuple[str, ...],
        hints: tuple[Hint, ...],
    ) -> Relation:
        """The projection with the filter of QUALIFY above it, whose condition is an appended column."""
        if condition is None:
            return self._projected(relation, expressions, names, hints)
        added = unique_names([*names, "QualifyExpression"])
        given = Project(relation, expressions, names, hints)
        selected = tuple(map(given.column, range(len(names))))
        found = _of_selected(condition, dict(zip(expressions, selected, strict=True)))
        inner = Project(relation, (*expressions, condition), added, hints)
        if found is not None:
            inner = Project(given, (*selected, found), added)
        chosen = Filter(inner, inner.column(len(names)))
        return Project(chosen, tuple(map(inner.column, range(len(names)))), names)

    # --- the select list ---------------------------------------------------------------------------------------------

    def _items(self) -> Iterator[tuple[Scalar, str]]:
        names: list[str] = []
        for item in self.node.items:
            if isinstance(item.expression, sqle.Star):
                for scalar, name in self._star(item.expression):
                    names = list(unique_names([*names, name]))
                    yield scalar, names[-1]
                continue
            scalar = self.binder.bind(item.expression)
            refuse_null(self.context, item.expression, scalar)
            _refuse_digits(self.context, item.expression, scalar)
            names.append(item.alias.text if item.alias is not None else _implicit_name(item.expression, len(names)))
            yield scalar, names[-1]

    def _star(self, node: sqle.Star) -> Iterator[tuple[Scalar, str]]:
        if not node.qualifier:
            if self.node.relation is None:
                raise self.context.error(node, "* needs FROM")
            for each in self.scope.sources:
                self._check_star(node, each)
            for index in self._all_columns():
                self._note(node, index)
                yield self._column(node, index)
            return
        texts = tuple(name.text for name in node.qualifier)
        source = self.scope.named(texts)
        if source is not None:
            self._check_star(node, source)
            for index in range(source.offset, source.offset + len(source.schema)):
                self._note(node, index)
                yield self._column(node, index)
            return
        if len(texts) == 1 and texts[0] not in self.scope.all_names():
            raise missing_alias(self.scope, self.context.source, node.qualifier[0])
        row = self.binder.bind(sqle.Identifier(node.qualifier, start=node.start, end=node.end))
        if not isinstance(row.type, RowType):
            raise self.context.error(node, f"'{'.'.join(texts)}' has no columns: it is of type {row.type}")
        for name in row.type.names:
            yield self.binder.field(row, name, node), name

    def _check_star(self, node: sqle.Star, source: NamedRelation) -> None:
        """Refuse ``*`` of a query with two columns of a name."""
        names = source.schema.names
        for at, name in enumerate(names):
            if name in names[:at]:
                raise self.context.error(node, f"column '{name}' is ambiguous", "Give the columns other names by AS.")

    def _note(self, node: sqle.Star, index: int) -> None:
        """Record a column in the expansion of ``*``."""
        source = self.scope.source_of(index)
        name = source.schema[index - source.offset].name
        names = (name,) if source.qualifier is None else (source.qualifier, name)
        self.context.expansions.stars.setdefault(place(node), []).append(names)

    def _all_columns(self) -> list[int]:
        """The columns of ``*``: those that a join has merged come first, and once."""
        shared = self.scope.shared
        first = list(dict.fromkeys(each.left for each in shared))
        hidden = {index for each in shared for index in (each.left, each.right)}
        return first + [index for index in range(len(self.scope.row)) if index not in hidden]

    def _column(self, node: SqlNode, index: int) -> tuple[Scalar, str]:
        name = self.scope.row[index].name
        source = self.scope.source_of(index)
        name = source.schema[index - source.offset].name if name not in source.schema.names else name
        scalar = self.binder.either(self.scope.column(index), node)
        if self.groups is None:
            return scalar, name
        if scalar not in self.groups.inputs[: self.groups.group]:
            raise self.context.error(node, f"expression '{name}' is not being grouped", f"Add it to GROUP BY: {name}.")
        return self.groups._group_column(scalar), name

    # --- ORDER BY ----------------------------------------------------------------------------------------------------

    def _order_keys(
        self, items: Sequence[tuple[Scalar, str]], order_by: Sequence[sqle.OrderItem]
    ) -> tuple[tuple[SortKey, ...], list[Scalar]]:
        keys: list[SortKey] = []
        extra: list[Scalar] = []
        for item in order_by:
            index = self._selected(items, item.expression)
            if index is None:
                scalar = self.binder.bind(item.expression)
                everything = [*(each for each, _ in items), *extra]
                if scalar not in everything:
                    extra.append(scalar)
                    everything.append(scalar)
                index = everything.index(scalar)
            keys.append(_sort_key(item, index))
        return tuple(keys), extra

    def _selected(self, items: Sequence[tuple[Scalar, str]], node: sqle.SqlExpression) -> int | None:
        """The column to which an ordinal or an alias refers."""
        index = ordinal(self.context, node, len(items))
        if index is None and isinstance(node, sqle.Identifier) and len(node.names) == 1:
            aliases = [item.alias.text for item in self.node.items if item.alias is not None]
            if node.names[0].text in aliases:
                return next(at for at, (_, name) in enumerate(items) if name == node.names[0].text)
        return index


def _of_selected(condition: Scalar, columns: dict[Scalar, Scalar]) -> Scalar | None:
    """A condition over columns of SELECT; None if it has calls of its own, or reads others."""
    if condition in columns:
        return columns[condition]
    if isinstance(condition, OverCall | InputRef):
        return None
    parts = [_of_selected(part, columns) for part in condition.children]
    known = [part for part in parts if part is not None]
    return condition.with_parts(Scalar, known) if len(known) == len(parts) else None


def ordinal(context: BindContext, node: sqle.SqlExpression, width: int) -> int | None:
    """The column of ``ORDER BY 1``."""
    if not isinstance(node, sqle.IntegerLiteral):
        return None
    if not 1 <= node.value <= width:
        raise context.error(node, f"ordinal out of range: there are {width} columns")
    return node.value - 1


def filtered(relation: Relation, condition: Scalar, correlation: Correlation) -> Relation:
    """The rows for which a condition is true; no filter if it is constant TRUE."""
    if isinstance(condition, Literal) and condition.value is True:
        return relation
    return Filter(relation, condition, correlation_of((condition,), correlation))


def refuse_null(context: BindContext, node: SqlNode, scalar: Scalar) -> None:
    """Refuse a bare NULL, which has no type."""
    if root_of(scalar.type) is TypeRoot.NULL:
        raise context.error(node, "illegal use of NULL", "Write CAST(NULL AS type).")


def _refuse_digits(context: BindContext, node: SqlNode, scalar: Scalar) -> None:
    """Refuse a column that is an interval of days to seconds of more digits, which no column can have in Flink."""
    if not isinstance(node, sqle.IntervalLiteral) or not isinstance(scalar.type, IntervalType):
        return
    if not scalar.type.unit.is_of_months and (node.qualifier.precision or 0) > _MOST_DIGITS:
        raise context.unplanned(node, f"an interval of days to seconds has at most {_MOST_DIGITS} digits")


_MOST_DIGITS: Final = 3


def _implicit_name(node: sqle.SqlExpression, at: int) -> str:
    if isinstance(node, sqle.Identifier):
        return node.names[-1].text
    if isinstance(node, sqle.SqlCall) and not node.has_parentheses:
        return node.name
    return f"EXPR${at}"


def _of_type(scalar: Scalar, kind: LogicalType) -> Scalar:
    if to_external(scalar.type).as_nullable() == kind.as_nullable():
        return scalar
    return Cast(scalar, type=with_nullability(kind, scalar.type.nullable))


def _sort_key(item: sqle.OrderItem, index: int) -> SortKey:
    nulls_first = not item.descending if item.nulls_first is None else item.nulls_first
    return SortKey(index, item.descending, nulls_first)


def _arms(node: sql.SqlSetOperation) -> Iterator[QueryExpression]:
    """The arms of a chain of the same operator, from left to right."""
    rest: list[QueryExpression] = []
    left: QueryExpression = node
    while isinstance(left, sql.SqlSetOperation) and (left.operator, left.is_all) == (node.operator, node.is_all):
        rest.append(left.right)
        left = left.left
        if node.operator is sql.SqlSetOperator.EXCEPT:
            break
    return iter([left, *rest[::-1]])


def _is_identity(expressions: Sequence[Scalar], width: int) -> bool:
    return [each.index if isinstance(each, InputRef) else None for each in expressions] == list(range(width))


def _identity(relation: Relation) -> Relation:
    columns = range(len(relation.schema))
    return Project(relation, tuple(map(relation.column, columns)), relation.schema.names)


def _rows(binder: ExpressionBinder, rows: Sequence[tuple[Scalar, ...]], columns: Schema) -> Relation:
    """Constant rows; where something has to be computed, a projection of one row for each, all together."""
    cast = [
        tuple(
            binder.implicit(scalar, with_nullability(kind, scalar.type.nullable))
            for scalar, kind in zip(row, columns.types, strict=True)
        )
        for row in rows
    ]
    literals = [tuple(scalar for scalar in row if isinstance(scalar, Literal)) for row in cast]
    if all(len(row) == len(columns) for row in literals):
        return Values(tuple(literals), columns)
    one = Values(((Literal(0, type=INT.not_null()),),), Schema((Field("ZERO", INT.not_null()),)))
    arms = tuple(Project(one, row, columns.names) for row in cast)
    return arms[0] if len(arms) == 1 else SetOperation(SetOperator.UNION, arms, True, columns)


_Rule = Callable[[Any, Any, Scope | None], Relation]
_RULES: Final[dict[type, _Rule]] = {
    sql.SelectQuery: QueryBinder._select,
    sql.ValuesQuery: QueryBinder._values,
    sql.TableQuery: QueryBinder._table,
    sql.SqlSetOperation: QueryBinder._set_operation,
    sql.WithQuery: QueryBinder._with_query,
    sql.OrderedQuery: QueryBinder._ordered,
}
