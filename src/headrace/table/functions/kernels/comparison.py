"""Comparisons, three-valued logic, and conditional functions."""

from collections.abc import Callable, Sequence
from functools import reduce
from math import isnan, nan
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.table.functions.kernels import decimals, numbers
from headrace.table.functions.kernels.kernel import (
    BOOLEAN,
    TEXT,
    Datum,
    Invocation,
    Kernel,
    constant,
    is_constant,
    map_rows,
)

_NESTED: Final = (pa.types.is_list, pa.types.is_map, pa.types.is_struct)


def compared(function: Callable[[Datum, Datum], Datum], by_order: Callable[[int], bool]) -> Kernel:
    """A kernel that compares values of one kind; rows by their first different field, in which NULL is the smallest."""

    def compute(_: Invocation, left: Datum, right: Datum) -> Datum:
        if pa.types.is_struct(left.type):
            return map_rows(lambda *rows: by_order(_order_of(*rows)), BOOLEAN, left, right)
        return function(*aligned(left, right))

    return compute


def _order_of(left: Any, right: Any) -> int:
    """Less than, equal to or more than 0 as the left value is before, equal to or behind the right one."""
    if isinstance(left, dict) and isinstance(right, dict):
        pairs = zip(left.values(), right.values(), strict=True)
        return next((order for pair in pairs if (order := _order_of(*pair))), 0)
    if left is None or right is None:
        return (left is not None) - (right is not None)
    return int(left > right) - int(left < right)


def aligned(left: Datum, right: Datum) -> tuple[Datum, Datum]:
    """Two operands as values of one type, in which they are compared."""
    if left.type.equals(right.type):
        return left, right
    first, *rest = together([left, right])
    return first, rest[0]


def together(operands: Sequence[Datum]) -> list[Datum]:
    """Operands as values of one type that holds all of them."""
    common = reduce(_common, (operand.type for operand in operands))
    return [_as(operand, common) for operand in operands]


