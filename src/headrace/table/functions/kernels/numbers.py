"""Numbers as Java computes them: integers wrap around, floats become the nearest that there is; and their functions."""

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import decimal_array
from headrace.table.functions.kernels import decimals
from headrace.table.functions.kernels.decimals import EXACT, WIDEST, cut_off, fitted, rescaled, rounded
from headrace.table.functions.kernels.kernel import (
    Datum,
    Invocation,
    Kernel,
    Numbers,
    constant,
    from_numpy,
    map_rows,
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
    found = pc.sign(operand)
    return converted(found if pa.types.is_floating(found.type) else found.cast(pa.int8()), call.storage)


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


_LN2: Final = 0.6931471805599453

_MOST_PLACES: Final = 60
"""No number has more digits behind the point that a rounding could change."""


def of_doubles(function: Callable[..., Datum]) -> Kernel:
    """A kernel of a function of Arrow; what is outside of its domain gives NaN, as in Java.

    NumPy's functions would differ by CPU in the last digit.
    """

    def compute(_: Invocation, *operands: Datum) -> Datum:
        return function(*(converted(operand, pa.float64()) for operand in operands))

    return compute


def _cot(angle: Datum) -> Datum:
    return pc.divide(1.0, pc.tan(angle))


def _log(first: Datum, *second: Datum) -> Datum:
    """The natural logarithm of one number; of two, that of the second to the base of the first."""
    return pc.divide(pc.ln(second[0]), pc.ln(first)) if second else pc.ln(first)


def _log2(number: Datum) -> Datum:
    return pc.divide(pc.ln(number), _LN2)


def _degrees(angle: Datum) -> Datum:
    return pc.multiply(angle, 180.0 / math.pi)


def _radians(angle: Datum) -> Datum:
    return pc.multiply(angle, math.pi / 180.0)


sin: Final = of_doubles(pc.sin)
cos: Final = of_doubles(pc.cos)
tan: Final = of_doubles(pc.tan)
cot: Final = of_doubles(_cot)
asin: Final = of_doubles(pc.asin)
acos: Final = of_doubles(pc.acos)
atan: Final = of_doubles(pc.atan)
atan2: Final = of_doubles(pc.atan2)
sinh: Final = of_doubles(pc.sinh)
cosh: Final = of_doubles(pc.cosh)
tanh: Final = of_doubles(pc.tanh)
degrees: Final = of_doubles(_degrees)
radians: Final = of_doubles(_radians)
exp: Final = of_doubles(pc.exp)
power: Final = of_doubles(pc.power)
sqrt: Final = of_doubles(pc.sqrt)
ln: Final = of_doubles(pc.ln)
log: Final = of_doubles(_log)
log10: Final = of_doubles(pc.log10)
log2: Final = of_doubles(_log2)


def pi(_: Invocation) -> Datum:
    """The ratio of a circle's circumference to its diameter."""
    return constant(math.pi, pa.float64())


def e(_: Invocation) -> Datum:
    """The base of natural logarithms."""
    return constant(math.e, pa.float64())


def _scaled(rounding: str) -> Kernel:
    """A kernel that leaves so many digits behind the point, or makes zeros of those before it."""

    def compute(call: Invocation, operand: Datum, digits: Datum | None = None) -> Datum:
        places = constant(0, pa.int32()) if digits is None else digits
        if isinstance(operand, pa.Array) and isinstance(places, pa.Scalar) and places.is_valid:
            count = places.as_py()
            if pa.types.is_decimal(operand.type) and count >= 0:
                return _of_decimals(operand, count, call.storage, rounding)
            if pa.types.is_float64(operand.type) and count >= 0:
                return _of_many_doubles(operand, count, rounding)
        return map_rows(_of_row(call.storage, rounding), call.storage, operand, places)

    return compute


def _of_decimals(column: pa.Array, places: int, storage: pa.DataType, rounding: str) -> pa.Array:
    if places >= column.type.scale:
        return column.cast(storage)
    if rounding == ROUND_HALF_UP and places == storage.scale:
        return rescaled(column, storage)
    wide = column.cast(pa.decimal256(WIDEST, column.type.scale))
    return rescaled((rounded if rounding == ROUND_HALF_UP else cut_off)(wide, places), storage)


def _of_many_doubles(column: pa.Array, places: int, rounding: str) -> pa.Array:
    values = to_numpy(column)
    whole, doubtful = scaled(values, places, np.rint if rounding == ROUND_HALF_UP else np.trunc)
    made = whole / 10.0 ** min(places, 22)
    rows = np.flatnonzero(doubtful)
    if len(rows):
        exactly = _of_row(column.type, rounding)
        made[rows] = [exactly(value, places) for value in values[rows].tolist()]
    return from_numpy(made, column.type, null_mask(column))


def _of_row(storage: pa.DataType, rounding: str) -> Callable[[float | Decimal, int], float | Decimal | None]:
    finish = _finisher(storage)

    def of_row(value: float | Decimal, places: int) -> float | Decimal | None:
        exact = _exact(value)
        if not exact.is_finite() or places > _MOST_PLACES:
            return value
        return finish(exact.quantize(Decimal(1).scaleb(-places), rounding, EXACT))

    return of_row


def _exact(value: float | Decimal) -> Decimal:
    """A number by its shortest text, as Java's BigDecimal.valueOf takes it."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _finisher(storage: pa.DataType) -> Callable[[Decimal], float | Decimal | None]:
    if pa.types.is_decimal(storage):
        return lambda value: fitted(value, storage)
    if pa.types.is_floating(storage):
        return float
    return lambda value: wrapped(int(value), storage.bit_width)


round_half_up: Final = _scaled(ROUND_HALF_UP)
truncate: Final = _scaled(ROUND_DOWN)
