"""Integers and floats as Java computes them: integers wrap around, floats become the nearest integer that there is."""

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import decimal_array
from headrace.table.functions.kernels import decimals
from headrace.table.functions.kernels.kernel import (
    Datum,
    Invocation,
    Numbers,
    constant,
    from_numpy,
    null_mask,
    on_arrays,
    to_numpy,
)

_RANGES: Final = {pa.int32(): (-(1 << 31), (1 << 31) - 1), pa.int64(): (-(1 << 63), (1 << 63) - 1)}


def converted(operand: Datum, storage: pa.DataType) -> Datum:
    """Numbers as numbers of another type, as Java converts them: the integers of fewer bits wrap around."""
    if operand.type.equals(storage):
        return operand
    if pa.types.is_decimal(operand.type):
        return _of_decimal(operand, storage)
    if pa.types.is_decimal(storage):
        return _to_decimal(operand, storage)
    if pa.types.is_floating(operand.type) and pa.types.is_integer(storage):
        return on_arrays(lambda column: _float_to_integer(column, storage))(operand)
    return operand.cast(storage, safe=False)


def _of_decimal(operand: Datum, storage: pa.DataType) -> Datum:
    if pa.types.is_decimal(storage):
        return decimals.rescaled(operand, storage)
    if pa.types.is_floating(storage):
        return decimals.to_double(operand).cast(storage, safe=False)
    return on_arrays(lambda column: _decimal_to_integer(column, storage))(operand)


def _decimal_to_integer(column: pa.Array, storage: pa.DataType) -> pa.Array:
    whole = pc.trunc(column)
    if column.type.precision - column.type.scale <= 18:
        return whole.cast(pa.int64()).cast(storage, safe=False)
    bits = storage.bit_width
    return pa.array([None if value is None else wrapped(int(value), bits) for value in whole.to_pylist()], storage)


def wrapped(value: int, bits: int) -> int:
    """The integer that the lowest bits of another are."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _to_decimal(operand: Datum, storage: pa.DataType) -> Datum:
    if not pa.types.is_floating(operand.type):
        return decimals.rescaled(decimals.as_decimal(operand), storage)
    return on_arrays(lambda column: _float_to_decimal(column, storage))(operand)


def _float_to_decimal(column: pa.Array, storage: pa.DataType) -> pa.Array:
    """Convert through the shortest text of a double, as Java's BigDecimal.valueOf does."""
    if column.type.equals(pa.float64()):
        return _doubles_to_decimal(column, storage)
    values = column.cast(pa.float64()).to_pylist()
    made = [
        None if value is None else decimals.fitted(decimals.EXACT.create_decimal(repr(value)), storage)
        for value in values
    ]
    return pa.array(made, storage)


def _doubles_to_decimal(column: pa.Array, storage: pa.DataType) -> pa.Array:
    """Doubles that are whole doubles when they are scaled; the others one by one."""
    values = to_numpy(column)
    whole, doubtful = scaled(values, storage.scale, np.rint)
    fits = np.abs(whole) < 10.0**storage.precision
    words = np.where(fits & ~doubtful, whole, 0).astype(np.int64)
    made = decimal_array(words, storage, column)
    exactly = doubtful & ~(column.is_null().to_numpy(zero_copy_only=False))
    rest = [decimals.fitted(decimals.EXACT.create_decimal(repr(value)), storage) for value in values[exactly].tolist()]
    made = pc.replace_with_mask(made, pa.array(exactly), pa.array(rest, storage))
    return pc.if_else(pa.array(fits | doubtful), made, constant(None, storage))


def _float_to_integer(column: pa.Array, storage: pa.DataType) -> pa.Array:
    """Towards zero; what is too large becomes the largest, which then loses bits when the type has fewer than 32."""
    between = storage if storage in _RANGES else pa.int32()
    values = to_numpy(column).astype(np.float64)
    low, high = _RANGES[between]
    with np.errstate(all="ignore"):
        whole = np.nan_to_num(np.trunc(values), nan=0.0).clip(float(low), None)
        over = whole >= float(high)
        made = np.where(over, 0, whole).astype(between.to_pandas_dtype())
    made[over] = high
    return from_numpy(made, between, null_mask(column)).cast(storage, safe=False)


def add(call: Invocation, left: Datum, right: Datum) -> Datum:
    """The sum of two numbers."""
    return pc.add(*_converted(call, left, right))


def subtract(call: Invocation, left: Datum, right: Datum) -> Datum:
    """The difference of two numbers."""
    return pc.subtract(*_converted(call, left, right))


