"""Operators: arithmetic, comparisons, logic. Their names are Calcite's."""

from collections.abc import Callable
from typing import Final

from headrace.common.logical_types import (
    ArrayType,
    AtomicType,
    IntervalType,
    IntervalUnit,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
)
from headrace.table.functions.definitions import CallShape, FunctionDefinition, Signature, TypeRule
from headrace.table.functions.kernels.table import OPERATORS as KERNELS
from headrace.table.functions.rules import (
    ANY,
    CONDITION,
    CONDITION_RESULT,
    NUMERIC,
    TEXT,
    always,
    an_interval,
    anyone_nullable,
    compared,
    either,
    like_argument,
    one_of,
    takes,
)
from headrace.table.functions.types import (
    BOOLEAN,
    CHARACTERS,
    DATETIMES,
    EXACTS,
    INTEGERS,
    NUMERICS,
    R,
    added,
    as_decimal,
    divided,
    interval_sum,
    is_in,
    least_restrictive,
    multiplied,
    remainder,
    root_of,
    size_of,
    with_nullability,
)

Combine = Callable[[tuple[int, int], tuple[int, int]], AtomicType]


def _arithmetic(combine: Combine) -> Callable[[CallShape], Signature | None]:
    """Numbers of two types: decimals have a rule for each operator, all others become the larger type."""

    def rule(shape: CallShape) -> Signature | None:
        if len(shape.operands) != 2 or not all(is_in(kind, NUMERICS) for kind in shape.types):
            return None
        left, right = shape.types
        nullable = anyone_nullable(shape)
        if R.DECIMAL in (root_of(left), root_of(right)) and all(is_in(kind, EXACTS) for kind in shape.types):
            one, other = as_decimal(left), as_decimal(right)
            assert one is not None
            assert other is not None
            types = tuple(_decimal_of(kind) for kind in shape.types)
            return Signature(types, with_nullability(combine(one, other), nullable))
        kind = least_restrictive(shape.types)
        assert kind is not None
        types = tuple(with_nullability(kind, each.nullable) for each in shape.types)
        return Signature(types, with_nullability(kind, nullable))

    return rule


def _decimal_of(kind: LogicalType) -> LogicalType:
    digits = as_decimal(kind)
    assert digits is not None
    return AtomicType(R.DECIMAL, *digits, nullable=kind.nullable)


def _modulo(shape: CallShape) -> Signature | None:
    """The type of a remainder: for whole numbers, that of the divisor."""
    if len(shape.operands) != 2 or not all(is_in(kind, EXACTS) for kind in shape.types):
        return None
    one, other = (as_decimal(kind) for kind in shape.types)
    assert one is not None
    assert other is not None
    nullable = anyone_nullable(shape)
    if one[1] == other[1] == 0:
        return Signature(shape.types, with_nullability(shape.types[1], nullable))
    types = tuple(_decimal_of(kind) for kind in shape.types)
    return Signature(types, with_nullability(remainder(one, other), nullable))


def _shifted(shape: CallShape) -> Signature | None:
    """A date or time and an interval, in either order for ``+``."""
    if len(shape.operands) != 2:
        return None
    moment = next((kind for kind in shape.types if is_in(kind, DATETIMES)), None)
    interval = next((kind for kind in shape.types if isinstance(kind, IntervalType)), None)
    if moment is None or interval is None:
        return None
    return Signature(shape.types, with_nullability(moment, anyone_nullable(shape)))


def _intervals(shape: CallShape) -> Signature | None:
    if len(shape.operands) != 2:
        return None
    left, right = shape.types
    if not isinstance(left, IntervalType) or not isinstance(right, IntervalType):
        return None
    kind = interval_sum(left, right)
    return None if kind is None else Signature(shape.types, with_nullability(kind, anyone_nullable(shape)))


def _scaled(shape: CallShape) -> Signature | None:
    """An interval times a whole number."""
    found = _scaled_by_any(shape)
    return found if any(is_in(kind, INTEGERS) for kind in shape.types) else None


def _scaled_by_any(shape: CallShape) -> Signature | None:
    """An interval times any number."""
    if len(shape.operands) != 2:
        return None
    interval = next((kind for kind in shape.types if isinstance(kind, IntervalType)), None)
    if interval is None or not any(is_in(kind, NUMERICS) for kind in shape.types):
        return None
    return Signature(shape.types, with_nullability(interval, anyone_nullable(shape)))


def _shrunk(shape: CallShape) -> Signature | None:
    """An interval divided by a number."""
    return _scaled_by_any(shape) if shape.types and isinstance(shape.types[0], IntervalType) else None


def _shifted_back(shape: CallShape) -> Signature | None:
    """A date or time less an interval."""
    return _shifted(shape) if len(shape.types) == 2 and isinstance(shape.types[1], IntervalType) else None


