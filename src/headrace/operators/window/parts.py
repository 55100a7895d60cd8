"""What a window remembers: the pieces that aggregates are made of, each a few columns of partial results.

``sum("v")`` and ``avg("v")`` need the same sum; a window keeps it once. A part turns rows into a partial result a group
(``begin``), partial results of the same group into one (``merge``), and a partial result into a value (``result``).
Merging is associative, and but for :class:`Edge` commutative: no part depends on how the input was cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import Types
from headrace.expressions import Bound
from headrace.operators.window import exact_sum
from headrace.operators.window.arrays import fixed_width, gather, is_fixed_width, of_fixed_width, validity

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.window.kernels import Groups, Segments

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]
    Fields = tuple[tuple[str, TypeInformation], ...]

Input = int | Bound
"""What a part looks at: a column of the input by its position, or what is computed of its columns."""

_NEVER = np.iinfo(np.int64).max


class GroupedRows:
    """The input columns of a batch, in the order of their groups; a column is gathered once.

    Attributes:
        groups: how the rows are grouped.
    """

    def __init__(self, columns: Mapping[Input, pa.Array], arrivals: Longs, groups: Groups) -> None:
        self.groups = groups
        self._columns = columns
        self._arrivals = arrivals
        self._gathered: dict[Input, pa.Array] = {}

    def column(self, source: Input) -> pa.Array:
        """One column, group after group."""
        if source not in self._gathered:
            self._gathered[source] = gather(self._columns[source], self.groups.order)
        return self._gathered[source]

    def first_values(self, index: int) -> pa.Array:
        """One column's value in the earliest row of each group."""
        return gather(self._columns[index], self.groups.first_rows)

    def arrivals(self) -> Longs:
        """When each row came, group after group."""
        return self._arrivals[self.groups.order]


@dataclass(frozen=True, slots=True)
class Part(ABC):
    """A piece of what a window remembers; equal parts are kept once."""

    @property
    @abstractmethod
    def fields(self) -> Fields:
        """Names and types of the columns of a partial result."""

    @abstractmethod
    def begin(self, rows: GroupedRows) -> list[pa.Array]:
        """The partial result of each group of rows."""

    @abstractmethod
    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        """The partial result of each group of partial results, which lie group after group in order of arrival."""

    def result(self, columns: list[pa.Array]) -> pa.Array:
        """The value that a partial result stands for; null when there was no value."""
        return columns[0]


@dataclass(frozen=True, slots=True)
class CountRows(Part):
    """How many records there were."""

    @property
    def fields(self) -> Fields:
        return (("records", Types.LONG()),)

    def begin(self, rows: GroupedRows) -> list[pa.Array]:
        return [pa.array(rows.groups.segments.counts)]

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return [pa.array(segments.reduce(np.add, fixed_width(columns[0])))]


@dataclass(frozen=True, slots=True)
class KeyField(Part):
    """A field of the key itself, the same in all rows of a group."""

    column: int
    name: str
    type: TypeInformation

    @property
    def fields(self) -> Fields:
        return ((f"key({self.name})", self.type),)

    def begin(self, rows: GroupedRows) -> list[pa.Array]:
        return [rows.first_values(self.column)]

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return [columns[0] if segments.are_single else gather(columns[0], segments.starts)]


@dataclass(frozen=True, slots=True)
class ColumnPart(Part):
    """A part that looks at one column.

    Attributes:
        column: its position in the input, or the expression that computes it.
        name: its name, for the columns of the partial result.
    """

    column: Input
    name: str


@dataclass(frozen=True, slots=True)
class CountValues(ColumnPart):
    """How many values there were that are not null."""

    @property
    def fields(self) -> Fields:
        return ((f"count({self.name})", Types.LONG()),)

    def begin(self, rows: GroupedRows) -> list[pa.Array]:
        valid = validity(rows.column(self.column))
        segments = rows.groups.segments
        return [pa.array(segments.counts if valid is None else segments.reduce(np.add, valid.astype(np.int64)))]

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return [pa.array(segments.reduce(np.add, fixed_width(columns[0])))]


@dataclass(frozen=True, slots=True)
class SumIntegers(ColumnPart):
    """The exact sum of integers: its low 64 bits, and a carry, null where there is none. The result has to fit."""

    @property
    def fields(self) -> Fields:
        return (f"sum({self.name})", Types.LONG()), (f"sum({self.name}).carry", Types.INT())

    def begin(self, rows: GroupedRows) -> list[pa.Array]:
        return self._summed(rows.column(self.column), None, rows.groups.segments)

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        return self._summed(columns[0], columns[1], segments)

    def result(self, columns: list[pa.Array]) -> pa.Array:
        if columns[1].null_count < len(columns[1]):
            raise exact_sum.IntegerOverflowError(
                f"the sum of {self.name!r} does not fit into 64 bits: sum it as double, or the column cast to double"
            )
        return columns[0]

    def _summed(self, array: pa.Array, carried: pa.Array | None, segments: Segments) -> list[pa.Array]:
        values, valid = _filled(array, np.int64)
        sums, carries = exact_sum.sum_integers(values, segments)
        if carried is not None and carried.null_count < len(carried):
            before = segments.reduce(np.add, _filled(carried, np.int64)[0])
            carries = before if carries is None else before + carries
        return [of_fixed_width(sums, any_valid(valid, segments), pa.int64()), _carry_column(carries, len(sums))]