def multiply(call: Invocation, left: Datum, right: Datum) -> Datum:
    """The product of two numbers."""
    return pc.multiply(*_converted(call, left, right))


def divide(call: Invocation, left: Datum, right: Datum) -> Datum:
    """The quotient of two numbers: towards zero for integers, and an error where the divisor is zero."""
    left, right = _converted(call, left, right)
    made = pc.divide(left, right)
    if not pa.types.is_integer(call.storage):
        return made
    # Arrow knows no quotient of the smallest integer and -1, which wraps around to itself.
    return pc.if_else(pc.equal(right, constant(-1, right.type)), pc.negate(left), made)


def _converted(call: Invocation, left: Datum, right: Datum) -> tuple[Datum, Datum]:
    return converted(left, call.storage), converted(right, call.storage)


def remainder(call: Invocation, left: Datum, right: Datum) -> Datum:
    """The remainder of a division, with the sign of the dividend; decimal operands count as BIGINT."""
    storage = call.storage
    if not left.type.equals(right.type):
        left, right = (
            converted(each, pa.int64()) if pa.types.is_decimal(each.type) else each for each in (left, right)
        )
    widest = max(left.type, right.type, key=lambda kind: int(kind.bit_width))
    return converted(on_arrays(_remainder)(converted(left, widest), converted(right, widest)), storage)


def _remainder(left: pa.Array, right: pa.Array) -> pa.Array:
    divisor = to_numpy(right, 1)
    mask = null_mask(left, right)
    if not np.all(divisor if mask is None else divisor[~mask]):
        raise pa.ArrowInvalid("divide by zero")
    if mask is not None:
        divisor = np.where(mask, 1, divisor)
    with np.errstate(all="ignore"):
        made = np.where(divisor == -1, 0, np.fmod(to_numpy(left), np.where(divisor == -1, 1, divisor)))
    return from_numpy(made.astype(left.type.to_pandas_dtype()), left.type, mask)


def negate(call: Invocation, operand: Datum) -> Datum:
    """The number with the other sign; the smallest integer is its own."""
    return pc.negate(converted(operand, call.storage))


def absolute(call: Invocation, operand: Datum) -> Datum:
    """The number without its sign; the smallest integer stays."""
    return pc.abs(converted(operand, call.storage))


def sign(call: Invocation, operand: Datum) -> Datum:
    """-1, 0 or 1, of the operand's type."""
    return converted(pc.sign(operand).cast(pa.int8()), call.storage)


def floor(call: Invocation, operand: Datum) -> Datum:
    """The largest whole number that is not above."""
    return _whole(pc.floor, call, operand)


def ceil(call: Invocation, operand: Datum) -> Datum:
    """The smallest whole number that is not below."""
    return _whole(pc.ceil, call, operand)


def _whole(function: Callable[..., Datum], call: Invocation, operand: Datum) -> Datum:
    if pa.types.is_integer(operand.type):
        return operand
    if not pa.types.is_decimal(operand.type):
        return function(operand)
    wide = function(operand.cast(pa.decimal256(decimals.WIDEST, operand.type.scale)))
    return decimals.rescaled(wide, call.storage)


# --- rounding ---------------------------------------------------------------------------------------------------------

_EXACT_POWER: Final = 22
"""The largest power of ten that is exactly a double."""

_EXACT_WHOLE: Final = 2.0**52
_LAST_BITS: Final = 2.0**-50


def scaled(values: Numbers, places: int, to_whole: Callable[[Numbers], Numbers]) -> tuple[Numbers, Numbers]:
    """Doubles times a power of ten as whole numbers, and a mask of those that are uncertain.

    A double and its shortest text differ by less than its last bits, which matters beside a border only: one half where
    numbers are rounded, a whole number where they are cut.

    Args:
        values: the doubles.
        places: the exponent of the power.
        to_whole: ``numpy.rint``, or ``numpy.trunc``.
    """
    if not 0 <= places <= _EXACT_POWER:
        return np.zeros_like(values), np.ones(len(values), bool)
    with np.errstate(all="ignore"):
        product = values * 10.0**places
        whole = to_whole(product)
        border = np.abs(product - np.rint(product))
        distance = np.abs(border - 0.5) if to_whole is np.rint else border
        certain = (distance > np.abs(product) * _LAST_BITS) & (np.abs(product) < _EXACT_WHOLE)
    return whole, ~(certain | ((product == whole) & (places == 0)))
