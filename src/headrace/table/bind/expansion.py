"""Expanded queries of views: columns are qualified by tables, and tables by full paths.

Such a text keeps its meaning when the current database changes, or tables get more columns.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from headrace.table.parse.format import sql_of
from headrace.table.parse.tree import expressions as sql
from headrace.table.parse.tree import json, queries
from headrace.table.parse.tree.node import Name, Path, SqlNode
from headrace.table.parse.tree.types import TimeUnit

_PARTS: Final = {
    "YEAR": TimeUnit.YEAR,
    "QUARTER": TimeUnit.QUARTER,
    "MONTH": TimeUnit.MONTH,
    "WEEK": TimeUnit.WEEK,
    "DAYOFYEAR": TimeUnit.DOY,
    "DAYOFMONTH": TimeUnit.DAY,
    "DAYOFWEEK": TimeUnit.DOW,
    "HOUR": TimeUnit.HOUR,
    "MINUTE": TimeUnit.MINUTE,
    "SECOND": TimeUnit.SECOND,
}


def written_out(node: SqlNode) -> SqlNode:
    """The node without a shorthand."""
    rule = _RULES.get(type(node))
    return node if rule is None else rule(node)


def _call(node: sql.SqlCall) -> sql.SqlExpression:
    at = {"start": node.start, "end": node.end}
    if node.name in _PARTS and len(node.arguments) == 1:
        unit = sql.UnitArgument(_PARTS[node.name], **at)
        path = Path((Name("EXTRACT", **at),), **at)
        return replace(node, function=path, arguments=(unit, *node.arguments))
    if node.name == "NULLIF" and len(node.arguments) == 2:
        first, second = node.arguments
        is_equal = sql.Binary(sql.BinaryOperator.EQUALS, first, second, **at)
        branch = sql.CaseBranch((is_equal,), sql.NullLiteral(**at), **at)
        return sql.CaseExpression(None, (branch,), first, **at)
    return node


def _case(node: sql.CaseExpression) -> sql.SqlExpression:
    """``CASE`` with conditions, and with ``ELSE``."""
    at = {"start": node.start, "end": node.end}
    otherwise = node.otherwise or sql.NullLiteral(**at)
    if node.operand is None:
        return replace(node, otherwise=otherwise)
    branches = tuple(
        replace(branch, conditions=tuple(_equal(node.operand, each) for each in branch.conditions))
        for branch in node.branches
    )
    return replace(node, operand=None, branches=branches, otherwise=otherwise)


def _equal(left: sql.SqlExpression, right: sql.SqlExpression) -> sql.SqlExpression:
    return sql.Binary(sql.BinaryOperator.EQUALS, left, right, start=right.start, end=right.end)


def _trim(node: sql.Trim) -> sql.SqlExpression:
    if node.characters is not None:
        return node
    return replace(node, characters=sql.StringLiteral(" ", start=node.start, end=node.end))


def _test(node: sql.IsTest) -> sql.SqlExpression:
    return replace(node, test=sql.OperandTest.JSON_VALUE) if node.test is sql.OperandTest.JSON else node


def _json_query(node: json.JsonPathCall) -> sql.SqlExpression:
    if node.function is not json.JsonFunction.QUERY:
        return node
    null = json.JsonBehavior(json.JsonBehaviorKind.NULL, start=node.start, end=node.end)
    return replace(
        node,
        wrapper=node.wrapper or json.JsonWrapper.WITHOUT,
        on_empty=node.on_empty or null,
        on_error=node.on_error or null,
    )


def _json_object(node: json.JsonObject) -> sql.SqlExpression:
    return replace(node, absent_on_null=bool(node.absent_on_null))


def _json_array(node: json.JsonArray) -> sql.SqlExpression:
    return replace(node, absent_on_null=node.absent_on_null is None or node.absent_on_null)


def _double(node: sql.DoubleLiteral) -> sql.SqlExpression:
    return replace(node, text=node.text.upper())


_RULES: Final[dict[type[SqlNode], Callable[[Any], sql.SqlExpression]]] = {
    sql.SqlCall: _call,
    sql.CaseExpression: _case,
    sql.DoubleLiteral: _double,
    sql.Trim: _trim,
    sql.IsTest: _test,
    json.JsonPathCall: _json_query,
    json.JsonObject: _json_object,
    json.JsonArray: _json_array,
}


Place = tuple[int, int]


@dataclass
class Expansions:
    """The expansions of names, by their positions in the text.

    Attributes:
        columns: the qualified names of columns.
        tables: the paths of tables, with their aliases.
        stars: the columns that ``*`` stands for.
        aliased: the relations of FROM that have an alias in the statement.
        generated: the aliases of those that have none.
    """

    columns: dict[Place, tuple[str, ...]] = field(default_factory=dict)
    tables: dict[Place, tuple[str, ...]] = field(default_factory=dict)
    stars: dict[Place, list[tuple[str, ...]]] = field(default_factory=dict)
    aliased: set[Place] = field(default_factory=set)
    generated: dict[Place, str] = field(default_factory=dict)

    def alias_of(self, node: SqlNode) -> str | None:
        """A new alias for a relation without one: ``EXPR$0``, ``EXPR$1``."""
        if place(node) in self.aliased:
            return None
        return self.generated.setdefault(place(node), f"EXPR${len(self.generated)}")


def place(node: SqlNode) -> Place:
    """The start and the end of a node in the text."""
    return node.start, node.end


def expanded_text(node: SqlNode, found: Expansions) -> str:
    """The text of a query or an expression with qualified names, and functions in upper case."""
    return sql_of(_expanded(node, found, is_aliased=False))


def _expanded(node: SqlNode, found: Expansions, *, is_aliased: bool) -> SqlNode:
    if isinstance(node, sql.Identifier):
        names = found.columns.get(place(node))
        return node if names is None else _identifier(node, names)
    if isinstance(node, queries.TableReference):
        return _table(node, found, is_aliased=is_aliased)
    if isinstance(node, queries.TableQuery):
        return _table_query(node, found)
    node = written_out(node)
    if isinstance(node, sql.SqlCall):
        names_of = tuple(_name(name, name.text.upper()) for name in node.function.names)
        path = Path(names_of, start=node.function.start, end=node.function.end)
        node = replace(node, function=path) if len(names_of) == 1 else node
    is_alias = isinstance(node, queries.AliasedRelation)
    changes = {
        each.name: _value(getattr(node, each.name), found, is_alias)
        for each in fields(node)
        if each.name not in ("start", "end")
    }
    if isinstance(node, queries.SelectQuery):
        changes["items"] = tuple(_items(node, found))
    elif isinstance(node, queries.OrderedQuery):
        changes["order_by"] = tuple(_order(each, node.body, found) for each in node.order_by)
    changed = replace(node, **changes)
    if isinstance(changed, queries.SqlRelation) and not is_aliased and place(node) in found.generated:
        alias = _name(node, found.generated[place(node)])
        return queries.AliasedRelation(changed, alias, start=node.start, end=node.end)
    return changed


def _order(item: sql.OrderItem, body: SqlNode, found: Expansions) -> sql.OrderItem:
    """An item of ORDER BY, which is not expanded where it is a column of SELECT."""
    expression = item.expression
    if isinstance(expression, sql.Identifier) and len(expression.names) == 1 and isinstance(body, queries.SelectQuery):
        outputs = {each.alias.text for each in body.items if each.alias is not None}
        outputs |= {
            each.expression.names[-1].text for each in body.items if isinstance(each.expression, sql.Identifier)
        }
        if expression.names[0].text in outputs or any(place(each.expression) in found.stars for each in body.items):
            return item
    changed = _expanded(item, found, is_aliased=False)
    assert isinstance(changed, sql.OrderItem)
    return changed


def _value(value: Any, found: Expansions, is_alias: bool) -> Any:
    if isinstance(value, SqlNode):
        return _expanded(value, found, is_aliased=is_alias)
    if isinstance(value, tuple):
        return tuple(_value(item, found, is_alias) for item in value)
    return value


def _items(node: queries.SelectQuery, found: Expansions) -> list[queries.SelectItem]:
    items: list[queries.SelectItem] = []
    for item in node.items:
        names = found.stars.get(place(item.expression))
        if names is None:
            changed = _expanded(item, found, is_aliased=False)
            assert isinstance(changed, queries.SelectItem)
            items.append(changed)
            continue
        items.extend(
            queries.SelectItem(_identifier(item.expression, each), start=item.start, end=item.end) for each in names
        )
    return items


def _table(node: queries.TableReference, found: Expansions, *, is_aliased: bool) -> queries.SqlRelation:
    names = found.tables.get(place(node.table))
    if names is None:
        return node
    path = Path(tuple(_name(node.table, text) for text in names), start=node.table.start, end=node.table.end)
    whole = replace(node, table=path)
    if is_aliased:
        return whole
    alias = _name(node, names[-1])
    return queries.AliasedRelation(whole, alias, start=node.start, end=node.end)


def _table_query(node: queries.TableQuery, found: Expansions) -> SqlNode:
    """``TABLE t`` as a query of all columns of the table."""
    reference = queries.TableReference(node.table, start=node.start, end=node.end)
    columns = found.stars.get(place(node), [])
    items = tuple(queries.SelectItem(_identifier(node, each), start=node.start, end=node.end) for each in columns)
    relation = _table(reference, found, is_aliased=False)
    return queries.SelectQuery(items, relation, start=node.start, end=node.end)


def _identifier(node: SqlNode, names: tuple[str, ...]) -> sql.Identifier:
    return sql.Identifier(tuple(_name(node, text) for text in names), start=node.start, end=node.end)


def _name(node: SqlNode, text: str) -> Name:
    return Name(text, start=node.start, end=node.end)