@dataclass(frozen=True, slots=True)
class SumFloats(ColumnPart):
    """The exact sum of floats: see :mod:`headrace.operators.window.exact_sum`."""

    @property
    def fields(self) -> Fields:
        name = f"sum({self.name})"
        return (
            (name, Types.DOUBLE()),
            (f"{name}.lo", Types.DOUBLE()),
            (f"{name}.rest", Types.LIST(Types.DOUBLE())),
        )

    def begin(self, rows: GroupedRows) -> list[pa.Array]:
        segments = rows.groups.segments
        values, valid = _filled(rows.column(self.column), np.float64)
        return self._columns(exact_sum.sum_values(values, segments), any_valid(valid, segments))

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        valid = validity(columns[0])
        return self._columns(exact_sum.merge_sums(self._expansion(columns), segments), any_valid(valid, segments))

    def result(self, columns: list[pa.Array]) -> pa.Array:
        return of_fixed_width(exact_sum.round_sums(self._expansion(columns)), validity(columns[0]), pa.float64())

    def _expansion(self, columns: list[pa.Array]) -> exact_sum.Expansion:
        return exact_sum.Expansion(_filled(columns[0], np.float64)[0], fixed_width(columns[1]), columns[2])

    def _columns(self, sums: exact_sum.Expansion, valid: Mask | None) -> list[pa.Array]:
        rest = pa.nulls(len(sums.hi), pa.list_(pa.float64())) if sums.rest is None else sums.rest
        return [of_fixed_width(sums.hi, valid, pa.float64()), pa.array(sums.lo), rest]


@dataclass(frozen=True, slots=True)
class Extreme(ColumnPart):
    """The smallest or the largest value.

    NaN is larger than any number, as in Spark, and ``-0.0`` is ``0.0``; text compares by code points.
    """

    type: TypeInformation
    is_largest: bool

    @property
    def fields(self) -> Fields:
        return ((f"{'max' if self.is_largest else 'min'}({self.name})", self.type),)

    def begin(self, rows: GroupedRows) -> list[pa.Array]:
        return self.merge([rows.column(self.column)], rows.groups.segments)

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        array = columns[0]
        if is_fixed_width(array.type):
            values, valid = self._reduced(fixed_width(array), validity(array), segments)
            return [of_fixed_width(values, valid, array.type)]
        if segments.are_single:
            return [array]
        encoded = array.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        codes = fixed_width(encoded.indices)
        valid = validity(array)
        ranked = ranks[codes if valid is None else np.where(valid, codes, 0)] if len(order) else np.zeros_like(codes)
        best, found = self._reduced(ranked, valid, segments)
        places = pa.array(best, mask=None if found is None else ~found)
        return [encoded.dictionary.take(pa.array(order)).take(places)]

    def _reduced(
        self, values: npt.NDArray[Any], valid: Mask | None, segments: Segments
    ) -> tuple[npt.NDArray[Any], Mask | None]:
        if values.dtype.kind == "f":
            values = values + values.dtype.type(0)
        if valid is not None:
            values = np.where(valid, values, _identity(values.dtype, self.is_largest))
        # fmin passes over NaN, maximum keeps it: both make it the largest. But a maximum over nothing is no NaN.
        smallest = np.fmin if values.dtype.kind == "f" else np.minimum
        return segments.reduce(np.maximum if self.is_largest else smallest, values), any_valid(valid, segments)


@dataclass(frozen=True, slots=True)
class Edge(ColumnPart):
    """The first or the last value that is not null, in the order in which records came.

    The arrival, a number that grows with epoch and place in the epoch, is kept with the value, so that the order of
    runs of state does not matter.
    """

    type: TypeInformation
    is_last: bool

    @property
    def fields(self) -> Fields:
        name = f"{'last' if self.is_last else 'first'}({self.name})"
        return (name, self.type), (f"{name}.arrival", Types.LONG())

    def begin(self, rows: GroupedRows) -> list[pa.Array]:
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


def _carry_column(carries: Longs | None, count: int) -> pa.Array:
    if carries is None:
        return pa.nulls(count, pa.int32())
    return of_fixed_width(carries.astype(np.int32), carries != 0, pa.int32())


def any_valid(valid: Mask | None, segments: Segments) -> Mask | None:
    """Which groups have a value at all; None when all have."""
    return None if valid is None else np.asarray(segments.reduce(np.logical_or, valid), dtype=np.bool_)


def _filled(array: pa.Array, dtype: Any) -> tuple[npt.NDArray[Any], Mask | None]:
    """The values as numbers of one type, zero in place of nulls."""
    valid = validity(array)
    values = fixed_width(array)
    if valid is not None:
        values = np.where(valid, values, values.dtype.type(0))
    return values.astype(dtype, copy=False), valid


def _identity(dtype: np.dtype[Any], is_largest: bool) -> Any:
    """What every value beats."""
    if dtype.kind == "f":
        return dtype.type(-np.inf if is_largest else np.nan)
    limits = np.iinfo(dtype)
    return limits.min if is_largest else limits.max
