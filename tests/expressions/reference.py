"""Expressions computed record by record in plain Python: what the kernels have to agree with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from headrace.common import TypeInformation, Types
from headrace.expressions import bind
from headrace.expressions.tree import Alias, CaseWhen, Column, Expression, FunctionCall, LiteralValue

TYPES = {
    "i": Types.LONG(),
    "j": Types.INT(),
    "x": Types.DOUBLE(),
    "f": Types.FLOAT(),
    "s": Types.STRING(),
    "t": Types.STRING(),
    "b": Types.BOOLEAN(),
    "c": Types.BOOLEAN(),
}
RECORD = Types.ROW_NAMED(list(TYPES), list(TYPES.values()))

LOWEST, HIGHEST = -(2**63), 2**63 - 1


class NoValueError(Exception):
    """The record has no value."""


def type_of(expression: Expression) -> TypeInformation:
    """The type of an expression over these records."""
    return bind(expression, RECORD).type


def value_of(expression: Expression, record: dict[str, Any]) -> Any:
    """The value of an expression for one record; None is null."""
    if isinstance(expression, Column):
        return record[str(expression.key)]
    if isinstance(expression, LiteralValue):
        return expression.value
    if isinstance(expression, Alias):
        return value_of(expression.argument, record)
    if isinstance(expression, CaseWhen):
        value = _case(expression, record)
    else:
        assert isinstance(expression, FunctionCall)
        value = _called(expression, record)
    # What is a double for some records is one for all.
    return float(value) if type(value) is int and type_of(expression) == Types.DOUBLE() else value


def _called(expression: FunctionCall, record: dict[str, Any]) -> Any:
    values = [value_of(argument, record) for argument in expression.arguments]
    if expression.function in _OF_NULLS:
        return _OF_NULLS[expression.function](*values)
    if any(value is None for value in values):
        return None
    return _OF_VALUES[expression.function](*values, **dict(expression.options))


def _case(case: CaseWhen, record: dict[str, Any]) -> Any:
    for condition, value in case.branches:
        if value_of(condition, record):
            return value_of(value, record)
    return None if case.default is None else value_of(case.default, record)


def _and(left: Any, right: Any) -> Any:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: Any, right: Any) -> Any:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _is_in(value: Any, *members: Any) -> Any:
    if value is None:
        return None
    if any(member == value for member in members if member is not None):
        return True
    return None if None in members else False


def _between(value: Any, low: Any, high: Any) -> Any:
    above = None if None in (value, low) else value >= low
    below = None if None in (value, high) else value <= high
    return _and(above, below)


_OF_NULLS: dict[str, Callable[..., Any]] = {
    "and": _and,
    "or": _or,
    "is_in": _is_in,
    "between": _between,
    "is_null": lambda value: value is None,
    "is_not_null": lambda value: value is not None,
    "coalesce": lambda *values: next((value for value in values if value is not None), None),
}


def _number(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Integers stay integers of 64 bits; with a float in it everything is one."""

    def computed(left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int):
            return _checked(compute(left, right))
        return compute(float(left), float(right))

    return computed


def _checked(result: int) -> int:
    if not LOWEST <= result <= HIGHEST:
        raise NoValueError("overflow")
    return result


def _divided(left: Any, right: Any) -> float:
    left, right = float(left), float(right)
    if right == 0:
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)
    return left / right


def _whole(rounded: Callable[[float], int], value: float) -> float:
    """A double as IEEE 754 has it: what is rounded to zero keeps its sign."""
    return math.copysign(rounded(value), value)


def _floor_divided(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        if right == 0:
            raise NoValueError("division by zero")
        return _checked(left // right)
    left, right = float(left), float(right)
    return _divided(left, right) if right == 0 else left // right


def _modulo(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        _floor_divided(left, right)
        return left % right
    left, right = float(left), float(right)
    return math.nan if right == 0 or math.isinf(left) else left % right


def _added(left: Any, right: Any) -> Any:
    return left + right if isinstance(left, str) else _number(lambda one, other: one + other)(left, right)


def _comparing(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(left: Any, right: Any) -> bool:
        if float in (type(left), type(right)):
            left, right = float(left), float(right)
        return compare(left, right)

    return compared


def _substring(text: str, *, start: int, length: int | None) -> str:
    if length is None or start < 0 <= start + length:
        return text[start:]
    return text[start : start + length]


_OF_VALUES: dict[str, Callable[..., Any]] = {
    "add": _added,
    "subtract": _number(lambda left, right: left - right),
    "multiply": _number(lambda left, right: left * right),
    "divide": _divided,
    "floor_divide": _floor_divided,
    "modulo": _modulo,
    "negate": lambda value: _checked(-value) if isinstance(value, int) else -value,
    "abs": lambda value: _checked(abs(value)) if isinstance(value, int) else abs(value),
    "floor": lambda value: value if isinstance(value, int) or not math.isfinite(value) else _whole(math.floor, value),
    "ceil": lambda value: value if isinstance(value, int) or not math.isfinite(value) else _whole(math.ceil, value),
    "round": lambda value, digits: value if isinstance(value, int) or not math.isfinite(value) else round(value),
    "equal": _comparing(lambda left, right: left == right),
    "not_equal": _comparing(lambda left, right: left != right),
    "less": _comparing(lambda left, right: left < right),
    "less_equal": _comparing(lambda left, right: left <= right),
    "greater": _comparing(lambda left, right: left > right),
    "greater_equal": _comparing(lambda left, right: left >= right),
    "not": lambda value: not value,
    "is_nan": math.isnan,
    "upper": str.upper,
    "lower": str.lower,
    "strip": str.strip,
    "length": len,
    "substring": _substring,
    "contains": lambda text, pattern: pattern in text,
    "starts_with": lambda text, pattern: text.startswith(pattern),
    "ends_with": lambda text, pattern: text.endswith(pattern),
    "replace": lambda text, pattern, replacement: text.replace(pattern, replacement),
    "concat": lambda *texts: "".join(texts),
}
