"""``sum`` and ``avg``, and the aggregators behind them, which sum exactly: nothing depends on how the input was cut."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import BasicType, Types
from headrace.common.typeinfo.base import FLOATS, WHOLE_NUMBERS
from headrace.operators.aggregates import exact_sum
from headrace.operators.aggregates.aggregate import Aggregate, BoundAggregate, is_one_of
from headrace.operators.aggregates.aggregator import (
    ColumnAggregator,
    any_valid,
    either_valid,
    filled,
    merged_pairs,
    running_sums,
)
from headrace.operators.aggregates.counts import CountValues
from headrace.operators.aggregates.exact_sum import IntegerOverflowError, SumDecimals, quotients
from headrace.operators.arrays import fixed_width, of_fixed_width, validity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.expressions import Expression
    from headrace.operators.aggregates.aggregate import InputColumn
    from headrace.operators.aggregates.aggregator import Aggregator, Fields, GroupedRows, Longs, Mask
    from headrace.state.runs.grouping import RowGroups, Segments


@dataclass(frozen=True, slots=True)
class SumIntegers(ColumnAggregator):
    """The exact sum of integers: its low 64 bits, and a carry, null where there is none.

    Results are a column of 64-bit integers, or of decimals when one of them does not fit.
    """

    stored_name: ClassVar[str] = "SumIntegers"
    is_scatterable: ClassVar[bool] = True

    @property
    def fields(self) -> Fields:
        return (f"sum({self.name})", Types.LONG()), (f"sum({self.name}).carry", Types.INT())

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


@dataclass(frozen=True, slots=True, eq=False)
class Sum(Aggregate):
    """The sum: of integers as ``LONG``, an error when it does not fit; of floats as ``DOUBLE``, rounded once.

    That of decimals is a decimal.
    """

    function = "sum"

    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        aggregator = self._aggregator(column, retracts=retracts)
        if isinstance(aggregator, SumFloats):
            return BoundAggregate(name, Types.DOUBLE(), (aggregator,))
        counted = (CountValues(column.source, column.name),) if retracts else ()
        if isinstance(aggregator, SumDecimals):
            return BoundAggregate(name, Types.BIG_DEC(), (aggregator, *counted), _where_counted)
        return BoundAggregate(name, Types.LONG(), (aggregator, *counted), partial(_fitting, column.name))

    def _aggregator(self, column: InputColumn, *others: InputColumn, retracts: bool) -> Aggregator:
        if is_one_of(column.type, WHOLE_NUMBERS):
            return SumIntegers(column.source, column.name)
        if is_one_of(column.type, FLOATS):
            return (SumFiniteFloats if retracts else SumFloats)(column.source, column.name)
        if is_one_of(column.type, {BasicType.BIG_DEC}):
            return SumDecimals(column.source, column.name)
        raise self._refuse(column, "numbers of up to 64 bits, or decimals")


@dataclass(frozen=True, slots=True, eq=False)
class Average(Sum):
    """The exact sum, rounded, divided by the number of values: a ``DOUBLE``; of decimals a decimal of 38 digits."""

    function = "avg"

    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        total = self._aggregator(column, retracts=retracts)
        aggregators = total, CountValues(column.source, column.name)
        if isinstance(total, SumDecimals):
            return BoundAggregate(name, Types.BIG_DEC(), aggregators, quotients)
        return BoundAggregate(name, Types.DOUBLE(), aggregators, _divided)


def sum(column: str | int | Expression | None = None) -> Sum:
    """The sum of a column of numbers.

    Examples:
        >>> from headrace.datastream.aggregates import sum
        >>> from headrace.expressions import col
        >>> sum("amount")
        Sum(column='amount', name=None)
        >>> sum(col("price") * col("quantity")).alias("spent")
        Sum(column=col("price") * col("quantity"), name='spent')
    """
    return Sum(column)


def avg(column: str | int | Expression | None = None) -> Average:
    """The average of a column of numbers.

    Examples:
        >>> from headrace.datastream.aggregates import avg
        >>> avg("amount").alias("mean")
        Average(column='amount', name='mean')
    """
    return Average(column)


def _where_counted(results: Sequence[pa.Array]) -> pa.Array:
    """Sums, null where all values were taken back, which only a count beside them tells."""
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
