"""Aggregates that keep a number or one of the values: counts, truth of booleans, smallest, largest, first and last."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import (
    decimal_array,
    fixed_width,
    gather,
    is_fixed_width,
    of_fixed_width,
    unscaled_words,
    validity,
)
from headrace.common.typeinfo import BasicType, TypeInformation, Types
from headrace.operators.aggregates.aggregate import ORDERED, Aggregate, AnyColumn, ColumnTypes, InputColumn, is_one_of
from headrace.operators.aggregates.aggregator import (
    Aggregator,
    BoundAggregate,
    ColumnAggregator,
    Emit,
    Fields,
    GroupedRows,
    Input,
    Longs,
    Mask,
    any_valid,
    differences,
    either_valid,
    merged_pairs,
    running_sums,
)
from headrace.operators.aggregates.distinct import Multiset, element_at, running_extreme
from headrace.state.keys.typed import look_alike
from headrace.state.runs.grouping import RowGroups, Segments


class IntegerTotal(Aggregator):
    """An integer that is added up modulo 2**64, which is never null: a number of records, say."""

    __slots__ = ()

    is_scatterable: ClassVar[bool] = True

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return [pa.array(segments.reduce(np.add, fixed_width(columns[0])))]

    def combine(self, older: list[pa.Array], newer: list[pa.Array]) -> list[pa.Array]:
        return [pa.array(fixed_width(older[0]) + fixed_width(newer[0]))]

    def scan(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return [pa.array(running_sums(fixed_width(columns[0]), segments))]

    def of_ranges(self, columns: list[pa.Array], low: Longs, high: Longs) -> list[pa.Array]:
        return differences(self, columns, low, high)

    def negate(self, columns: list[pa.Array]) -> list[pa.Array]:
        return [pa.array(-fixed_width(columns[0]))]

    def is_reversible(self, columns: list[pa.Array]) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class CountRows(IntegerTotal):
    """The number of records."""

    stored_name: ClassVar[str] = "CountRows"
    fields: ClassVar[Fields] = (("records", Types.LONG()),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return [pa.array(rows.segments.counts)]


@dataclass(frozen=True, slots=True)
class CountValues(IntegerTotal, ColumnAggregator):
    """The number of values that are not null."""

    stored_name: ClassVar[str] = "CountValues"

    @property
    def fields(self) -> Fields:
        return ((f"count({self.name})", Types.LONG()),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        valid = validity(rows.column(self.column))
        segments = rows.segments
        return [pa.array(segments.counts if valid is None else segments.reduce(np.add, valid.astype(np.int64)))]


@dataclass(frozen=True, slots=True)
class KeyField(Aggregator):
    """A field of the key itself, the same in all rows of a group."""

    stored_name: ClassVar[str] = "KeyField"
    parameters: ClassVar[tuple[str, ...]] = ("name",)
    is_scatterable: ClassVar[bool] = True
    column: int
    name: str
    type: TypeInformation

    @property
    def is_canonical(self) -> bool:
        """Return whether the results of equal keys look alike: ``0.0`` for ``-0.0`` as well."""
        return look_alike(self.type) or pa.types.is_floating(self.type.storage_type)

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.column,)

    @property
    def fields(self) -> Fields:
        return ((f"key({self.name})", self.type),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return [rows.first_values(self.column)]

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return [columns[0] if segments.are_single else gather(columns[0], segments.first_rows)]

    def combine(self, older: list[pa.Array], newer: list[pa.Array]) -> list[pa.Array]:
        return older

    def result(self, columns: list[pa.Array]) -> pa.Array:
        column = columns[0]
        return pc.add(column, pa.scalar(0, column.type)) if pa.types.is_floating(column.type) else column

    def scan(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return [gather(columns[0], segments.starts[segments.ids])]

    def negate(self, columns: list[pa.Array]) -> list[pa.Array]:
        return columns

    def is_reversible(self, columns: list[pa.Array]) -> bool:
        return True


def count(column: AnyColumn = None) -> Aggregate:
    """The number of records, or of those with a value in ``column``.

    Examples:
        >>> from headrace.datastream.aggregates import count
        >>> count()
        count()
        >>> count("amount").alias("payments")
        count('amount').alias('payments')
    """
    if column is None:
        return Aggregate("count", (), _count_of_rows, default_name="count")
    return Aggregate("count", (column,), _count_of_values)


def _count_of_rows(name: str) -> BoundAggregate:
    return BoundAggregate(name, Types.LONG(), (CountRows(),))


def _count_of_values(name: str, column: InputColumn) -> BoundAggregate:
    return BoundAggregate(name, Types.LONG(), (CountValues(column.source, column.name),))


@dataclass(frozen=True, slots=True)
class CountTrue(CountValues):
    """The number of values that are true."""

    stored_name: ClassVar[str] = "CountTrue"

    @property
    def fields(self) -> Fields:
        return ((f"true({self.name})", Types.LONG()),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return [pa.array(rows.segments.reduce(np.add, fixed_width(rows.column(self.column)).astype(np.int64)))]


def bool_and(column: AnyColumn = None) -> Aggregate:
    """True where all values of a column of booleans are true.

    Examples:
        >>> from headrace.datastream.aggregates import bool_and
        >>> from headrace.expressions import col
        >>> bool_and(col("amount") > 0).alias("all_positive")
        bool_and(col("amount") > 0).alias('all_positive')
    """
    return Aggregate("bool_and", (column,), partial(_of_booleans, _are_all_true), _BOOLEANS)


def bool_or(column: AnyColumn = None) -> Aggregate:
    """True where any value of a column of booleans is true.

    Examples:
        >>> from headrace.datastream.aggregates import bool_or
        >>> bool_or("is_refund")
        bool_or('is_refund')
    """
    return Aggregate("bool_or", (column,), partial(_of_booleans, _is_any_true), _BOOLEANS)


_BOOLEANS: Final = ColumnTypes(partial(is_one_of, {BasicType.BOOLEAN}), "booleans")


def _of_booleans(emit: Emit, name: str, column: InputColumn) -> BoundAggregate:
    aggregators = CountTrue(column.source, column.name), CountValues(column.source, column.name)
    return BoundAggregate(name, Types.BOOLEAN(), aggregators, emit)


def _are_all_true(results: Sequence[pa.Array]) -> pa.Array:
    true, values = map(fixed_width, results)
    return of_fixed_width(true == values, values > 0, pa.bool_())


def _is_any_true(results: Sequence[pa.Array]) -> pa.Array:
    true, values = map(fixed_width, results)
    return of_fixed_width(true > 0, values > 0, pa.bool_())


_NEVER = np.iinfo(np.int64).max


_BestOf = Callable[[npt.NDArray[Any], Mask | None], tuple[npt.NDArray[Any], Mask | None]]


@dataclass(frozen=True, slots=True)
class MinOrMax(ColumnAggregator):
    """The smallest or the largest value.

    NaN is larger than any number, as in Spark, and ``-0.0`` is ``0.0``; text compares by code points.
    """

    stored_name: ClassVar[str] = "Extreme"
    parameters: ClassVar[tuple[str, ...]] = ("name", "is_largest")
    is_scatterable: ClassVar[bool] = True
    is_idempotent: ClassVar[bool] = True
    type: TypeInformation
    is_largest: bool

    @property
    def fields(self) -> Fields:
        return ((f"{'max' if self.is_largest else 'min'}({self.name})", self.type),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return [self._best(rows.column(self.column), rows.segments)]

    def negate(self, columns: list[pa.Array]) -> list[pa.Array]:
        """Accumulators of no value: where values only grow, the one that comes next replaces what is taken back."""
        return [pa.nulls(len(columns[0]), columns[0].type)]

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return [self._best(columns[0], segments)]

    def combine(self, older: list[pa.Array], newer: list[pa.Array]) -> list[pa.Array]:
        if not is_fixed_width(older[0].type):
            return merged_pairs(partial(MinOrMax.merge, self), older, newer)
        (a, is_a), (b, is_b) = (self._filled(fixed_width(one), validity(one)) for one in (older[0], newer[0]))
        return [of_fixed_width(self._better(a.dtype)(a, b), either_valid(is_a, is_b), older[0].type)]

    def scan(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return [self._of_best(columns[0], lambda values, valid: self._running(values, valid, segments))]

    def _best(self, array: pa.Array, segments: RowGroups) -> pa.Array:
        if segments.are_single and not is_fixed_width(array.type):
            return array
        return self._of_best(array, lambda values, valid: self._reduced(values, valid, segments))

    def _of_best(self, array: pa.Array, best_of: _BestOf) -> pa.Array:
        """The values that a function picks by numbers that compare as the values do."""
        if is_fixed_width(array.type):
            return of_fixed_width(*best_of(fixed_width(array), validity(array)), array.type)
        if len(array) and pa.types.is_decimal128(array.type):
            words, fits = unscaled_words(array)
            if fits.all():
                best, found = best_of(np.ascontiguousarray(words), validity(array))
                like = pa.array(best, mask=None if found is None else ~found)
                return decimal_array(best, array.type, like)
        encoded = array.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        codes = fixed_width(encoded.indices)
        valid = validity(array)
        ranked = ranks[codes if valid is None else np.where(valid, codes, 0)] if len(order) else np.zeros_like(codes)
        best, found = best_of(ranked, valid)
        places = pa.array(best, mask=None if found is None else ~found)
        return encoded.dictionary.take(pa.array(order)).take(places)

    def _running(
        self, values: npt.NDArray[Any], valid: Mask | None, segments: Segments
    ) -> tuple[npt.NDArray[Any], Mask | None]:
        """The best value so far in each group."""
        found = None if valid is None else running_sums(valid.astype(np.int64), segments) > 0
        values, _ = self._filled(values, valid)
        better, best = self._better(values.dtype), values.copy()
        places = np.arange(segments.total) - np.repeat(segments.starts, segments.counts)
        distance = 1
        while len(rows := np.flatnonzero(places >= distance)):  # each step looks twice as far back as the last
            best[rows] = better(best[rows], best[rows - distance])
            distance *= 2
        return best, found

    def _reduced(
        self, values: npt.NDArray[Any], valid: Mask | None, segments: RowGroups
    ) -> tuple[npt.NDArray[Any], Mask | None]:
        values, valid = self._filled(values, valid)
        return segments.reduce(self._better(values.dtype), values), any_valid(valid, segments)

    def _filled(self, values: npt.NDArray[Any], valid: Mask | None) -> tuple[npt.NDArray[Any], Mask | None]:
        """Values with one zero, and in place of nulls what every value beats."""
        if values.dtype.kind == "f":
            values = values + values.dtype.type(0)
        if valid is not None:
            values = np.where(valid, values, _identity(values.dtype, self.is_largest))
        return values, valid

    def _better(self, dtype: np.dtype[Any]) -> np.ufunc:
        # fmin passes over NaN, maximum keeps it: both make it the largest. But a maximum over nothing is no NaN.
        smallest = np.fmin if dtype.kind == "f" else np.minimum
        return np.maximum if self.is_largest else smallest


@dataclass(frozen=True, slots=True)
class FirstOrLast(ColumnAggregator):
    """The first or the last value that is not null, in the order in which records came.

    The arrival, a number that grows with epoch and place in the epoch, is kept with the value, so that the order of
    runs of state does not matter.
    """

    stored_name: ClassVar[str] = "Edge"
    parameters: ClassVar[tuple[str, ...]] = ("name", "is_last")
    type: TypeInformation
    is_last: bool

    @property
    def fields(self) -> Fields:
        name = f"{'last' if self.is_last else 'first'}({self.name})"
        return (name, self.type), (f"{name}.arrival", Types.LONG())

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return self._chosen(rows.column(self.column), rows.arrivals(), rows.groups.segments)

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        return self._chosen(columns[0], fixed_width(columns[1]), segments)

    def _chosen(self, values: pa.Array, arrivals: Longs, segments: Segments) -> list[pa.Array]:
        valid = validity(values)
        ranks = -arrivals if self.is_last else arrivals
        if valid is not None:
            ranks = np.where(valid, ranks, _NEVER)
        best = segments.reduce(np.minimum, ranks)
        rows = np.flatnonzero(ranks == best[segments.ids])
        # Where all values are null any row does: its value is the null that is wanted.
        first = rows[np.searchsorted(segments.ids[rows], np.arange(len(segments)))]
        return [gather(values, first), pa.array(arrivals[first])]


def min(column: AnyColumn = None) -> Aggregate:
    """The smallest value of a column.

    Examples:
        >>> from headrace.datastream.aggregates import min
        >>> min("amount")
        min('amount')
    """
    return Aggregate(
        "min", (column,), partial(_extreme, False), ORDERED, make_retractable=partial(_extreme_of_all, False)
    )


def max(column: AnyColumn = None) -> Aggregate:
    """The largest value of a column.

    Examples:
        >>> from headrace.datastream.aggregates import max
        >>> max("amount")
        max('amount')
    """
    return Aggregate(
        "max", (column,), partial(_extreme, True), ORDERED, make_retractable=partial(_extreme_of_all, True)
    )


def first(column: AnyColumn = None) -> Aggregate:
    """The value of the record that came first and has one.

    Examples:
        >>> from headrace.datastream.aggregates import first
        >>> first("amount")
        first('amount')
    """
    return Aggregate("first", (column,), partial(_first_or_last, False), why_not_retractable=_FORGETFUL)


def last(column: AnyColumn = None) -> Aggregate:
    """The value of the record that came last and has one.

    Examples:
        >>> from headrace.datastream.aggregates import last
        >>> last("amount")
        last('amount')
    """
    return Aggregate("last", (column,), partial(_first_or_last, True), why_not_retractable=_FORGETFUL)


_FORGETFUL: Final = "of the values it remembers one, and not which would be next"


def _extreme_of_all(is_largest: bool, name: str, column: InputColumn) -> BoundAggregate:
    """Remembers all values: the next one counts once the smallest, or the largest, is taken back."""
    values = Multiset(column.source, column.name, column.type)
    emit = partial(element_at, -1 if is_largest else 0)
    return BoundAggregate(name, column.type, (values,), emit, running=partial(running_extreme, is_largest))


def _extreme(is_largest: bool, name: str, column: InputColumn) -> BoundAggregate:
    return BoundAggregate(name, column.type, (MinOrMax(column.source, column.name, column.type, is_largest),))


def _first_or_last(is_last: bool, name: str, column: InputColumn) -> BoundAggregate:
    chosen = FirstOrLast(column.source, column.name, column.type, is_last)
    return BoundAggregate(name, column.type, (chosen,), is_ordered=True)


def _identity(dtype: np.dtype[Any], is_largest: bool) -> Any:
    """The start of a search for the best value: every value is better."""
    if dtype.kind == "f":
        return dtype.type(-np.inf if is_largest else np.nan)
    limits = np.iinfo(dtype)
    return limits.min if is_largest else limits.max
