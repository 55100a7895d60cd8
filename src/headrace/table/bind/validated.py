"""Expressions as Calcite's validator leaves them, which the text of a computed column or a view shows.

Shorthands are written out: ``YEAR(t)`` is ``EXTRACT(YEAR FROM t)``, and ``NULLIF(a, b)`` is a ``CASE``.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from headrace.table.parse.tree import expressions as sql
from headrace.table.parse.tree import json
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
