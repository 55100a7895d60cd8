"""Functions of numbers. Integers give ``LONG``, where overflow is an error; whatever has a float in it ``DOUBLE``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import Types
from headrace.expressions.functions import INTEGER, NUMBER, TEXT, Datum, Function, Kernel, Overload
from headrace.expressions.text import concat

_LOWEST: Final = np.iinfo(np.int64).min


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
    return value if digits >= 0 else pc.round(value, ndigits=digits, round_mode="half_to_even")


def _rounded(value: Datum, *, digits: int) -> Datum:
    """By numpy, as Arrow's powers of ten are not exact: to -17 digits it rounds 2.5e17 to 2.99999996e17."""
    if isinstance(value, pa.Scalar):
        return _rounded(pa.array([value.as_py()], value.type), digits=digits)[0]
    numbers = _numpy(value)
    # Numbers of more than 52 bits are whole, and scaling them might take them out of range.
    is_whole = (np.abs(numbers) >= 2.0**52) & (digits >= 0)
    with np.errstate(all="ignore"):
        made = np.where(is_whole, numbers, np.round(np.where(is_whole, 0.0, numbers), digits))
    return pa.array(made, value.type, mask=_numpy(value.is_null()))


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