def _difference(shape: CallShape) -> Signature | None:
    """``(a - b) SECOND``: the interval between two points in time; the unit is an option."""
    if len(shape.operands) != 2 or not all(is_in(kind, DATETIMES) for kind in shape.types):
        return None
    if root_of(shape.types[0]) is not root_of(shape.types[1]):
        return None
    unit = dict(shape.options).get("unit", IntervalUnit.DAY_TO_SECOND)
    return Signature(shape.types, IntervalType(unit, nullable=anyone_nullable(shape)))


def _comparison(shape: CallShape) -> Signature | None:
    if len(shape.operands) != 2:
        return None
    types = compared(shape.types)
    return None if types is None else Signature(types, with_nullability(BOOLEAN, any(map(_may_be_null, shape.types))))


def _may_be_null(kind: LogicalType) -> bool:
    """Return whether a comparison with a value may be unknown; that with a row is so with its fields."""
    return kind.nullable or (isinstance(kind, RowType) and any(map(_may_be_null, kind.types)))


def _distinctness(shape: CallShape) -> Signature | None:
    found = _comparison(shape)
    return None if found is None else Signature(found.operands, BOOLEAN.not_null())


def _concatenated(shape: CallShape) -> Signature | None:
    """The lengths add up, and CHAR stays CHAR."""
    if len(shape.operands) != 2:
        return None
    left, right = shape.types
    families = [CHARACTERS if is_in(kind, CHARACTERS) else frozenset({R.BINARY, R.VARBINARY}) for kind in shape.types]
    if not all(is_in(kind, families[0]) for kind in shape.types):
        return None
    fixed, variable = (R.CHAR, R.VARCHAR) if families[0] is CHARACTERS else (R.BINARY, R.VARBINARY)
    root = fixed if root_of(left) is root_of(right) is fixed else variable
    length = min(2**31 - 1, size_of(left) + size_of(right))
    return Signature(shape.types, AtomicType(root, length, nullable=anyone_nullable(shape)))


_LOGIC: Final = takes(CONDITION, CONDITION, result=CONDITION_RESULT, variadic=True)
_PATTERN: Final = takes(TEXT, TEXT, TEXT, optional=1, result=CONDITION_RESULT)


def _arrays(shape: CallShape) -> Signature | None:
    """Arrays one behind the other."""
    if len(shape.operands) != 2 or not all(isinstance(kind, ArrayType) for kind in shape.types):
        return None
    joint = least_restrictive(shape.types)
    if joint is None:
        return None
    types = tuple(with_nullability(joint, kind.nullable) for kind in shape.types)
    return Signature(types, with_nullability(joint, anyone_nullable(shape)))


_SIGN: Final = takes(either(NUMERIC, an_interval), result=like_argument())


def _define(name: str, rule: TypeRule, usage: str, late: TypeRule | None = None) -> FunctionDefinition:
    return FunctionDefinition(name, rule, kernel=KERNELS[name], usage=usage, late=late)


def _ordered(shape: CallShape) -> Signature | None:
    """The comparison of values that have an order."""
    has_none = any(isinstance(kind, ArrayType | MapType | MultisetType) for kind in shape.types)
    return None if has_none else _comparison(shape)


OPERATORS: Final = (
    _define("+", one_of(_arithmetic(added), _shifted, _intervals, _SIGN), "number + number, time + interval"),
    _define("-", one_of(_arithmetic(added), _shifted_back, _intervals, _SIGN), "number - number, time - interval"),
    _define("*", one_of(_arithmetic(multiplied), _scaled), "number * number, interval * integer", late=_scaled_by_any),
    _define("/", one_of(_arithmetic(divided), _shrunk), "number / number, interval / number"),
    _define("MOD", _modulo, "exact number % exact number"),
    _define("MINUS_DATE", _difference, "(time - time) unit"),
    _define("||", _concatenated, "text || text, binary || binary", late=_arrays),
    *(_define(name, _comparison, f"a {name} b, of types that can be compared") for name in ("=", "<>")),
    *(
        _define(name, _ordered, f"a {name} b, of types that can be compared", late=_comparison)
        for name in ("<", "<=", ">", ">=")
    ),
    *(
        _define(name, _distinctness, f"a {name} b, of types that can be compared")
        for name in ("IS DISTINCT FROM", "IS NOT DISTINCT FROM")
    ),
    _define("AND", _LOGIC, "condition AND condition"),
    _define("OR", _LOGIC, "condition OR condition"),
    _define("NOT", takes(CONDITION, result=CONDITION_RESULT), "NOT condition"),
    *(_define(f"IS {word}", takes(ANY, result=always(BOOLEAN)), f"value IS {word}") for word in ("NULL", "NOT NULL")),
    *(
        _define(f"IS {word}", takes(CONDITION, result=always(BOOLEAN)), f"condition IS {word}")
        for word in ("TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN", "NOT UNKNOWN")
    ),
    _define("LIKE", _PATTERN, "text LIKE pattern [ESCAPE character]"),
    _define("SIMILAR TO", _PATTERN, "text SIMILAR TO pattern [ESCAPE character]"),
)
