"""Aggregates over the distinct values of a group and how often each came, exact and approximate."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import fixed_width, is_fixed_width, list_lengths, lists_of, valid_mask
from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.operators.aggregates.aggregate import NUMBERS, ORDERED, Aggregate, AnyColumn, InputColumn
from headrace.operators.aggregates.aggregator import (
    BoundAggregate,
    ColumnAggregator,
    Fields,
    GroupedRows,
    Longs,
    running_sums,
)
from headrace.state.keys.hashing import hash_array, hash_int64
from headrace.state.runs.grouping import Segments, sorted_pairs

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Multiset(ColumnAggregator):
    """The distinct values, ascending, and how often each came; below zero where more were taken back than came.

    NaN is one value, larger than any number, and ``-0.0`` is ``0.0``; text is ordered by code points. The result is a
    struct of the two lists.
    """

    stored_name: ClassVar[str] = "Multiset"
    grows: ClassVar[bool] = True
    type: TypeInformation

    @property
    def fields(self) -> Fields:
        name = f"values({self.name})"
        return (name, Types.LIST(self.type)), (f"{name}.counts", Types.LIST(Types.LONG()))

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        column, segments = rows.column(self.column), rows.groups.segments
        groups = segments.ids
        if column.null_count:
            groups, column = groups[valid_mask(column)], column.drop_null()
        values = self.values(column)
        return _counted(groups, values, np.ones(len(values), np.int64), len(segments))

    def values(self, column: pa.Array) -> pa.Array:
        """The values of a column that are counted: all but nulls."""
        return column

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        groups = np.repeat(segments.ids, list_lengths(columns[0]))
        return _counted(groups, columns[0].flatten(), fixed_width(columns[1].flatten()), len(segments))

    def negate(self, columns: list[pa.Array]) -> list[pa.Array]:
        values, counts = columns
        return [values, lists_of(pc.negate(counts.flatten()), list_lengths(values))]

    def result(self, columns: list[pa.Array]) -> pa.Array:
        return pa.StructArray.from_arrays(columns, ["values", "counts"])


def element_at(place: int, results: Sequence[pa.Array]) -> pa.Array:
    """The value at a place of each multiset, in ascending order; -1 is the largest. Null where it is empty."""
    values, _ = results[0].flatten()
    lengths = list_lengths(values)
    places = np.cumsum(lengths) - 1 if place < 0 else np.cumsum(lengths) - lengths + place
    return values.flatten().take(pa.array(places, mask=lengths == 0))


def running_extreme(is_largest: bool, columns: list[pa.Array], segments: Segments) -> pa.Array:
    """The smallest or the largest value of each multiset merged with all before it in its group; null if there is none.

    A value that was taken back more often than it came is not there.
    """
    presence = _Presence.of(columns, segments)
    ufunc, nothing = (np.maximum, -1) if is_largest else (np.minimum, len(presence.distinct))
    best = _best_over(ufunc, nothing, presence, segments.total)
    return presence.distinct.take(pa.array(best, mask=best == nothing))


def running_distinct(columns: list[pa.Array], segments: Segments) -> pa.Array:
    """Return how many different values there are in each multiset merged with all before it in its group."""
    presence = _Presence.of(columns, segments)
    changes = np.bincount(presence.starts, minlength=segments.total + 1)
    changes -= np.bincount(presence.stops, minlength=segments.total + 1)
    return pa.array(np.cumsum(changes)[:-1])


class _Presence(NamedTuple):
    """From which to which row, in the order of the groups, a value is in the multiset of its group.

    Attributes:
        starts: the first row of each.
        stops: the row behind the last one; at most the end of the group.
        codes: the value, as its place among the different ones.
        distinct: the different values, ascending.
    """

    starts: Longs
    stops: Longs
    codes: Longs
    distinct: pa.Array

    @staticmethod
    def of(columns: list[pa.Array], segments: Segments) -> "_Presence":
        """The presence of values while accumulators are merged one after the other."""
        rows = np.repeat(np.arange(segments.total), list_lengths(columns[0]))
        codes, distinct = coded(columns[0].flatten())
        order, groups, codes = sorted_pairs(segments.ids[rows], codes)
        rows, counts = rows[order], fixed_width(columns[1].flatten())[order]
        is_first = np.ones(len(rows), np.bool_)
        is_first[1:] = (groups[1:] != groups[:-1]) | (codes[1:] != codes[:-1])
        is_there = running_sums(counts, Segments(np.flatnonzero(is_first), len(rows))) > 0
        was_there = np.append(False, is_there[:-1]) & ~is_first if len(rows) else is_there
        changes = np.flatnonzero(is_there != was_there)
        begins = np.flatnonzero(is_there[changes])
        # In a pair of group and value, what begins ends with the next change, if there is one.
        ends = np.append(rows[changes], 0)[begins + 1]
        goes_on = np.append(is_there[changes], True)[begins + 1]
        begins = changes[begins]
        group_ends = np.append(segments.starts[1:], segments.total)[groups[begins]]
        return _Presence(rows[begins], np.where(goes_on, group_ends, ends), codes[begins], distinct)


def _best_over(ufunc: np.ufunc, nothing: int, presence: _Presence, total: int) -> Longs:
    """The best code of all that are present in each row.

    A stretch of rows is covered by two of a power of two each. From the longest ones down, each is halved, so that a
    row meets all that cover it in as many steps as the longest stretch has binary digits.
    """
    best = np.full(total, nothing, np.int64)
    levels = np.frexp(presence.stops - presence.starts)[1] - 1
    for level in range(int(levels.max(initial=-1)), -1, -1):
        chosen, length = np.flatnonzero(levels == level), 1 << level
        ufunc.at(best, presence.starts[chosen], presence.codes[chosen])
        ufunc.at(best, presence.stops[chosen] - length, presence.codes[chosen])
        if half := length // 2:
            best[half:] = ufunc(best[half:], best[:-half])
    return best


def count_distinct(column: AnyColumn = None) -> Aggregate:
    """Return how many different values a column has.

    Examples:
        >>> from headrace.datastream.aggregates import count_distinct
        >>> count_distinct("user").alias("users")
        count_distinct('user').alias('users')
    """
    return Aggregate("count_distinct", (column,), _count_of_distinct, ORDERED)


def collect_set(column: AnyColumn = None) -> Aggregate:
    """The different values of a column as a list, in ascending order.

    Examples:
        >>> from headrace.datastream.aggregates import collect_set
        >>> collect_set("user")
        collect_set('user')
    """
    return Aggregate("collect_set", (column,), _set, ORDERED)


def collect_multiset(column: AnyColumn = None) -> Aggregate:
    """The different values of a column and how often each came, as a map.

    Examples:
        >>> from headrace.datastream.aggregates import collect_multiset
        >>> collect_multiset("status")
        collect_multiset('status')
    """
    return Aggregate("collect_multiset", (column,), _counted_values, ORDERED)


def _count_of_distinct(name: str, column: InputColumn) -> BoundAggregate:
    values = Multiset(column.source, column.name, column.type)
    return BoundAggregate(name, Types.LONG(), (values,), _count_of_each, running=running_distinct)


def _count_of_each(results: Sequence[pa.Array]) -> pa.Array:
    return pa.array(list_lengths(results[0].field("values")))


def _set(name: str, column: InputColumn) -> BoundAggregate:
    values = Multiset(column.source, column.name, column.type)
    return BoundAggregate(name, Types.LIST(column.type), (values,), _sets)


def _sets(results: Sequence[pa.Array]) -> pa.Array:
    values, _ = results[0].flatten()
    lengths = list_lengths(values)
    return lists_of(values.flatten(), lengths, is_missing=lengths == 0)


def _counted_values(name: str, column: InputColumn) -> BoundAggregate:
    values = Multiset(column.source, column.name, column.type)
    return BoundAggregate(name, Types.MAP(column.type, Types.LONG()), (values,), _maps)


def _maps(results: Sequence[pa.Array]) -> pa.Array:
    """A map from each value to how often it came."""
    values, counts = results[0].flatten()
    lengths = list_lengths(values)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    places = pa.array(offsets, pa.int32(), mask=np.append(lengths == 0, False))
    return pa.MapArray.from_arrays(places, values.flatten(), counts.flatten())


def _counted(groups: Longs, values: pa.Array, counts: Longs, total: int) -> list[pa.Array]:
    """The columns of multisets: counts added up by group and value, both ascending; zeros are left out.

    Args:
        groups: the group of each value.
        values: the values, none of them null.
        counts: what each counts.
        total: how many groups there are.
    """
    codes, distinct = coded(values)
    order, groups, codes = sorted_pairs(groups, codes)
    places = groups * len(distinct) + codes
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    sums = np.add.reduceat(counts[order], starts) if len(starts) else counts
    kept = np.flatnonzero(sums)
    places = places[starts][kept]
    if not len(distinct):
        return [lists_of(values, np.zeros(total, np.int64)), lists_of(pa.array(counts), np.zeros(total, np.int64))]
    lengths = np.bincount(places // len(distinct), minlength=total)
    return [lists_of(distinct.take(pa.array(places % len(distinct))), lengths), lists_of(pa.array(sums[kept]), lengths)]


def coded(values: pa.Array) -> tuple[Longs, pa.Array]:
    """Values, none of them null, as places in the ascending list of the different ones, and that list.

    Arrays, maps and rows are in the order of their texts.
    """
    if pa.types.is_nested(values.type):
        codes, _ = coded(pa.array([repr(value) for value in values.to_pylist()], pa.string()))
        return codes, values.take(pa.array(np.unique(codes, return_index=True)[1]))
    if pa.types.is_floating(values.type):
        values = pa.array(one_nan(fixed_width(values)))
    encoded = values.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[fixed_width(encoded.indices)], encoded.dictionary.take(pa.array(order))


def one_nan(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same floats, with one zero and one NaN."""
    one_zero: npt.NDArray[Any] = values + values.dtype.type(0)
    return np.where(np.isnan(values), values.dtype.type(np.nan), one_zero)


