"""Sums, averages and variances, and the aggregators behind them, which sum exactly: nothing depends on the cut."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import fixed_width, list_lengths, of_fixed_width, validity
from headrace.common.typeinfo import BasicType, Types
from headrace.common.typeinfo.base import FLOATS, WHOLE_NUMBERS
from headrace.operators.aggregates import exact_sum
from headrace.operators.aggregates.aggregate import NUMBERS, Aggregate, AnyColumn, ColumnTypes, InputColumn, is_one_of
from headrace.operators.aggregates.aggregator import (
    Aggregator,
    BoundAggregate,
    ColumnAggregator,
    Fields,
    GroupedRows,
    Longs,
    Mask,
    any_valid,
    either_valid,
    filled,
    merged_pairs,
    running_sums,
)
from headrace.operators.aggregates.exact_sum import Doubles, Expansion, IntegerOverflowError, SumDecimals, quotients
from headrace.operators.aggregates.simple import CountValues
from headrace.state.runs.grouping import RowGroups, Segments

_LONG: Final = Types.LONG()
_INT: Final = Types.INT()


@dataclass(frozen=True, slots=True)
class SumIntegers(ColumnAggregator):
    """The exact sum of integers: its low 64 bits, and a carry, null where there is none.

    Results are a column of 64-bit integers, or of decimals when one of them does not fit.
    """

    stored_name: ClassVar[str] = "SumIntegers"
    is_scatterable: ClassVar[bool] = True

    @property
    def fields(self) -> Fields:
        return (f"sum({self.name})", _LONG), (f"sum({self.name}).carry", _INT)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return self._summed(rows.column(self.column), None, rows.segments)

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        return self._summed(columns[0], columns[1], segments)

    def combine(self, older: list[pa.Array], newer: list[pa.Array]) -> list[pa.Array]:
        (a, is_a), (b, is_b) = filled(older[0], np.int64), filled(newer[0], np.int64)
        sums = a + b
        # Numbers of one sign with a sum of the other one: it has left 64 bits, upwards or downwards.
        carries = np.where(((a ^ sums) & (b ^ sums)) < 0, np.where(a < 0, -1, 1), 0)
        for carried in (older[1], newer[1]):
            if carried.null_count < len(carried):
                carries = carries + filled(carried, np.int64)[0]
        return [of_fixed_width(sums, either_valid(is_a, is_b), pa.int64()), _carry_column(carries, len(sums))]

    def result(self, columns: list[pa.Array]) -> pa.Array:
        low, carries = columns
        if carries.null_count == len(carries):
            return low
        pairs = zip(low.to_pylist(), carries.to_pylist(), strict=True)
        exact = [None if value is None else value + ((carry or 0) << 64) for value, carry in pairs]
        return pa.array(exact, pa.decimal128(38))

    def scan(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        values, valid = filled(columns[0], np.int64)
        largest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
        has_carries = columns[1].null_count < len(values)
        if has_carries or largest.bit_length() + len(values).bit_length() >= 64:
            return ColumnAggregator.scan(self, columns, segments)
        found = None if valid is None else running_sums(valid.astype(np.int64), segments) > 0
        return [of_fixed_width(running_sums(values, segments), found, pa.int64()), columns[1]]

    def negate(self, columns: list[pa.Array]) -> list[pa.Array]:
        low, valid = filled(columns[0], np.int64)
        # The lowest number is its own opposite in 64 bits: 2**63 is it plus 2**64.
        carries = (low == np.iinfo(np.int64).min).astype(np.int64) - filled(columns[1], np.int64)[0]
        return [of_fixed_width(-low, valid, pa.int64()), _carry_column(carries, len(low))]

    def is_reversible(self, columns: list[pa.Array]) -> bool:
        # Beside values, sums of nulls alone would add nothing, and what remained without the values were no null.
        return not columns[0].null_count

    def _summed(self, array: pa.Array, carried: pa.Array | None, segments: RowGroups) -> list[pa.Array]:
        values, valid = filled(array, np.int64)
        sums, carries = exact_sum.sum_integers(values, segments)
        if carried is not None and carried.null_count < len(carried):
            before = segments.reduce(np.add, filled(carried, np.int64)[0])
            carries = before if carries is None else before + carries
        return [of_fixed_width(sums, any_valid(valid, segments), pa.int64()), _carry_column(carries, len(sums))]


def expansion_fields(name: str) -> Fields:
    """The columns that an exact sum is kept in."""
    return (name, Types.DOUBLE()), (f"{name}.lo", Types.DOUBLE()), (f"{name}.rest", Types.LIST(Types.DOUBLE()))


def expansion_of(columns: list[pa.Array]) -> exact_sum.Expansion:
    """The exact sums in such columns, 0 where null."""
    return exact_sum.Expansion(filled(columns[0], np.float64)[0], fixed_width(columns[1]), columns[2])


def expansion_columns(sums: exact_sum.Expansion, valid: Mask | None = None) -> list[pa.Array]:
    """The columns of exact sums, null where they are not ``valid``."""
    rest = pa.nulls(len(sums.hi), pa.list_(pa.float64())) if sums.rest is None else sums.rest
    return [of_fixed_width(sums.hi, valid, pa.float64()), pa.array(sums.lo), rest]


@dataclass(frozen=True, slots=True)
class SumFloats(ColumnAggregator):
    """The exact sum of floats: see :mod:`headrace.operators.aggregates.exact_sum`."""

    stored_name: ClassVar[str] = "SumFloats"
    is_scatterable: ClassVar[bool] = True

    @property
    def fields(self) -> Fields:
        return expansion_fields(f"sum({self.name})")

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        segments = rows.segments
        values, valid = filled(rows.column(self.column), np.float64)
        return expansion_columns(exact_sum.sum_values(values, segments), any_valid(valid, segments))

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        valid = validity(columns[0])
        return expansion_columns(exact_sum.merge_sums(expansion_of(columns), segments), any_valid(valid, segments))

    def combine(self, older: list[pa.Array], newer: list[pa.Array]) -> list[pa.Array]:
        sums = exact_sum.add_sums(expansion_of(older), expansion_of(newer))
        if sums is None:
            return merged_pairs(partial(SumFloats.merge, self), older, newer)
        return expansion_columns(sums, either_valid(validity(older[0]), validity(newer[0])))

    def scan(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        sums = exact_sum.running_sums_of(expansion_of(columns), segments)
        if sums is None:
            return ColumnAggregator.scan(self, columns, segments)
        valid = validity(columns[0])
        found = None if valid is None else running_sums(valid.astype(np.int64), segments) > 0
        return expansion_columns(sums, found)

    def of_ranges(self, columns: list[pa.Array], low: Longs, high: Longs) -> list[pa.Array] | None:
        values, valid = filled(columns[0], np.float64)
        if fixed_width(columns[1]).any() or columns[2].null_count < len(values):
            return None
        sums = exact_sum.sum_ranges(values, low, high)
        if sums is None:
            return None
        counts = None if valid is None else np.append(0, np.cumsum(valid))
        return expansion_columns(sums, None if counts is None else counts[low] < counts[high])

    def negate(self, columns: list[pa.Array]) -> list[pa.Array]:
        return expansion_columns(exact_sum.negated(expansion_of(columns)), validity(columns[0]))

    def is_reversible(self, columns: list[pa.Array]) -> bool:
        return not columns[0].null_count and bool(np.isfinite(fixed_width(columns[0])).all())

    def result(self, columns: list[pa.Array]) -> pa.Array:
        return of_fixed_width(exact_sum.round_sums(expansion_of(columns)), validity(columns[0]), pa.float64())


@dataclass(frozen=True, slots=True)
class SumFiniteFloats(SumFloats):
    """The same where values may be taken back: NaN and infinities are counted, as they cannot be subtracted."""

    stored_name: ClassVar[str] = "SumFiniteFloats"

    @property
    def fields(self) -> Fields:
        counts = ((f"sum({self.name}).{kind}", Types.LONG()) for kind in ("values", "nan", "infinite", "-infinite"))
        return *expansion_fields(f"sum({self.name})"), *counts

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        segments = rows.segments
        values, valid = filled(rows.column(self.column), np.float64)
        is_value = np.ones(len(values), np.bool_) if valid is None else valid
        kinds = (is_value, np.isnan(values), values == np.inf, values == -np.inf)
        counts = [pa.array(segments.reduce(np.add, kind.astype(np.int64))) for kind in kinds]
        finite = np.where(np.isfinite(values), values, 0.0)
        return [*expansion_columns(exact_sum.sum_values(finite, segments)), *counts]

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        counts = [pa.array(segments.reduce(np.add, fixed_width(column))) for column in columns[3:]]
        return [*SumFloats.merge(self, columns[:3], segments), *counts]

    def combine(self, older: list[pa.Array], newer: list[pa.Array]) -> list[pa.Array]:
        counts = [pa.array(fixed_width(a) + fixed_width(b)) for a, b in zip(older[3:], newer[3:], strict=True)]
        return [*SumFloats.combine(self, older[:3], newer[:3]), *counts]

    def scan(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        counts = [pa.array(running_sums(fixed_width(column), segments)) for column in columns[3:]]
        sums = exact_sum.running_sums_of(expansion_of(columns[:3]), segments)
        if sums is None:
            return [*ColumnAggregator.scan(self, columns, segments)[:3], *counts]
        return [*expansion_columns(sums), *counts]

    def of_ranges(self, columns: list[pa.Array], low: Longs, high: Longs) -> list[pa.Array] | None:
        return None

    def negate(self, columns: list[pa.Array]) -> list[pa.Array]:
        hi, lo, rest, *counts = columns
        sums = exact_sum.negated(expansion_of([hi, lo, rest]))
        return [*expansion_columns(sums), *(pa.array(-fixed_width(column)) for column in counts)]

    def is_reversible(self, columns: list[pa.Array]) -> bool:
        return True

    def result(self, columns: list[pa.Array]) -> pa.Array:
        values, nan, infinite, negative = map(fixed_width, columns[3:])
        sums = exact_sum.round_sums(expansion_of(columns[:3]))
        sums = np.where(infinite > 0, np.inf, np.where(negative > 0, -np.inf, sums))
        sums = np.where((nan > 0) | ((infinite > 0) & (negative > 0)), np.nan, sums)
        return of_fixed_width(sums, values > 0, pa.float64())


def sum(column: AnyColumn = None) -> Aggregate:
    """The sum of a column of numbers: of integers as ``LONG``, an error when it does not fit; of floats as ``DOUBLE``.

    Examples:
        >>> from headrace.datastream.aggregates import sum
        >>> from headrace.expressions import col
        >>> sum("amount")
        sum('amount')
        >>> sum(col("price") * col("quantity")).alias("spent")
        sum(col("price") * col("quantity")).alias('spent')
    """
    return Aggregate("sum", (column,), _sum, _SUMMED, make_retractable=partial(_sum, retracts=True))


def avg(column: AnyColumn = None) -> Aggregate:
    """The average of a column of numbers.

    Examples:
        >>> from headrace.datastream.aggregates import avg
        >>> avg("amount").alias("mean")
        avg('amount').alias('mean')
    """
    return Aggregate("avg", (column,), _average, _SUMMED, make_retractable=partial(_average, retracts=True))


_SUMMED: Final = ColumnTypes(
    partial(is_one_of, WHOLE_NUMBERS | FLOATS | {BasicType.BIG_DEC}), "numbers of up to 64 bits, or decimals"
)


def _sum(name: str, column: InputColumn, *, retracts: bool = False) -> BoundAggregate:
    aggregator = _summing(column, retracts=retracts)
    if isinstance(aggregator, SumFloats):
        return BoundAggregate(name, Types.DOUBLE(), (aggregator,))
    counted = (CountValues(column.source, column.name),) if retracts else ()
    if isinstance(aggregator, SumDecimals):
        return BoundAggregate(name, Types.BIG_DEC(), (aggregator, *counted), _where_counted)
    return BoundAggregate(name, Types.LONG(), (aggregator, *counted), partial(_fitting, column.name))


def _average(name: str, column: InputColumn, *, retracts: bool = False) -> BoundAggregate:
    total = _summing(column, retracts=retracts)
    aggregators = total, CountValues(column.source, column.name)
    if isinstance(total, SumDecimals):
        return BoundAggregate(name, Types.BIG_DEC(), aggregators, quotients)
    return BoundAggregate(name, Types.DOUBLE(), aggregators, _divided)


def _summing(column: InputColumn, *, retracts: bool) -> Aggregator:
    if is_one_of(WHOLE_NUMBERS, column.type):
        return SumIntegers(column.source, column.name)
    if is_one_of(FLOATS, column.type):
        return (SumFiniteFloats if retracts else SumFloats)(column.source, column.name)
    return SumDecimals(column.source, column.name)


def _where_counted(results: Sequence[pa.Array]) -> pa.Array:
    """Sums, null where all values were retracted, which only a count beside them shows."""
    return results[0] if len(results) == 1 else pc.if_else(pc.greater(results[1], 0), results[0], None)


def _fitting(field: str, results: Sequence[pa.Array]) -> pa.Array:
    """The same of integers, all of which have to fit into 64 bits.

    Raises:
        IntegerOverflowError: when one does not fit.
    """
    if pa.types.is_decimal(results[0].type):
        raise IntegerOverflowError(
            f"the sum of {field!r} does not fit into 64 bits: sum it as double, or the column cast to double"
        )
    return _where_counted(results)


def _divided(results: Sequence[pa.Array]) -> pa.Array:
    total, counts = results
    if pa.types.is_decimal(total.type):  # sums of integers that do not fit; rounded once, as all are
        total = pa.array([None if value is None else float(value) for value in total.to_pylist()], pa.float64())
    values, numbers = fixed_width(total).astype(np.float64), fixed_width(counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = values / numbers
    return of_fixed_width(ratios, numbers > 0, pa.float64())


def _carry_column(carries: Longs | None, count: int) -> pa.Array:
    if carries is None:
        return pa.nulls(count, pa.int32())
    return of_fixed_width(carries.astype(np.int32), carries != 0, pa.int32())


_LARGEST = 2.0**500
"""The squares of larger values may be no doubles any more."""
_PLAIN = 2.0**450, 2.0**-450
"""Between these limits no product below overflows, or loses bits at the lower end."""
_REST = 2
"""Sums of so many doubles more than two are worked on as arrays."""
_EXACT_INTEGERS = 2**53
_LOW_BITS = 32


@dataclass(frozen=True, slots=True)
class SquaredDeviations(ColumnAggregator):
    """The number of values, their exact sum, and the exact sum of their squares.

    The sum of the squared distances from the mean is (n Σx² - (Σx)²) / n. As a formula over rounded sums it is known
    for losing all its digits; here both sums are exact, and so is the difference. So the result is right to the last
    bit or the one before, and the same however the input was cut.

    NaN, infinities and values beyond 2**500 are only counted. The result is a struct of the number of values, the sum
    of their squared distances from their mean times that number, which is NaN where it is of an unusual size, and this
    sum itself, which is NaN where there was a value that is only counted.
    """

    stored_name: ClassVar[str] = "SquaredDeviations"
    is_scatterable: ClassVar[bool] = True

    @property
    def fields(self) -> Fields:
        return (
            (f"deviations({self.name}).values", Types.LONG()),
            (f"deviations({self.name}).without", Types.LONG()),
            *expansion_fields(f"deviations({self.name}).sum"),
            *expansion_fields(f"deviations({self.name}).squares"),
        )

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        array, segments = rows.column(self.column), rows.segments
        valid = validity(array)
        values = fixed_width(array)
        is_value = np.ones(len(values), np.bool_) if valid is None else valid
        is_usable = is_value & (np.abs(values) < _LARGEST) if values.dtype.kind == "f" else is_value
        parts = _parts(np.where(is_usable, values, values.dtype.type(0)))
        counts = [segments.reduce(np.add, kind.astype(np.int64)) for kind in (is_value, is_value & ~is_usable)]
        total = exact_sum.sum_terms(parts, segments)
        squares = exact_sum.sum_terms(_squares(parts), segments)
        return [*map(pa.array, counts), *expansion_columns(total), *expansion_columns(squares)]

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        counts = [pa.array(segments.reduce(np.add, fixed_width(column))) for column in columns[:2]]
        sums = [exact_sum.merge_sums(expansion_of(part), segments) for part in (columns[2:5], columns[5:])]
        return [*counts, *expansion_columns(sums[0]), *expansion_columns(sums[1])]

    def negate(self, columns: list[pa.Array]) -> list[pa.Array]:
        counts = [pa.array(-fixed_width(column)) for column in columns[:2]]
        sums = [exact_sum.negated(expansion_of(part)) for part in (columns[2:5], columns[5:])]
        return [*counts, *expansion_columns(sums[0]), *expansion_columns(sums[1])]

    def is_reversible(self, columns: list[pa.Array]) -> bool:
        return True  # what no exact sum can hold is only counted

    def result(self, columns: list[pa.Array]) -> pa.Array:
        counts, without = fixed_width(columns[0]), fixed_width(columns[1])
        multiples, deviations = _deviations(counts, expansion_of(columns[2:5]), expansion_of(columns[5:]))
        deviations = np.where(without > 0, np.nan, deviations)
        fields = [columns[0], pa.array(multiples), pa.array(deviations)]
        return pa.StructArray.from_arrays(fields, ["values", "multiples", "deviations"])


def var_pop(column: AnyColumn = None) -> Aggregate:
    """The variance of a column of numbers that are the whole population.

    Examples:
        >>> from headrace.datastream.aggregates import var_pop
        >>> var_pop("amount")
        var_pop('amount')
    """
    return Aggregate("var_pop", (column,), partial(_variance, 1, False), NUMBERS)


def var_samp(column: AnyColumn = None) -> Aggregate:
    """The variance of a column of numbers that are a sample; null when there is one value only.

    Examples:
        >>> from headrace.datastream.aggregates import var_samp
        >>> var_samp("amount")
        var_samp('amount')
    """
    return Aggregate("var_samp", (column,), partial(_variance, 2, False), NUMBERS)


def stddev_pop(column: AnyColumn = None) -> Aggregate:
    """The standard deviation of a column of numbers that are the whole population.

    Examples:
        >>> from headrace.datastream.aggregates import stddev_pop
        >>> stddev_pop("amount")
        stddev_pop('amount')
    """
    return Aggregate("stddev_pop", (column,), partial(_variance, 1, True), NUMBERS)


def stddev_samp(column: AnyColumn = None) -> Aggregate:
    """The standard deviation of a column of numbers that are a sample; null when there is one value only.

    Examples:
        >>> from headrace.datastream.aggregates import stddev_samp
        >>> stddev_samp("amount").alias("spread")
        stddev_samp('amount').alias('spread')
    """
    return Aggregate("stddev_samp", (column,), partial(_variance, 2, True), NUMBERS)


def _variance(fewest: int, is_root: bool, name: str, column: InputColumn) -> BoundAggregate:
    emit = partial(_variances, fewest, is_root)
    return BoundAggregate(name, Types.DOUBLE(), (SquaredDeviations(column.source, column.name),), emit)


def variances(fewest: int, found: pa.StructArray) -> tuple[Longs, Doubles]:
    """The numbers of values and their variances, of what :class:`SquaredDeviations` gives.

    Args:
        fewest: the fewest values of which there is a variance: 2 of those that are a sample, else 1.
        found: the results.
    """
    counts, multiples, deviations = map(fixed_width, found.flatten())
    divisors = np.maximum(counts - (fewest - 1), 1)
    once = multiples / (np.maximum(counts, 1) * divisors.astype(np.float64))
    return counts, np.where(np.isnan(multiples) | np.isnan(deviations), deviations / divisors, once)


def _variances(fewest: int, is_root: bool, results: Sequence[pa.Array]) -> pa.Array:
    counts, found = variances(fewest, results[0])
    return of_fixed_width(np.sqrt(found) if is_root else found, counts >= fewest, pa.float64())


def _parts(values: npt.NDArray[np.generic]) -> list[Doubles]:
    """Doubles whose sum is each value: one, but two where integers have more than 53 bits."""
    if values.dtype.kind == "f" or not len(values):
        return [values.astype(np.float64)]
    whole = values.astype(np.int64)
    if max(abs(int(whole.min())), int(whole.max())) <= _EXACT_INTEGERS:
        return [whole.astype(np.float64)]
    low = whole & (2**_LOW_BITS - 1)
    return [(whole - low).astype(np.float64), low.astype(np.float64)]


def _squares(parts: Sequence[Doubles]) -> list[Doubles]:
    """Doubles whose sum is the square of the sum of the parts."""
    terms = [*exact_sum.two_product(parts[0], parts[0])]
    if len(parts) > 1:
        terms += [*exact_sum.two_product(2 * parts[0], parts[1]), *exact_sum.two_product(parts[1], parts[1])]
    return terms


def _deviations(counts: Longs, total: Expansion, squares: Expansion) -> tuple[Doubles, Doubles]:
    """The values of n Σx² - (Σx)² and an n-th of them, both rounded; the former are NaN at unusual sizes.

    The latter are the sums of squared distances from the mean; both are 0 where there are no values.
    """
    numbers = np.maximum(counts, 1).astype(np.float64)
    (sums, has_all), (square_sums, has_all_squares) = _terms(total), _terms(squares)
    sizes = np.maximum(np.abs(total.hi), squares.hi)
    is_plain = has_all & has_all_squares & (sizes < _PLAIN[0]) & ((squares.hi > _PLAIN[1]) | (squares.hi == 0))
    plain = [[np.where(is_plain, term, 0.0) for term in terms] for terms in (sums, square_sums)]
    multiples, deviations = _plain_deviations(numbers, *plain)
    for group in np.flatnonzero(~is_plain).tolist():
        n = int(numbers[group])
        exact = exact_sum.exact_value(squares, group) - exact_sum.exact_value(total, group) ** 2 / Fraction(n)
        deviations[group] = exact_sum.rounded(exact)
    return np.where(is_plain, np.maximum(multiples, 0.0), np.nan), np.maximum(deviations, 0.0)


def _terms(sums: Expansion) -> tuple[list[Doubles], npt.NDArray[np.bool_]]:
    """The first doubles of each expansion, and which expansions have no more than these."""
    terms = [sums.hi, sums.lo]
    if sums.rest is None or sums.rest.null_count == len(sums.rest):
        return terms, np.ones(len(sums.hi), np.bool_)
    lengths, rest = list_lengths(sums.rest), fixed_width(sums.rest.flatten())
    starts = np.cumsum(lengths) - lengths
    for place in range(_REST):
        has_place = lengths > place
        terms.append(np.zeros(len(lengths)))
        terms[-1][has_place] = rest[starts[has_place] + place]
    return terms, lengths <= _REST


def _plain_deviations(n: Doubles, sums: list[Doubles], squares: list[Doubles]) -> tuple[Doubles, Doubles]:
    """The same where sums have few terms, of a usual size."""
    products = [(n, square) for square in squares] + [(-term, term) for term in sums]
    products += [(-2 * first, second) for first, second in combinations(sums, 2)]
    terms = exact_sum.distilled([term for pair in products for term in exact_sum.two_product(*pair)])
    if not terms:
        return np.zeros(len(n)), np.zeros(len(n))
    quotient = terms[0] / n
    product, error = exact_sum.two_product(quotient, n)
    remainder = (terms[0] - product) - error + (terms[1] if len(terms) > 1 else 0.0)
    return terms[0], quotient + remainder / n