def _common(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if left.equals(right) or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if pa.types.is_decimal(left) or pa.types.is_decimal(right):
        return _common_decimal(left, right)
    if pa.types.is_floating(left) != pa.types.is_floating(right):
        return left if pa.types.is_floating(left) else right  # as Java promotes a long to a float
    if not pa.types.is_primitive(left):
        return left
    return max(left, right, key=lambda kind: int(kind.bit_width))


def _common_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        return pa.float64()
    kinds = [decimals.as_decimal(constant(None, kind)).type for kind in (left, right)]
    scale = max(kind.scale for kind in kinds)
    digits = scale + max(kind.precision - kind.scale for kind in kinds)
    return pa.decimal128(digits, scale) if digits <= _OF_128_BITS else pa.decimal256(digits, scale)


_OF_128_BITS: Final = 38
"""The most digits of decimals of 128 bits."""


def _as(operand: Datum, common: pa.DataType) -> Datum:
    if operand.type.equals(common):
        return operand
    if pa.types.is_decimal(common):
        return decimals.as_decimal(operand).cast(common)
    if pa.types.is_floating(common) or pa.types.is_integer(common):
        return numbers.converted(operand, common)
    return operand.cast(common)


def _nested_or(function: Callable[[Datum, Datum], Datum], by_value: Callable[[Any, Any], bool]) -> Kernel:
    def compute(_: Invocation, left: Datum, right: Datum) -> Datum:
        if any(test(left.type) for test in _NESTED):
            return map_rows(lambda *values: by_value(*map(_comparable, values)), BOOLEAN, left, right)
        return function(*aligned(left, right))

    return compute


def _comparable(value: Any) -> Any:
    """A value of Python that equals another as SQL's do: maps whatever the order of their entries."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    return value


def _is_same(left: Any, right: Any) -> bool:
    """Return whether nested values are equal; an array with a NULL in it equals none, as in Flink."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and None not in left and all(map(_is_same, left, right))
    return bool(left == right)


equal: Final = _nested_or(pc.equal, _is_same)
not_equal: Final = _nested_or(pc.not_equal, lambda left, right: not _is_same(left, right))
less: Final = compared(pc.less, lambda order: order < 0)
less_equal: Final = compared(pc.less_equal, lambda order: order <= 0)
greater: Final = compared(pc.greater, lambda order: order > 0)
greater_equal: Final = compared(pc.greater_equal, lambda order: order >= 0)


def is_distinct(call: Invocation, left: Datum, right: Datum) -> Datum:
    """Return where two values differ, NULL being equal to NULL."""
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.if_else(both_null, constant(False, BOOLEAN), pc.fill_null(not_equal(call, left, right), True))


def is_not_distinct(call: Invocation, left: Datum, right: Datum) -> Datum:
    """Return where two values are equal, NULL being equal to NULL."""
    return pc.invert(is_distinct(call, left, right))


def is_in(call: Invocation, value: Datum, *members: Datum) -> Datum:
    """Return where a value equals one of the others: NULL where none equals it and one is NULL, or it is NULL."""
    if is_constant(*members) and len({value.type, *(member.type for member in members)}) == 1:
        return _is_in_set(value, [member.as_py() for member in members])
    return reduce(pc.or_kleene, (equal(call, value, member) for member in members))


def _is_in_set(value: Datum, members: list[Any]) -> Datum:
    if pa.types.is_floating(value.type):
        members = [member for member in members if member is None or not isnan(member)]
        value = pc.add(value, constant(0.0, value.type))  # a zero with a sign equals the one without
        members = [None if member is None else member + 0.0 for member in members]
    known = pa.array([member for member in members if member is not None], value.type)
    found = pc.is_in(value, value_set=known)
    other = None if len(known) < len(members) else False
    answer = pc.if_else(found, constant(True, BOOLEAN), constant(other, BOOLEAN))
    return pc.if_else(pc.is_valid(value), answer, constant(None, BOOLEAN))


def conjunction(_: Invocation, *operands: Datum) -> Datum:
    """``AND``: unknown only where no operand is false."""
    return reduce(pc.and_kleene, operands)


def disjunction(_: Invocation, *operands: Datum) -> Datum:
    """``OR``: unknown only where no operand is true."""
    return reduce(pc.or_kleene, operands)


def is_value(*, value: bool, negated: bool = False) -> Kernel:
    """A kernel of ``IS TRUE`` and its like, which are never NULL."""

    def compute(_: Invocation, operand: Datum) -> Datum:
        found = pc.fill_null(operand if value else pc.invert(operand), False)
        return pc.invert(found) if negated else found

    return compute


def greatest(_: Invocation, *operands: Datum) -> Datum:
    """The largest operand, NULL when one is NULL; NaN is above all numbers."""
    if pa.types.is_boolean(operands[0].type):
        return reduce(pc.or_, operands)
    same = together(operands)
    found = pc.max_element_wise(*same, skip_nulls=False)
    if not pa.types.is_floating(found.type):
        return found
    return pc.if_else(reduce(pc.or_, map(pc.is_nan, same)), pa.scalar(nan, found.type), found)


def least(_: Invocation, *operands: Datum) -> Datum:
    """The smallest operand, NULL when one is NULL."""
    if pa.types.is_boolean(operands[0].type):
        return reduce(pc.and_, operands)
    return pc.min_element_wise(*together(operands), skip_nulls=False)


def coalesce(call: Invocation, *operands: Datum) -> Datum:
    """The first operand that is not NULL."""
    storage = call.storage
    return pc.coalesce(*(_as(operand, storage) for operand in operands))


def choose(_: Invocation, condition: Datum, value: Datum, other: Datum) -> Datum:
    """One value where a condition is true, the other elsewhere."""
    return pc.if_else(pc.fill_null(condition, False), value, other)


def nullif(call: Invocation, value: Datum, other: Datum) -> Datum:
    """A value, NULL where it equals the other."""
    same = pc.fill_null(equal(call, value, other), False)
    return pc.if_else(same, pa.scalar(None, value.type), value)


def type_of(call: Invocation, _: Datum, in_full: Datum | None = None) -> Datum:
    """The type of a value, as Flink shows it, or as DDL has it."""
    kind = call.operands[0]
    return constant(kind.as_sql() if in_full is not None and in_full.as_py() else str(kind), TEXT)