_DROPPED_BITS: Final = 52 - 8
_FINEST: Final = 10**6
"""Quantiles are multiples of a fraction with a denominator of at most this."""


@dataclass(frozen=True, slots=True)
class RoundedMultiset(Multiset):
    """The same of numbers as doubles, rounded to 9 significant bits.

    That leaves 256 values between a number and its double, an error of 0.2 %. So unlike sketches which flip coins, or
    depend on the order of merging, the result is the same for every cut, and values can be taken back.
    """

    stored_name: ClassVar[str] = "RoundedMultiset"

    @property
    def fields(self) -> Fields:
        name = f"rounded({self.name})"
        return (name, Types.LIST(Types.DOUBLE())), (f"{name}.counts", Types.LIST(Types.LONG()))

    def values(self, column: pa.Array) -> pa.Array:
        numbers = fixed_width(column).astype(np.float64)
        bits = numbers.view(np.int64)
        half, mask = np.int64(1 << (_DROPPED_BITS - 1)), np.int64(-1 << _DROPPED_BITS)
        rounded = ((bits + half) & mask).view(np.float64)
        within = np.where(np.isfinite(rounded), rounded, (bits & mask).view(np.float64))
        return pa.array(np.where(np.isfinite(numbers), within, numbers))


def quantile(column: AnyColumn = None, part: float = 0.5) -> Aggregate:
    """The smallest value of a column that is at least as large as a part of all its values; by default the median.

    Args:
        column: the values.
        part: from 0, the smallest, to 1, the largest.

    Raises:
        InvalidProgramError: when ``part`` is not a number from 0 to 1.

    Examples:
        >>> from headrace.datastream.aggregates import quantile
        >>> quantile("age").alias("median_age")
        quantile('age', part=0.5).alias('median_age')
    """
    return Aggregate("quantile", (column,), partial(_quantile, _checked("quantile", part)), ORDERED, {"part": part})


