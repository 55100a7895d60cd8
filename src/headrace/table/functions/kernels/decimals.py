"""Decimals: Arrow's, with Java's rounding (half up), and NULL where a result has too many digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import decimal_array, unscaled_words
from headrace.table.functions.kernels.kernel import (
    Datum,
    Invocation,
    constant,
    from_numpy,
    map_rows,
    null_mask,
    on_arrays,
)

_NARROW: Final = 36
"""Sums and products of decimals of fewer digits together fit into 128 bits."""

WIDEST: Final = 76
"""The most digits that Arrow computes with."""

EXACT: Final = Context(prec=800, rounding=ROUND_HALF_UP)
"""The context in which sums and products of decimals are exact."""

DIVISION: Final = Context(prec=38, rounding=ROUND_HALF_UP)
"""The context in which quotients have as many digits as Flink's."""

_INTEGER_DIGITS: Final = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}

_EXACT_POWER: Final = 22
"""The largest power of ten that is exactly a double."""

_EXACT_WHOLE: Final = 1 << 53
"""Below it all integers are doubles."""


def as_decimal(operand: Datum) -> Datum:
    """An integer as a decimal of as many digits as its type has; a decimal as it is."""
    digits = _INTEGER_DIGITS.get(operand.type)
    return operand if digits is None else operand.cast(pa.decimal128(digits, 0))


def rescaled(operand: Datum, storage: pa.DataType) -> Datum:
    """Decimals with other digits: rounded half up, NULL where there are too many before the point."""
    kind = operand.type
    if kind.equals(storage):
        return operand
    if kind.scale <= storage.scale and kind.precision - kind.scale <= storage.precision - storage.scale:
        return operand.cast(storage)
    made = _by_words(operand, storage) if isinstance(operand, pa.Array) and pa.types.is_decimal128(kind) else None
    if made is not None:
        return made
    wide = operand.cast(pa.decimal256(WIDEST, kind.scale))
    return _fitting(rounded(wide, storage.scale) if kind.scale > storage.scale else wide, storage)


def rounded(wide: Datum, places: int) -> Datum:
    """Decimals of 256 bits, rounded half up to fewer digits behind the point."""
    return pc.round(cut_off(wide, places + 1), ndigits=places, round_mode="half_towards_infinity")


def cut_off(wide: Datum, places: int) -> Datum:
    """Decimals of 256 bits without the digits behind so many behind the point.

    Arrow's quotient of 256 bits and a divisor of more than 32 bits may be one too small, so few digits go at a time.
    """
    for scale in (*range(wide.type.scale - _DIGITS_AT_A_TIME, places, -_DIGITS_AT_A_TIME), places):
        wide = pc.cast(wide, pa.decimal256(WIDEST, scale), safe=False)
    return wide


_DIGITS_AT_A_TIME: Final = 9


