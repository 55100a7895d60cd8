"""``approx_count_distinct``, and the sketch behind it: HyperLogLog over 4,096 registers.

A value's hash picks a register by its first 12 bits; the register remembers the most zeros that the other bits began
with. Only registers that were picked are kept. The maximum does not depend on order or cut, so neither does the
estimate, which is that of O. Ertl ("New cardinality estimation algorithms for HyperLogLog sketches", 2017): it needs no
tables of corrections, and only operations that give the same bits on every machine.

Libraries of sketches take values one by one when called from Python; with numpy a million values take 0.2 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa

from headrace.common.typeinfo import Types
from headrace.operators.aggregates.aggregate import Aggregate, BoundAggregate, has_order
from headrace.operators.aggregates.aggregator import ColumnAggregator
from headrace.operators.aggregates.multisets import one_nan
from headrace.operators.arrays import fixed_width, is_fixed_width, list_lengths, lists_of
from headrace.state.keys.hashing import hash_array, hash_int64

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.expressions import Expression
    from headrace.operators.aggregates.aggregate import InputColumn
    from headrace.operators.aggregates.aggregator import Fields, GroupedRows, Longs
    from headrace.state.runs.grouping import Segments

    Doubles = npt.NDArray[np.float64]

_INDEX_BITS: Final = 12
_REGISTERS: Final = 1 << _INDEX_BITS
_HASH_BITS: Final = 64 - _INDEX_BITS
"""The bits of a hash whose leading zeros are counted; a register holds that and one more, at most 53."""
_RANK_BITS: Final = 6
_HALF_BY_LN_2: Final = 0.7213475204444817


@dataclass(frozen=True, slots=True)
class DistinctSketch(ColumnAggregator):
    """The registers that are not 0, each as its number times 64 plus its value. The result is the estimate."""

    stored_name: ClassVar[str] = "DistinctSketch"
    grows: ClassVar[bool] = True

    @property
    def fields(self) -> Fields:
        return ((f"distinct({self.name})", Types.LIST(Types.INT())),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        values, segments = rows.column(self.column), rows.groups.segments
        groups = segments.ids
        if values.null_count:
            groups, values = groups[values.is_valid().to_numpy(zero_copy_only=False)], values.drop_null()
        return _registers(groups, _codes(_hashes(values)), len(segments))

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        groups = np.repeat(segments.ids, list_lengths(columns[0]))
        return _registers(groups, fixed_width(columns[0].flatten()).astype(np.int64), len(segments))

    def result(self, columns: list[pa.Array]) -> pa.Array:
        lengths = list_lengths(columns[0])
        ranks = fixed_width(columns[0].flatten()) & ((1 << _RANK_BITS) - 1)
        places = np.repeat(np.arange(len(lengths)), lengths) * (_HASH_BITS + 2) + ranks
        found = np.bincount(places, minlength=len(lengths) * (_HASH_BITS + 2)).reshape(len(lengths), _HASH_BITS + 2)
        found[:, 0] = _REGISTERS - lengths
        return pa.array(np.rint(_estimates(found)).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class ApproxCountDistinct(Aggregate):
    """About how many different values there were, not counting null."""

    function = "approx_count_distinct"
    why_not_retractable = "it remembers hashes of values, and not how often each came"

    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        if not has_order(column.type):
            raise self._refuse(column, "numbers, text, booleans, dates and times")
        return BoundAggregate(name, Types.LONG(), (DistinctSketch(column.source, column.name),))


def approx_count_distinct(column: str | int | Expression | None = None) -> ApproxCountDistinct:
    """About how many different values a column has: within 1.6 % in two cases of three, 5 % nearly always.

    Examples:
        >>> from headrace.datastream.aggregates import approx_count_distinct
        >>> approx_count_distinct("user").alias("users")
        ApproxCountDistinct(column='user', name='users')
    """
    return ApproxCountDistinct(column)


def _hashes(values: pa.Array) -> npt.NDArray[np.uint64]:
    if not is_fixed_width(values.type):
        return hash_array(values)
    numbers = fixed_width(values)
    if numbers.dtype.kind == "f":
        numbers = one_nan(numbers).astype(np.float64).view(np.int64)
    return hash_int64(numbers.astype(np.int64))


def _codes(hashes: npt.NDArray[np.uint64]) -> Longs:
    """Register times 64 plus value for each hash."""
    rest = (hashes & np.uint64((1 << _HASH_BITS) - 1)).astype(np.float64)  # exact: 52 bits
    bits = np.frexp(rest)[1].astype(np.int64)
    return (hashes >> np.uint64(_HASH_BITS)).astype(np.int64) << _RANK_BITS | (_HASH_BITS + 1 - bits)


def _registers(groups: Longs, codes: Longs, total: int) -> list[pa.Array]:
    """The largest value of each register of each group, as lists in the order of registers."""
    places = np.unique((groups << (_INDEX_BITS + _RANK_BITS)) | codes)
    registers = places >> _RANK_BITS
    places = places[np.append(registers[1:] != registers[:-1], np.ones(min(len(registers), 1), np.bool_))]
    lengths = np.bincount(places >> (_INDEX_BITS + _RANK_BITS), minlength=total)
    kept = places & ((1 << (_INDEX_BITS + _RANK_BITS)) - 1)
    return [lists_of(pa.array(kept.astype(np.int32)), lengths)]


def _estimates(found: Longs) -> Doubles:
    """The estimates of groups, of how many of their registers have each value (columns) from 0 to 53."""
    z = _REGISTERS * _tau(1.0 - found[:, -1] / _REGISTERS)
    for value in range(_HASH_BITS, 0, -1):
        z = 0.5 * (z + found[:, value])
    z = z + _REGISTERS * _sigma(found[:, 0] / _REGISTERS)
    return _HALF_BY_LN_2 * _REGISTERS * (_REGISTERS / z)


def _sigma(x: Doubles) -> Doubles:
    """Ertl's sigma: x + x² + 2 x⁴ + 4 x⁸ + …; infinite at 1."""
    power, weight = np.where(x == 1.0, 0.0, x), 1.0
    total, before = power, np.full_like(power, np.nan)
    while (total != before).any():
        power, before = power * power, total
        total, weight = total + power * weight, 2 * weight
    return np.where(x == 1.0, np.inf, total)


def _tau(x: Doubles) -> Doubles:
    """Ertl's tau: a third of (1 - x) - Σ (1 - x^(2^-k))² 2^-k."""
    root, weight = np.where(x == 0.0, 1.0, x), 1.0
    total, before = 1.0 - root, np.full_like(root, np.nan)
    while (total != before).any():
        root, weight, before = np.sqrt(root), 0.5 * weight, total
        total = total - (1.0 - root) ** 2 * weight
    return np.asarray(total / 3.0)