def approx_quantile(column: AnyColumn = None, part: float = 0.5) -> Aggregate:
    """The same within 0.2 % of the value, as a ``DOUBLE``; a window keeps a few hundred values at most of each key.

    Args:
        column: the values.
        part: from 0, the smallest, to 1, the largest.

    Raises:
        InvalidProgramError: when ``part`` is not a number from 0 to 1.

    Examples:
        >>> from headrace.datastream.aggregates import approx_quantile
        >>> approx_quantile("latency", 0.99).alias("p99")
        approx_quantile('latency', part=0.99).alias('p99')
    """
    make = partial(_approx_quantile, _checked("approx_quantile", part))
    return Aggregate("approx_quantile", (column,), make, NUMBERS, {"part": part})


def _checked(function: str, part: float) -> Fraction:
    if not isinstance(part, Real) or not 0 <= part <= 1:
        raise InvalidProgramError(f"{function}() takes a part from 0 to 1 (0.5 is the median), not {part!r}")
    return Fraction(part).limit_denominator(_FINEST)


def _quantile(part: Fraction, name: str, column: InputColumn) -> BoundAggregate:
    values = Multiset(column.source, column.name, column.type)
    return BoundAggregate(name, column.type, (values,), partial(_at, part))


def _approx_quantile(part: Fraction, name: str, column: InputColumn) -> BoundAggregate:
    values = RoundedMultiset(column.source, column.name, Types.DOUBLE())
    return BoundAggregate(name, Types.DOUBLE(), (values,), partial(_at, part))