def _by_words(column: pa.Array, storage: pa.DataType) -> pa.Array | None:
    """The same by integers of 64 bits; None where these do not hold the digits."""
    values, fits = unscaled_words(column)
    shift = storage.scale - column.type.scale
    largest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    if abs(shift) > _LARGEST_POWER or not fits.all() or largest * 10 ** max(shift, 0) >= 1 << 62:
        return None
    step = 10 ** abs(shift)
    made = values * step if shift >= 0 else np.sign(values) * ((np.abs(values) + step // 2) // step)
    limit = 10**storage.precision
    found = decimal_array(made, storage, column)
    if limit >= 1 << 62 or not len(made) or int(np.abs(made).max()) < limit:
        return found
    return pc.if_else(pa.array(np.abs(made) < limit), found, constant(None, storage))


_LARGEST_POWER: Final = 18
"""Ten to this power is an integer of 64 bits, and to no larger one."""


def _fitting(wide: Datum, storage: pa.DataType) -> Datum:
    digits = storage.precision - storage.scale
    if digits + wide.type.scale >= WIDEST:
        return wide.cast(storage)  # Arrow has none beyond the limit
    limit = constant(Decimal(10) ** digits, wide.type)
    fits = pc.less(pc.abs(wide), limit)
    return pc.if_else(fits, wide, constant(None, wide.type)).cast(storage)


def add(call: Invocation, left: Datum, right: Datum) -> Datum:
    """The sum of two decimals."""
    return _added("+", pc.add, EXACT.add, call, left, right)


def subtract(call: Invocation, left: Datum, right: Datum) -> Datum:
    """The difference of two decimals."""
    return _added("-", pc.subtract, EXACT.subtract, call, left, right)


def multiply(call: Invocation, left: Datum, right: Datum) -> Datum:
    """The product of two decimals."""
    left, right = as_decimal(left), as_decimal(right)
    made = _by_integers("*", call, left, right)
    if made is not None:
        return made
    if left.type.precision + right.type.precision < WIDEST:
        return _by_arrow(pc.multiply, call, left, right)
    return _by_python(EXACT.multiply, call, left, right)


def _added(
    function: str,
    by_arrow: Callable[..., Datum],
    by_python: Callable[..., Decimal],
    call: Invocation,
    left: Datum,
    right: Datum,
) -> Datum:
    left, right = as_decimal(left), as_decimal(right)
    made = _by_integers(function, call, left, right)
    if made is not None:
        return made
    scale = max(left.type.scale, right.type.scale)
    if max(each.type.precision - each.type.scale for each in (left, right)) + scale >= WIDEST:
        return _by_python(by_python, call, left, right)
    return _by_arrow(by_arrow, call, left, right)


def _by_integers(function: str, call: Invocation, left: Datum, right: Datum) -> Datum | None:
    one, other = DecimalIntegers.of(left), DecimalIntegers.of(right)
    if one is None or other is None:
        return None
    found = one.combined(function, other, call.storage.scale)
    return None if found is None else decimals_of(found, call.storage, left, right)


_MOST: Final = 1 << 62
"""Integers below it, and their sums, are of 64 bits."""

BY_INTEGERS: Final[dict[str, Callable[..., Any]]] = {"+": np.add, "-": np.subtract, "*": np.multiply}
"""The functions of two decimals that integers of 64 bits may compute."""


@dataclass(frozen=True, slots=True)
class DecimalIntegers:
    """Decimals as integers of 64 bits.

    Attributes:
        values: their digits, 0 for NULL; of a constant, one integer.
        scale: the number of digits behind the point.
        most: no value is further from 0.
    """

    values: Any
    scale: int
    most: int

    @staticmethod
    def of(operand: Datum) -> DecimalIntegers | None:
        """The integers of decimals; None where these do not hold them, and for a constant NULL."""
        scale = operand.type.scale
        if isinstance(operand, pa.Scalar):
            value = int(operand.as_py().scaleb(scale)) if operand.is_valid else _MOST
            return DecimalIntegers(np.int64(value), scale, abs(value)) if abs(value) < _MOST else None
        if not pa.types.is_decimal128(operand.type) or not len(operand):
            return None
        words, fits = unscaled_words(operand)
        if not fits.all():
            return None
        values = np.ascontiguousarray(words)
        return DecimalIntegers(values, scale, max(int(values.max()), -int(values.min())))

    def combined(self, function: str, other: DecimalIntegers, scale: int) -> DecimalIntegers | None:
        """A function of these and others; None where 64 bits may not hold the results, or digits would be rounded off.

        Args:
            function: one of :data:`BY_INTEGERS`.
            other: the other operand.
            scale: the number of digits behind the point of the result.
        """
        if function == "*":
            most = self.most * other.most
            if self.scale + other.scale != scale or most >= _MOST:
                return None
            return DecimalIntegers(self.values * other.values, scale, most)
        one, two = self._scaled(scale), other._scaled(scale)
        if one is None or two is None or one.most + two.most >= _MOST:
            return None
        return DecimalIntegers(BY_INTEGERS[function](one.values, two.values), scale, one.most + two.most)

    def _scaled(self, scale: int) -> DecimalIntegers | None:
        """The same with more digits behind the point; None where 64 bits do not hold them."""
        if scale == self.scale:
            return self
        places = scale - self.scale
        if not 0 < places <= _LARGEST_POWER or self.most * 10**places >= _MOST:
            return None
        return DecimalIntegers(self.values * 10**places, scale, self.most * 10**places)


def decimals_of(found: DecimalIntegers, storage: pa.DataType, *operands: Datum) -> Datum:
    """Decimals with these digits, NULL where an operand is, and where there are too many digits."""
    values, limit = found.values, 10**storage.precision
    if not isinstance(values, np.ndarray) or not values.ndim:
        return constant(fitted(Decimal(int(values)).scaleb(-storage.scale), storage), storage)
    arrays = [each for each in operands if isinstance(each, pa.Array)]
    with_nulls = [each for each in arrays if each.null_count]
    made = decimal_array(values, storage, (with_nulls or arrays)[0])
    for each in with_nulls[1:]:
        made = pc.if_else(pc.is_valid(each), made, constant(None, storage))
    if found.most < limit or int(np.abs(values).max()) < limit:
        return made
    return pc.if_else(pa.array(np.abs(values) < limit), made, constant(None, storage))


def _by_arrow(function: Callable[..., Datum], call: Invocation, left: Datum, right: Datum) -> Datum:
    left, right = as_decimal(left), as_decimal(right)
    if left.type.precision + right.type.precision >= _NARROW:
        left, right = _widened(left), _widened(right)
    return rescaled(function(left, right), call.storage)


def _widened(operand: Datum) -> Datum:
    return operand.cast(pa.decimal256(operand.type.precision, operand.type.scale))


def divide(call: Invocation, left: Datum, right: Datum) -> Datum:
    """The quotient of two decimals, of at most 38 digits before it is rounded to the scale of the result."""
    left, right = as_decimal(left), as_decimal(right)
    if isinstance(left, pa.Array) and isinstance(right, pa.Scalar) and right.is_valid:
        made = _divided_by_constant(left, right, call.storage)
        if made is not None:
            return made
    return _by_python(_quotient, call, left, right)


def _divided_by_constant(left: pa.Array, right: pa.Scalar, storage: pa.DataType) -> pa.Array | None:
    """Quotients by whole numbers of 64 bits; None where these do not hold all that comes between."""
    divisor = int(right.as_py().scaleb(right.type.scale))
    shift = storage.scale - left.type.scale + right.type.scale
    values, fits = unscaled_words(left)
    largest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    if divisor == 0 or shift < 0 or not fits.all() or max(largest, abs(divisor)) * 10**shift * 2 >= 1 << 62:
        return None
    scaled = np.abs(values) * 10**shift
    whole = (2 * scaled + abs(divisor)) // (2 * abs(divisor))
    signs = np.where((values < 0) != (divisor < 0), -1, 1)
    return decimal_array(whole * signs, storage, left)


def remainder(call: Invocation, left: Datum, right: Datum) -> Datum:
    """The remainder of a division to an integer, with the sign of the dividend."""
    return _by_python(_remainder, call, left, right)


def _quotient(left: Decimal, right: Decimal) -> Decimal:
    if not right:
        raise ValueError("division by zero")
    return DIVISION.divide(left, right)


def _remainder(left: Decimal, right: Decimal) -> Decimal:
    if not right:
        raise ValueError("division by zero")
    return EXACT.remainder(left, right)


def _by_python(function: Callable[..., Decimal], call: Invocation, left: Datum, right: Datum) -> Datum:
    storage = call.storage

    def compute(first: Decimal, second: Decimal) -> Decimal | None:
        return fitted(function(first, second), storage)

    return map_rows(compute, storage, as_decimal(left), as_decimal(right))


def fitted(value: Decimal, storage: pa.DataType) -> Decimal | None:
    """A decimal with the digits that a type has behind the point; None when it has too many before it."""
    rounded = EXACT.quantize(value, Decimal(1).scaleb(-storage.scale)) if value.is_finite() else None
    return (
        None if rounded is None or rounded.copy_abs() >= Decimal(10) ** (storage.precision - storage.scale) else rounded
    )


def to_double(operand: Datum) -> Datum:
    """The doubles nearest to decimals."""
    return on_arrays(_to_double)(operand)


def _to_double(column: pa.Array) -> pa.Array:
    unscaled, fits = unscaled_words(column)
    scale = column.type.scale
    if scale <= _EXACT_POWER and np.all(fits & (np.abs(unscaled) < _EXACT_WHOLE)):
        return from_numpy(unscaled / 10.0**scale, pa.float64(), null_mask(column))
    return pa.array([None if value is None else float(value) for value in column.to_pylist()], pa.float64())
