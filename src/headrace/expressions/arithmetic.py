"""Functions of numbers. Integers give ``LONG``, where overflow is an error; whatever has a float in it ``DOUBLE``."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import Types
from headrace.expressions.functions import INTEGER, NUMBER, TEXT, Datum, Function, Kernel, Overload
from headrace.expressions.text import concat

_LOWEST: Final = np.iinfo(np.int64).min

_INTEGER_DIGITS: Final = 18
"""Integers of so many digits fit, whatever the digits."""

_EXACT_POWER: Final = 22
"""The largest power of ten that is exactly a double."""

_EXACT_WHOLE: Final = 2.0**52
_LAST_BITS: Final = 2.0**-51


def _binary(integers: Kernel, floats: Kernel) -> tuple[Overload, ...]:
    return (
        Overload((INTEGER, INTEGER), Types.LONG(), integers),
        Overload((NUMBER, NUMBER), Types.DOUBLE(), floats),
    )


def _unary(integers: Kernel, floats: Kernel) -> tuple[Overload, ...]:
    return Overload((INTEGER,), Types.LONG(), integers), Overload((NUMBER,), Types.DOUBLE(), floats)


def _floats(kernel: Callable[..., Any]) -> Kernel:
    """A kernel of numpy over doubles; division by zero gives what IEEE 754 says."""

    def compute(left: Datum, right: Datum) -> Datum:
        return _by_numpy(kernel, left, right, np.nan)

    return compute


def _integers(kernel: Callable[..., Any]) -> Kernel:
    """A kernel of numpy over integers; division by zero is an error, and so is what does not fit."""

    def compute(left: Datum, right: Datum) -> Datum:
        return _by_numpy(kernel, left, right, 1)

    return compute


def _floor_divide(left: Any, right: Any) -> Any:
    _refuse_zero(right)
    if np.any((left == _LOWEST) & (right == -1)):
        raise pa.ArrowInvalid("overflow")
    return np.floor_divide(left, right)


def _remainder(left: Any, right: Any) -> Any:
    _refuse_zero(right)
    return np.remainder(left, right)


def _refuse_zero(divisor: Any) -> None:
    if not np.all(divisor):
        raise pa.ArrowInvalid("divide by zero")


def _by_numpy(kernel: Callable[..., Any], left: Datum, right: Datum, neutral: Any) -> Datum:
    """Pairs with a null in them are computed of a neutral value, and made null."""
    is_scalar = isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar)
    valid = pc.and_(pc.is_valid(left), pc.is_valid(right))
    left, right = (pc.if_else(valid, side, pa.scalar(neutral, side.type)) for side in (left, right))
    with np.errstate(all="ignore"):
        computed = kernel(_numpy(left), _numpy(right))
    if is_scalar:
        return pa.scalar(computed.item() if valid.as_py() else None, left.type)
    return pa.array(computed, left.type, mask=np.logical_not(_numpy(valid)))


def _numpy(datum: Datum) -> Any:
    return np.asarray(datum.as_py()) if isinstance(datum, pa.Scalar) else datum.to_numpy(zero_copy_only=False)


def _as_it_is(value: Datum) -> Datum:
    return value


def _whole(value: Datum, *, digits: int) -> Datum:
    if digits >= 0:
        return value
    if digits >= -_INTEGER_DIGITS:
        return pc.round(value, ndigits=digits, round_mode="half_to_even")
    if digits < -_INTEGER_DIGITS - 1 or not np.any(_beyond_half(value)):
        return pc.multiply(value, 0)
    raise pa.ArrowInvalid("overflow")


def _beyond_half(value: Datum) -> Any:
    """Which integers are nearer to 10 ** 19 than to zero."""
    half = 5 * 10**_INTEGER_DIGITS
    return _numpy(pc.coalesce(pc.or_(pc.greater(value, half), pc.less(value, -half)), False))


def _rounded(value: Datum, *, digits: int) -> Datum:
    """As Python rounds: what counts is the number that a float is, not the one that it is written as."""
    if not digits:
        return pc.round(value, round_mode="half_to_even")
    if isinstance(value, pa.Scalar):
        return pa.scalar(_rounded_number(value.as_py(), digits) if value.is_valid else None, value.type)
    numbers = value.fill_null(0).to_numpy()
    with np.errstate(all="ignore"):
        rounded, doubtful = _rounded_by_scaling(numbers, digits)
    for row in np.flatnonzero(doubtful).tolist():
        rounded[row] = _rounded_number(float(numbers[row]), digits)
    return pa.array(rounded, value.type, mask=value.is_null().to_numpy(zero_copy_only=False))


def _rounded_by_scaling(numbers: Any, digits: int) -> tuple[Any, Any]:
    """The rounded numbers, and for which of them that is not certain."""
    if abs(digits) > _EXACT_POWER:
        return np.zeros_like(numbers), np.ones(len(numbers), dtype=bool)
    power = 10.0 ** abs(digits)
    scaled = numbers * power if digits > 0 else numbers / power
    whole = np.rint(scaled)
    # Scaling errs by half of the last bit at most, which can only matter beside what is halfway.
    certain = np.abs(np.abs(scaled - whole) - 0.5) > np.abs(scaled) * _LAST_BITS
    certain &= np.abs(scaled) < _EXACT_WHOLE
    rounded = whole / power if digits > 0 else whole * power
    return rounded, ~(certain & (np.abs(rounded) < _EXACT_WHOLE))


def _rounded_number(number: float, digits: int) -> float:
    try:
        return round(number, digits) if isfinite(number) else number
    except OverflowError:
        raise pa.ArrowInvalid("overflow") from None


FUNCTIONS: Final[dict[str, Function]] = {
    "add": Function((*_binary(pc.add_checked, pc.add), Overload((TEXT, TEXT), Types.STRING(), concat))),
    "subtract": Function(_binary(pc.subtract_checked, pc.subtract)),
    "multiply": Function(_binary(pc.multiply_checked, pc.multiply)),
    "divide": Function((Overload((NUMBER, NUMBER), Types.DOUBLE(), pc.divide),)),
    "floor_divide": Function(_binary(_integers(_floor_divide), _floats(np.floor_divide))),
    "modulo": Function(_binary(_integers(_remainder), _floats(np.remainder))),
    "negate": Function(_unary(pc.negate_checked, pc.negate)),
    "abs": Function(_unary(pc.abs_checked, pc.abs)),
    "round": Function(_unary(_whole, _rounded)),
    "floor": Function(_unary(_as_it_is, pc.floor)),
    "ceil": Function(_unary(_as_it_is, pc.ceil)),
    "sqrt": Function((Overload((NUMBER,), Types.DOUBLE(), pc.sqrt),)),
    "power": Function((Overload((NUMBER, NUMBER), Types.DOUBLE(), pc.power),)),
}
"""By name."""
