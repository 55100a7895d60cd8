"""Expressions as text: ``amount < 1.0 and country in ("DE", "FR")``, for rules that are not written in a program.

The text is that of Python: names are fields, and what ``repr()`` gives of an expression is one, too. Nothing of it is
executed: a tree is read, and whatever is no field, value, operator or method of expressions is refused.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.common.errors import HeadraceError, InvalidProgramError
from headrace.common.other_names import alike
from headrace.common.typeinfo import Types
from headrace.expressions.methods import ExpressionMethods
from headrace.expressions.stages import StageEvent, avg_of, count_of, first, last, max_of, min_of, sum_of
from headrace.expressions.tree import (
    CaseWhen,
    Expression,
    Unfinished,
    When,
    as_expression,
    coalesce,
    col,
    concat,
    lit,
    when,
)

_OPERATORS: Final[Mapping[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_PREFIXES: Final[Mapping[type[ast.AST], Callable[[Any], Any]]] = {
    ast.USub: operator.neg,
    ast.Not: operator.invert,
    ast.Invert: operator.invert,
}
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "col": col,
    "lit": lit,
    "when": when,
    "coalesce": coalesce,
    "concat": concat,
    "first": first,
    "last": last,
    "count_of": count_of,
    "sum_of": sum_of,
    "avg_of": avg_of,
    "min_of": min_of,
    "max_of": max_of,
}
_METHODS: Final = frozenset(name for name in (*vars(ExpressionMethods), "cast", "field") if not name.startswith("_"))
_METHODS_OF_CASES: Final = frozenset({"when", "then", "otherwise"})
_METHODS_OF_EVENTS: Final = frozenset({"field"})
_TYPES: Final = frozenset(
    {"STRING", "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "BIG_DEC", "SQL_DATE"}
)
_MOST_CHARACTERS: Final = 10_000


def parse_expression(text: str) -> Expression:
    """Return the expression that a text says.

    Raises:
        InvalidProgramError: when it says none; the message shows where.

    Examples:
        >>> parse_expression("amount < 1.0 and country in ('DE', 'FR')")
        (col("amount") < 1.0) & col("country").is_in(["DE", "FR"])
        >>> parse_expression("not name.lower().contains('test') or 0 < x <= 5")
        ~col("name").lower().contains("test") | (0 < col("x")) & (col("x") <= 5)
    """
    if len(text) > _MOST_CHARACTERS:
        raise InvalidProgramError(f"an expression of {len(text)} characters is too long: at most {_MOST_CHARACTERS}")
    line = " ".join(text.split("\n")).strip()
    try:
        tree = ast.parse(line, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        at = (getattr(error, "offset", None) or 1) - 1
        raise _refused(line, at, str(getattr(error, "msg", error))) from None
    return _ExpressionReader(line).expression(tree.body)


def _refused(line: str, at: int, message: str) -> HeadraceError:
    return InvalidProgramError(f"in the expression: {message}\n  {line}\n  {' ' * at}^")


class _ExpressionReader:
    def __init__(self, line: str) -> None:
        self._line = line

    def expression(self, node: ast.expr) -> Expression:
        """Return what a node stands for, as an expression."""
        found = self._value(node)
        if isinstance(found, When):
            raise self._error(node, "when(condition) wants .then(value)")
        try:
            return as_expression(found)
        except HeadraceError as error:
            raise self._error(node, str(error).partition("\n")[0]) from None

    def _value(self, node: ast.expr) -> Any:
        """Return what a node stands for: an expression, or a plain value."""
        match node:
            case ast.Constant(found) | ast.UnaryOp(ast.UAdd(), ast.Constant(found)):
                return found
            case ast.Name(name):
                return col(name)
            case ast.List(elements) | ast.Tuple(elements):
                return [self._value(element) for element in elements]
        return self._made(node)

    def _made(self, node: ast.expr) -> Any:
        """Return what is made of other parts."""
        made: Any
        match node:
            case ast.BoolOp(op, values):
                made = self._joined(node, operator.and_ if isinstance(op, ast.And) else operator.or_, values)
            case ast.UnaryOp(op, operand) if type(op) in _PREFIXES:
                is_number = isinstance(op, ast.USub) and isinstance(operand, ast.Constant)
                made = self._applied(
                    node, _PREFIXES[type(op)], (self._value if is_number else self.expression)(operand)
                )
            case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
                made = self._applied(node, _OPERATORS[type(op)], self.expression(left), self.expression(right))
            case ast.Compare(left, ops, rights):
                made = self._compared(node, left, ops, rights)
            case ast.Call(function, arguments, keywords):
                values = [self._value(argument) for argument in arguments]
                options = {str(keyword.arg): self._value(keyword.value) for keyword in keywords}
                made = self._called(node, function, values, options)
            case ast.Attribute(owner, name):
                found = self._value(owner)
                row = found if isinstance(found, StageEvent) else self.expression(owner)
                made = self._applied(node, lambda row: row.field(name), row)
            case _:
                raise self._error(node, "this is no expression over fields")
        return made

    def _joined(self, node: ast.expr, join: Callable[[Any, Any], Any], values: list[ast.expr]) -> Any:
        joined = self.expression(values[0])
        for value in values[1:]:
            joined = self._applied(node, join, joined, self.expression(value))
        return joined

    def _compared(self, node: ast.expr, left: ast.expr, ops: list[ast.cmpop], rights: list[ast.expr]) -> Any:
        """Return what ``a < b <= c`` says: ``a < b`` and ``b <= c``."""
        whole: Any = None
        for op, right in zip(ops, rights, strict=True):
            one = self._comparison(node, left, op, right)
            whole = one if whole is None else self._applied(node, operator.and_, whole, one)
            left = right
        return whole

    def _comparison(self, node: ast.expr, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Any:
        first = self.expression(left)
        match op, right:
            case ((ast.In() | ast.NotIn()), (ast.List() | ast.Tuple() | ast.Set())):
                values = [self._value(element) for element in right.elts]
                found = self._applied(node, lambda one: one.is_in(values), first)
                return found if isinstance(op, ast.In) else ~found
            case ast.Is(), ast.Constant(None):
                return first.is_null()
            case ast.IsNot(), ast.Constant(None):
                return first.is_not_null()
        if type(op) not in _OPERATORS:
            raise self._error(node, "in takes a list of values, and is takes None")
        return self._applied(node, _OPERATORS[type(op)], first, self.expression(right))

    def _called(self, node: ast.expr, function: ast.expr, values: list[Any], options: dict[str, Any]) -> Any:
        match function:
            case ast.Name(name):
                if name not in _FUNCTIONS:
                    raise self._error(node, f"there is no function {name!r}{alike(name, list(_FUNCTIONS))}")
                called = _FUNCTIONS[name]
            case ast.Attribute(ast.Name("Types"), name) if name in _TYPES:
                called = getattr(Types, name)
            case ast.Attribute(owner, name):
                called = self._method(node, self._value(owner), name)
            case _:
                raise self._error(node, "functions are called by their names")
        return self._applied(node, called, *values, **options)

    def _method(self, node: ast.expr, called: object, name: str) -> Callable[..., Any]:
        known = _METHODS_OF_CASES if isinstance(called, When) else _METHODS
        known = known | _METHODS_OF_CASES if isinstance(called, CaseWhen) else known
        known = _METHODS_OF_EVENTS if isinstance(called, StageEvent) else known
        if name not in known or not isinstance(called, Expression | Unfinished):
            raise self._error(node, f"there is no method {name!r}{alike(name, list(known))}")
        method: Callable[..., Any] = getattr(called, name)
        return method

    def _applied(self, node: ast.expr, function: Callable[..., Any], *values: Any, **options: Any) -> Any:
        """Apply a function; what that refuses is refused here in the text."""
        try:
            return function(*values, **options)
        except (HeadraceError, TypeError) as error:
            raise self._error(node, str(error).partition("\n")[0]) from None

    def _error(self, node: ast.expr, message: str) -> HeadraceError:
        before = self._line.encode()[: node.col_offset]
        return _refused(self._line, len(before.decode()), message)