def _at(part: Fraction, results: Sequence[pa.Array]) -> pa.Array:
    """The value at a part of each multiset; null where it is empty."""
    values, counts = results[0].flatten()
    lengths = list_lengths(values)
    ends = np.cumsum(lengths)
    upto = np.concatenate((np.zeros(1, np.int64), np.cumsum(fixed_width(counts.flatten()))))
    before = upto[ends - lengths]
    ranks = -((before - upto[ends]) * part.numerator // part.denominator)  # rounded up
    places = np.searchsorted(upto[1:], before + np.maximum(ranks, 1))
    return values.flatten().take(pa.array(np.where(lengths == 0, 0, places), mask=lengths == 0))


_INDEX_BITS: Final = 12
_REGISTERS: Final = 1 << _INDEX_BITS
_HASH_BITS: Final = 64 - _INDEX_BITS
"""The bits of a hash whose leading zeros are counted; a register holds that and one more, at most 53."""
_RANK_BITS: Final = 6
_HALF_BY_LN_2: Final = 0.7213475204444817


@dataclass(frozen=True, slots=True)
class DistinctSketch(ColumnAggregator):
    """HyperLogLog over 4,096 registers: those that are not 0, each as its number times 64 plus its value.

    A value's hash picks a register by its first 12 bits; the register remembers the most zeros that the other bits
    began with. The maximum does not depend on order or cut, so neither does the estimate, which is that of O. Ertl
    ("New cardinality estimation algorithms for HyperLogLog sketches", 2017): it needs no tables of corrections, and
    only operations that give the same bits on every machine. Libraries of sketches take values one by one when called
    from Python; with numpy a million values take 0.2 s.
    """

    stored_name: ClassVar[str] = "DistinctSketch"
    grows: ClassVar[bool] = True

    @property
    def fields(self) -> Fields:
        return ((f"distinct({self.name})", Types.LIST(Types.INT())),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        values, segments = rows.column(self.column), rows.groups.segments
        groups = segments.ids
        if values.null_count:
            groups, values = groups[valid_mask(values)], values.drop_null()
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


def approx_count_distinct(column: AnyColumn = None) -> Aggregate:
    """About how many different values a column has: within 1.6 % in two cases of three, 5 % nearly always.

    Examples:
        >>> from headrace.datastream.aggregates import approx_count_distinct
        >>> approx_count_distinct("user").alias("users")
        approx_count_distinct('user').alias('users')
    """
    why = "it remembers hashes of values, and not how often each came"
    return Aggregate("approx_count_distinct", (column,), _estimate, ORDERED, why_not_retractable=why)


def _estimate(name: str, column: InputColumn) -> BoundAggregate:
    return BoundAggregate(name, Types.LONG(), (DistinctSketch(column.source, column.name),))


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
