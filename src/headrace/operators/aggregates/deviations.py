"""Variance and standard deviation, and the aggregator behind them: from exact sums of the values and their squares.

The sum of the squared distances from the mean is (n Σx² - (Σx)²) / n. As a formula over rounded sums it is known for
losing all its digits; here both sums are exact, and so is the difference. So the result is right to the last bit or
the one before, and the same however the input was cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from headrace.common.typeinfo import Types
from headrace.common.typeinfo.base import FLOATS, WHOLE_NUMBERS
from headrace.operators.aggregates import exact_sum
from headrace.operators.aggregates.aggregate import Aggregate, BoundAggregate, is_one_of
from headrace.operators.aggregates.aggregator import ColumnAggregator
from headrace.operators.aggregates.sums import expansion_columns, expansion_fields, expansion_of
from headrace.operators.arrays import fixed_width, list_lengths, of_fixed_width, validity

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.expressions import Expression
    from headrace.operators.aggregates.aggregate import InputColumn
    from headrace.operators.aggregates.aggregator import Fields, GroupedRows, Longs
    from headrace.operators.aggregates.exact_sum import Doubles, Expansion
    from headrace.state.runs.grouping import Segments

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
    """How many values there were, and their exact sum and that of their squares.

    NaN, infinities and values beyond 2**500 are only counted. The result is a struct of the number of values and the
    sum of their squared distances from their mean, which is NaN where there was such a value.
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
        deviations = _deviations(counts, expansion_of(columns[2:5]), expansion_of(columns[5:]))
        deviations = np.where(without > 0, np.nan, deviations)
        return pa.StructArray.from_arrays([columns[0], pa.array(deviations)], ["values", "deviations"])


@dataclass(frozen=True, slots=True, eq=False)
class PopulationVariance(Aggregate):
    """The mean squared distance from the mean."""

    function = "var_pop"
    fewest: ClassVar[int] = 1
    is_root: ClassVar[bool] = False

    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        if not is_one_of(column.type, WHOLE_NUMBERS | FLOATS):
            raise self._refuse(column, "numbers of up to 64 bits")
        return BoundAggregate(name, Types.DOUBLE(), (SquaredDeviations(column.source, column.name),), self._emitted)

    @classmethod
    def _emitted(cls, results: Sequence[pa.Array]) -> pa.Array:
        counts, deviations = map(fixed_width, results[0].flatten())
        variances = deviations / np.maximum(counts - (cls.fewest - 1), 1)
        return of_fixed_width(np.sqrt(variances) if cls.is_root else variances, counts >= cls.fewest, pa.float64())


@dataclass(frozen=True, slots=True, eq=False)
class SampleVariance(PopulationVariance):
    """The same divided by one less than the number of values; null for a single value."""

    function = "var_samp"
    fewest = 2


@dataclass(frozen=True, slots=True, eq=False)
class PopulationDeviation(PopulationVariance):
    """The root of the population's variance."""

    function = "stddev_pop"
    is_root = True


@dataclass(frozen=True, slots=True, eq=False)
class SampleDeviation(SampleVariance):
    """The root of the sample's variance."""

    function = "stddev_samp"
    is_root = True


def var_pop(column: str | int | Expression | None = None) -> PopulationVariance:
    """The variance of a column of numbers that are the whole population.

    Examples:
        >>> from headrace.datastream.aggregates import var_pop
        >>> var_pop("amount")
        PopulationVariance(column='amount', name=None)
    """
    return PopulationVariance(column)


def var_samp(column: str | int | Expression | None = None) -> SampleVariance:
    """The variance of a column of numbers that are a sample; null when there is one value only.

    Examples:
        >>> from headrace.datastream.aggregates import var_samp
        >>> var_samp("amount")
        SampleVariance(column='amount', name=None)
    """
    return SampleVariance(column)


def stddev_pop(column: str | int | Expression | None = None) -> PopulationDeviation:
    """The standard deviation of a column of numbers that are the whole population.

    Examples:
        >>> from headrace.datastream.aggregates import stddev_pop
        >>> stddev_pop("amount")
        PopulationDeviation(column='amount', name=None)
    """
    return PopulationDeviation(column)


def stddev_samp(column: str | int | Expression | None = None) -> SampleDeviation:
    """The standard deviation of a column of numbers that are a sample; null when there is one value only.

    Examples:
        >>> from headrace.datastream.aggregates import stddev_samp
        >>> stddev_samp("amount").alias("spread")
        SampleDeviation(column='amount', name='spread')
    """
    return SampleDeviation(column)


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


def _deviations(counts: Longs, total: Expansion, squares: Expansion) -> Doubles:
    """The sums of squared distances from the mean: (n Σx² - (Σx)²) / n, rounded; 0 where there are no values."""
    numbers = np.maximum(counts, 1).astype(np.float64)
    (sums, has_all), (square_sums, has_all_squares) = _terms(total), _terms(squares)
    sizes = np.maximum(np.abs(total.hi), squares.hi)
    is_plain = has_all & has_all_squares & (sizes < _PLAIN[0]) & ((squares.hi > _PLAIN[1]) | (squares.hi == 0))
    plain = [[np.where(is_plain, term, 0.0) for term in terms] for terms in (sums, square_sums)]
    deviations = _plain_deviations(numbers, *plain)
    for group in np.flatnonzero(~is_plain).tolist():
        n = int(numbers[group])
        exact = exact_sum.exact_value(squares, group) - exact_sum.exact_value(total, group) ** 2 / Fraction(n)
        deviations[group] = exact_sum.rounded(exact)
    return np.maximum(deviations, 0.0)


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


def _plain_deviations(n: Doubles, sums: list[Doubles], squares: list[Doubles]) -> Doubles:
    """The same where sums have few terms, of a usual size."""
    products = [(n, square) for square in squares] + [(-term, term) for term in sums]
    products += [(-2 * first, second) for first, second in combinations(sums, 2)]
    terms = exact_sum.distilled([term for pair in products for term in exact_sum.two_product(*pair)])
    if not terms:
        return np.zeros(len(n))
    quotient = terms[0] / n
    product, error = exact_sum.two_product(quotient, n)
    remainder = (terms[0] - product) - error + (terms[1] if len(terms) > 1 else 0.0)
    return quotient + remainder / n
