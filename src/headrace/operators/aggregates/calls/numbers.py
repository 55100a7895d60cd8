"""Sums and averages as in SQL: integers wrap around, decimals are exact, and a decimal that overflows is null."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import fixed_width, of_fixed_width, unscaled_words, validity
from headrace.common.typeinfo import Types
from headrace.operators.aggregates.aggregator import (
    ColumnAggregator,
    Fields,
    GroupedRows,
    Longs,
    differences,
    filled,
    running_sums,
)
from headrace.operators.aggregates.simple import IntegerTotal
from headrace.operators.aggregates.sums import variances
from headrace.state.runs.grouping import RowGroups, Segments

_LIMBS: Final = 4
_LIMB_BITS: Final = 32
_LIMB: Final = np.int64((1 << _LIMB_BITS) - 1)
_SIGN: Final = 63
_MOST: Final = 1 << 62
"""Sums below it are integers of 64 bits."""
_LIMIT: Final = divmod(10**38, 1 << 64)
"""The upper and the lower half of the smallest number with more than 38 digits."""


@dataclass(frozen=True, slots=True)
class WrappingSum(IntegerTotal, ColumnAggregator):
    """The sum of integers modulo 2**64; 0 for no values, which a separate count distinguishes from a sum of 0."""

    stored_name: ClassVar[str] = "WrappingSum"

    @property
    def fields(self) -> Fields:
        return ((f"sum({self.name})", Types.LONG()),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return [pa.array(rows.segments.reduce(np.add, filled(rows.column(self.column), np.int64)[0]))]


@dataclass(frozen=True, slots=True)
class DecimalSum(ColumnAggregator):
    """The exact sum of decimals, in limbs of 32 bits; the last one carries the sign and never overflows.

    The result has 38 digits, and is null on overflow; for no values it is 0.

    Attributes:
        scale: the scale of the decimals.
    """

    stored_name: ClassVar[str] = "DecimalSum"
    parameters: ClassVar[tuple[str, ...]] = ("name", "scale")
    is_scatterable: ClassVar[bool] = True
    scale: int

    @property
    def fields(self) -> Fields:
        return tuple((f"sum({self.name}).{place}", Types.LONG()) for place in range(_LIMBS))

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        column, segments = rows.column(self.column), rows.segments
        values, fits = unscaled_words(column) if len(column) else (None, None)
        if values is not None and fits is not None and fits.all():
            largest = max(int(values.max()), -int(values.min()))
            if largest * len(values) < _MOST:
                sums = segments.reduce(np.add, np.ascontiguousarray(values))
                return _columns([sums & _LIMB, sums >> _LIMB_BITS & _LIMB, sums >> _SIGN & _LIMB, sums >> _SIGN])
        return _summed(decimal_limbs(column), segments)

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return columns if segments.are_single else _summed([fixed_width(column) for column in columns], segments)

    def combine(self, older: list[pa.Array], newer: list[pa.Array]) -> list[pa.Array]:
        pairs = zip(older, newer, strict=True)
        return _columns(_carried([fixed_width(a) + fixed_width(b) for a, b in pairs]))

    def scan(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return _columns(_carried([running_sums(fixed_width(column), segments) for column in columns]))

    def of_ranges(self, columns: list[pa.Array], low: Longs, high: Longs) -> list[pa.Array]:
        return differences(self, columns, low, high)

    def negate(self, columns: list[pa.Array]) -> list[pa.Array]:
        return _columns(_carried([-fixed_width(column) for column in columns]))

    def is_reversible(self, columns: list[pa.Array]) -> bool:
        return True

    def result(self, columns: list[pa.Array]) -> pa.Array:
        return decimals_of([fixed_width(column) for column in columns], 38, self.scale)


def decimal_limbs(array: pa.Array) -> list[Longs]:
    """Decimals as 32-bit limbs, lowest first, with 0 for nulls; the last limb carries the sign."""
    data = array.buffers()[1]
    if data is None or not len(array):
        return [np.zeros(len(array), np.int64)] * _LIMBS
    words = np.frombuffer(data, np.uint32, count=len(array) * _LIMBS, offset=array.offset * 16).reshape(-1, _LIMBS)
    limbs = [words[:, place].astype(np.int64) for place in range(_LIMBS - 1)]
    limbs.append(words[:, -1].view(np.int32).astype(np.int64))
    valid = validity(array)
    return limbs if valid is None else [np.where(valid, limb, 0) for limb in limbs]


def decimals_of(limbs: list[Longs], precision: int, scale: int) -> pa.Array:
    """The inverse of :func:`decimal_limbs`; null where a number has more than 38 digits."""
    words = np.empty((len(limbs[0]), _LIMBS), np.uint32)
    for place, limb in enumerate(limbs):
        words[:, place] = limb.astype(np.uint32) if place == _LIMBS - 1 else limb
    fits = _have_digits(limbs)
    mask = None if fits.all() else pa.array(fits).buffers()[1]
    buffers = [mask, pa.py_buffer(np.ascontiguousarray(words))]
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(words), buffers)


def _have_digits(limbs: list[Longs]) -> npt.NDArray[np.bool_]:
    """Return whether each number has at most 38 digits."""
    is_negative = limbs[3] < 0
    if is_negative.any():
        limbs = [
            np.where(is_negative, other, limb) for limb, other in zip(limbs, _carried([-x for x in limbs]), strict=True)
        ]
    is_small = limbs[3] < (1 << (_LIMB_BITS - 1))
    high = np.where(is_small, limbs[3], 0) * (_LIMB + 1) + limbs[2]
    low = limbs[1].astype(np.uint64) * np.uint64(1 << _LIMB_BITS) + limbs[0].astype(np.uint64)
    found: npt.NDArray[np.bool_] = is_small & ((high < _LIMIT[0]) | ((high == _LIMIT[0]) & (low < _LIMIT[1])))
    return found


def _summed(limbs: Sequence[Longs], segments: RowGroups) -> list[pa.Array]:
    return _columns(_carried([segments.reduce(np.add, limb) for limb in limbs]))


def _carried(limbs: list[Longs]) -> list[Longs]:
    found, carry = [], np.zeros_like(limbs[0])
    for limb in limbs[:-1]:
        total = limb + carry
        found.append(total & _LIMB)
        carry = total >> _LIMB_BITS
    return [*found, limbs[-1] + carry]


def _columns(limbs: list[Longs]) -> list[pa.Array]:
    return [pa.array(limb) for limb in limbs]


def counted_sum(type_: pa.DataType, results: Sequence[pa.Array]) -> pa.Array:
    """A sum as values of a type, null where there was no value; integers wrap around."""
    return nulled(_as_type(results[0], type_), fixed_width(results[1]) > 0)


def sum_or_zero(type_: pa.DataType, results: Sequence[pa.Array]) -> pa.Array:
    """The same with 0 where there was no value."""
    return _as_type(results[0], type_).fill_null(0)


def average(type_: pa.DataType, results: Sequence[pa.Array]) -> pa.Array:
    """A sum divided by the number of its values: of integers towards 0, of decimals half up."""
    total, counts = results[0], fixed_width(results[1])
    has_values = counts > 0
    divisor = np.where(has_values, counts, 1)
    if pa.types.is_decimal(type_):
        return nulled(_decimal_quotients(total, divisor, type_), has_values)
    numbers = fixed_width(total)
    if numbers.dtype.kind == "f":
        return of_fixed_width(numbers / divisor, has_values, pa.float64()).cast(type_)
    quotients = np.abs(numbers) // divisor * np.sign(numbers)
    return _as_type(of_fixed_width(quotients, has_values, pa.int64()), type_)


def variance(
    type_: pa.DataType,
    is_sample: bool,
    is_root: bool,
    results: Sequence[pa.Array],
) -> pa.Array:
    """The variance of values, or of a sample of them, or its root.

    A decimal that overflows is null; an integer stays at the end of its range.
    """
    fewest = 2 if is_sample else 1
    counts, spread = variances(fewest, results[0])
    spread = np.sqrt(spread) if is_root else spread
    valid = counts >= fewest
    if pa.types.is_integer(type_):
        return of_fixed_width(_narrowed(spread, type_), valid, type_)
    if pa.types.is_decimal(type_):
        valid &= np.abs(spread) < 10.0 ** (type_.precision - type_.scale)
        return of_fixed_width(spread, valid, pa.float64()).cast(type_, safe=False)
    return of_fixed_width(spread, valid, pa.float64()).cast(type_)


def _narrowed(doubles: npt.NDArray[np.float64], type_: pa.DataType) -> npt.NDArray[Any]:
    """Doubles as integers, as Java narrows them: NaN is 0, and bytes and shorts are cut off from an int."""
    wide = np.int64 if type_.bit_width == np.dtype(np.int64).itemsize * 8 else np.int32
    ends = np.iinfo(wide)
    found = np.where(doubles > 0, ends.max, np.where(doubles < 0, ends.min, 0)).astype(wide)
    within = (doubles > float(ends.min)) & (doubles < float(ends.max))
    found[within] = doubles[within].astype(wide)
    return found.astype(type_.to_pandas_dtype())


def nulled(array: pa.Array, is_kept: npt.NDArray[np.bool_]) -> pa.Array:
    """The array with nulls where values are not kept."""
    if is_kept.all():
        return array
    return array.take(pa.array(np.arange(len(array)), mask=~is_kept))


def _as_type(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if array.type == type_:
        return array
    if pa.types.is_integer(type_):
        return of_fixed_width(fixed_width(array).astype(type_.to_pandas_dtype()), validity(array), type_)
    return array.cast(type_)


def _decimal_quotients(total: pa.Array, divisor: Longs, type_: pa.DataType) -> pa.Array:
    shift = 10 ** (type_.scale - total.type.scale)
    low = decimal_limbs(total)
    values = low[0] + (low[1] << _LIMB_BITS)
    is_small = (low[3] == values >> 63) & (low[2] == (low[3] & _LIMB))
    if is_small.all() and int(np.abs(values).max(initial=0)) * shift * 2 + int(divisor.max(initial=0)) < 1 << 62:
        quotients = (2 * np.abs(values) * shift + divisor) // (2 * divisor) * np.sign(values)
        signs = np.where(quotients < 0, -1, 0)
        limbs = [quotients & _LIMB, (quotients >> _LIMB_BITS) & _LIMB, signs & _LIMB, signs]
        return nulled(decimals_of(limbs, type_.precision, type_.scale), np.asarray(total.is_valid()))
    return _exact_quotients(total, divisor, type_, shift)


def _exact_quotients(total: pa.Array, divisor: Longs, type_: pa.DataType, shift: int) -> pa.Array:
    found: list[int | None] = []
    for value, count in zip(_unscaled(total), divisor.tolist(), strict=True):
        if value is None:
            found.append(None)
            continue
        quotient = (2 * abs(value) * shift + count) // (2 * count)
        found.append((quotient if value >= 0 else -quotient) if quotient < 10**38 else None)
    words = b"".join((value or 0).to_bytes(16, "little", signed=True) for value in found)
    array = pa.Array.from_buffers(pa.decimal128(type_.precision, type_.scale), len(found), [None, pa.py_buffer(words)])
    return nulled(array, np.array([value is not None for value in found], np.bool_))


def _unscaled(array: pa.Array) -> list[int | None]:
    """The unscaled values of decimals."""
    words = b"" if not len(array) else array.buffers()[1].to_pybytes()[array.offset * 16 :]
    valid = array.is_valid().to_pylist()
    return [
        int.from_bytes(words[place * 16 : place * 16 + 16], "little", signed=True) if is_valid else None
        for place, is_valid in enumerate(valid)
    ]
