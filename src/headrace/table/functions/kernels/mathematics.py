"""Functions of doubles, and rounding."""

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.table.functions.kernels import numbers
from headrace.table.functions.kernels.decimals import EXACT, WIDEST, fitted, rescaled
from headrace.table.functions.kernels.kernel import (
    Datum,
    Invocation,
    Kernel,
    constant,
    from_numpy,
    map_rows,
    null_mask,
    to_numpy,
)
from headrace.table.functions.kernels.numbers import scaled

_LN2: Final = 0.6931471805599453

_MOST_PLACES: Final = 60
"""No number has more digits behind the point that a rounding could change."""


def of_doubles(function: Callable[..., Datum]) -> Kernel:
    """A kernel of a function of Arrow; what is outside of its domain gives NaN, as in Java.

    NumPy's functions would differ by CPU in the last digit.
    """

    def compute(_: Invocation, *operands: Datum) -> Datum:
        return function(*(numbers.converted(operand, pa.float64()) for operand in operands))

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
    mode = "half_towards_infinity" if rounding == ROUND_HALF_UP else "towards_zero"
    wide = column.cast(pa.decimal256(WIDEST, column.type.scale))
    return rescaled(pc.round(wide, ndigits=places, round_mode=mode), storage)


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
    return lambda value: numbers.wrapped(int(value), storage.bit_width)


round_half_up: Final = _scaled(ROUND_HALF_UP)
truncate: Final = _scaled(ROUND_DOWN)
