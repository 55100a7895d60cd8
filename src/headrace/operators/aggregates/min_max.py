"""``min``, ``max``, ``first`` and ``last``, and the aggregators behind them, which choose one of the values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import Types
from headrace.operators.aggregates.aggregate import Aggregate, BoundAggregate, has_order
from headrace.operators.aggregates.aggregator import ColumnAggregator, any_valid, either_valid, merged_pairs
from headrace.operators.aggregates.multisets import Multiset, element_at, running_extreme
from headrace.operators.arrays import fixed_width, gather, is_fixed_width, of_fixed_width, validity

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.expressions import Expression
    from headrace.operators.aggregates.aggregate import InputColumn
    from headrace.operators.aggregates.aggregator import Fields, GroupedRows, Longs, Mask
    from headrace.state.runs.grouping import RowGroups, Segments


_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Extreme(ColumnAggregator):
    """The smallest or the largest value.

    NaN is larger than any number, as in Spark, and ``-0.0`` is ``0.0``; text compares by code points.
    """

    stored_name: ClassVar[str] = "Extreme"
    parameters: ClassVar[tuple[str, ...]] = ("name", "is_largest")
    is_scatterable: ClassVar[bool] = True
    type: TypeInformation
    is_largest: bool

    @property
    def fields(self) -> Fields:
        return ((f"{'max' if self.is_largest else 'min'}({self.name})", self.type),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return [self._best(rows.column(self.column), rows.segments)]

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return [self._best(columns[0], segments)]

    def combine(self, older: list[pa.Array], newer: list[pa.Array]) -> list[pa.Array]:
        if not is_fixed_width(older[0].type):
            return merged_pairs(partial(Extreme.merge, self), older, newer)
        (a, is_a), (b, is_b) = (self._filled(fixed_width(one), validity(one)) for one in (older[0], newer[0]))
        return [of_fixed_width(self._better(a.dtype)(a, b), either_valid(is_a, is_b), older[0].type)]

    def _best(self, array: pa.Array, segments: RowGroups) -> pa.Array:
        if is_fixed_width(array.type):
            values, valid = self._reduced(fixed_width(array), validity(array), segments)
            return of_fixed_width(values, valid, array.type)
        if segments.are_single:
            return array
        encoded = array.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        codes = fixed_width(encoded.indices)
        valid = validity(array)
        ranked = ranks[codes if valid is None else np.where(valid, codes, 0)] if len(order) else np.zeros_like(codes)
        best, found = self._reduced(ranked, valid, segments)
        places = pa.array(best, mask=None if found is None else ~found)
        return encoded.dictionary.take(pa.array(order)).take(places)

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


@dataclass(frozen=True, slots=True, eq=False)
class Minimum(Aggregate):
    """The smallest value."""

    function = "min"
    is_largest: ClassVar[bool] = False

    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        if not has_order(column.type):
            raise self._refuse(column, "numbers, text, booleans, dates and times")
        if retracts:  # the next one counts once the smallest is taken back, so all are remembered
            values = Multiset(column.source, column.name, column.type)
            emit = partial(element_at, -1 if self.is_largest else 0)
            return BoundAggregate(name, column.type, (values,), emit, running=partial(running_extreme, self.is_largest))
        extreme = Extreme(column.source, column.name, column.type, self.is_largest)
        return BoundAggregate(name, column.type, (extreme,))


@dataclass(frozen=True, slots=True, eq=False)
class Maximum(Minimum):
    """The largest value."""

    function = "max"
    is_largest = True


@dataclass(frozen=True, slots=True, eq=False)
class First(Aggregate):
    """The value that came first."""

    function = "first"
    why_not_retractable = "of the values it remembers one, and not which would be next"
    is_last: ClassVar[bool] = False

    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        chosen = FirstOrLast(column.source, column.name, column.type, self.is_last)
        return BoundAggregate(name, column.type, (chosen,), is_ordered=True)


@dataclass(frozen=True, slots=True, eq=False)
class Last(First):
    """The value that came last."""

    function = "last"
    is_last = True


def min(column: str | int | Expression | None = None) -> Minimum:
    """The smallest value of a column.

    Examples:
        >>> from headrace.datastream.aggregates import min
        >>> min("amount")
        Minimum(column='amount', name=None)
    """
    return Minimum(column)


def max(column: str | int | Expression | None = None) -> Maximum:
    """The largest value of a column.

    Examples:
        >>> from headrace.datastream.aggregates import max
        >>> max("amount")
        Maximum(column='amount', name=None)
    """
    return Maximum(column)


def first(column: str | int | Expression | None = None) -> First:
    """The value of the record that came first and has one.

    Examples:
        >>> from headrace.datastream.aggregates import first
        >>> first("amount")
        First(column='amount', name=None)
    """
    return First(column)


def last(column: str | int | Expression | None = None) -> Last:
    """The value of the record that came last and has one.

    Examples:
        >>> from headrace.datastream.aggregates import last
        >>> last("amount")
        Last(column='amount', name=None)
    """
    return Last(column)


def _identity(dtype: np.dtype[Any], is_largest: bool) -> Any:
    """What every value beats."""
    if dtype.kind == "f":
        return dtype.type(-np.inf if is_largest else np.nan)
    limits = np.iinfo(dtype)
    return limits.min if is_largest else limits.max
