"""Aggregators: what a window remembers for its aggregates, each a few columns of accumulators, and the list of them.

``sum("v")`` and ``avg("v")`` need the same sum; a window keeps it once. An aggregator makes an accumulator of each
group of rows (``accumulate``), one accumulator of several of the same group (``merge``), and a value of an accumulator
(``result``). Merging is associative, and but for :class:`FirstOrLast` commutative: nothing depends on how the input was
cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import Types
from headrace.expressions import Bound
from headrace.operators.window import exact_sum
from headrace.operators.window.arrays import fixed_width, gather, is_fixed_width, of_fixed_width, validity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.state.runs.grouping import Groups, Segments

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]
    Fields = tuple[tuple[str, TypeInformation], ...]

Input = int | Bound
"""What an aggregator looks at: a column of the input by its position, or what is computed of its columns."""

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
class Aggregator(ABC):
    """Makes and merges accumulators of one kind; equal aggregators are kept once.

    Class attributes:
        stored_name: the name of the kind in the description of stored runs; it must not change.
    """

    stored_name: ClassVar[str]

    @property
    @abstractmethod
    def fields(self) -> Fields:
        """Names and types of the columns of an accumulator."""

    @abstractmethod
    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        """The accumulator of each group of rows."""

    @abstractmethod
    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        """The accumulator of each group of accumulators, which lie group after group in order of arrival."""

    def result(self, columns: list[pa.Array]) -> pa.Array:
        """The value of each accumulator; null when there was none among the rows."""
        return columns[0]


@dataclass(frozen=True, slots=True)
class CountRows(Aggregator):
    """How many records there were."""

    stored_name: ClassVar[str] = "CountRows"

    @property
    def fields(self) -> Fields:
        return (("records", Types.LONG()),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return [pa.array(rows.groups.segments.counts)]

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return [pa.array(segments.reduce(np.add, fixed_width(columns[0])))]


@dataclass(frozen=True, slots=True)
class KeyField(Aggregator):
    """A field of the key itself, the same in all rows of a group."""

    stored_name: ClassVar[str] = "KeyField"
    column: int
    name: str
    type: TypeInformation

    @property
    def fields(self) -> Fields:
        return ((f"key({self.name})", self.type),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return [rows.first_values(self.column)]

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return [columns[0] if segments.are_single else gather(columns[0], segments.starts)]


@dataclass(frozen=True, slots=True)
class ColumnAggregator(Aggregator):
    """An aggregator that looks at one column.

    Attributes:
        column: its position in the input, or the expression that computes it.
        name: its name, for the columns of the accumulator.
    """

    column: Input
    name: str


@dataclass(frozen=True, slots=True)
class CountValues(ColumnAggregator):
    """How many values there were that are not null."""

    stored_name: ClassVar[str] = "CountValues"

    @property
    def fields(self) -> Fields:
        return ((f"count({self.name})", Types.LONG()),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        valid = validity(rows.column(self.column))
        segments = rows.groups.segments
        return [pa.array(segments.counts if valid is None else segments.reduce(np.add, valid.astype(np.int64)))]

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return [pa.array(segments.reduce(np.add, fixed_width(columns[0])))]


@dataclass(frozen=True, slots=True)
class SumIntegers(ColumnAggregator):
    """The exact sum of integers: its low 64 bits, and a carry, null where there is none.

    Results are a column of 64-bit integers, or of decimals when one of them does not fit.
    """

    stored_name: ClassVar[str] = "SumIntegers"

    @property
    def fields(self) -> Fields:
        return (f"sum({self.name})", Types.LONG()), (f"sum({self.name}).carry", Types.INT())

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return self._summed(rows.column(self.column), None, rows.groups.segments)

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        return self._summed(columns[0], columns[1], segments)

    def result(self, columns: list[pa.Array]) -> pa.Array:
        low, carries = columns
        if carries.null_count == len(carries):
            return low
        pairs = zip(low.to_pylist(), carries.to_pylist(), strict=True)
        exact = [None if value is None else value + ((carry or 0) << 64) for value, carry in pairs]
        return pa.array(exact, pa.decimal128(38))

    def _summed(self, array: pa.Array, carried: pa.Array | None, segments: Segments) -> list[pa.Array]:
        values, valid = _filled(array, np.int64)
        sums, carries = exact_sum.sum_integers(values, segments)
        if carried is not None and carried.null_count < len(carried):
            before = segments.reduce(np.add, _filled(carried, np.int64)[0])
            carries = before if carries is None else before + carries
        return [of_fixed_width(sums, any_valid(valid, segments), pa.int64()), _carry_column(carries, len(sums))]


@dataclass(frozen=True, slots=True)
class SumFloats(ColumnAggregator):
    """The exact sum of floats: see :mod:`headrace.operators.window.exact_sum`."""

    stored_name: ClassVar[str] = "SumFloats"

    @property
    def fields(self) -> Fields:
        name = f"sum({self.name})"
        return (
            (name, Types.DOUBLE()),
            (f"{name}.lo", Types.DOUBLE()),
            (f"{name}.rest", Types.LIST(Types.DOUBLE())),
        )

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
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
class Extreme(ColumnAggregator):
    """The smallest or the largest value.

    NaN is larger than any number, as in Spark, and ``-0.0`` is ``0.0``; text compares by code points.
    """

    stored_name: ClassVar[str] = "Extreme"
    type: TypeInformation
    is_largest: bool

    @property
    def fields(self) -> Fields:
        return ((f"{'max' if self.is_largest else 'min'}({self.name})", self.type),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
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
class FirstOrLast(ColumnAggregator):
    """The first or the last value that is not null, in the order in which records came.

    The arrival, a number that grows with epoch and place in the epoch, is kept with the value, so that the order of
    runs of state does not matter.
    """

    stored_name: ClassVar[str] = "Edge"
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


@dataclass(frozen=True)
class AggregatorList:
    """What is remembered for a key and window; each aggregator has some of the columns.

    Attributes:
        members: the aggregators in the order of their columns, all different.
    """

    members: tuple[Aggregator, ...]

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        """The columns of the accumulators of each group of rows."""
        return [column for aggregator in self.members for column in aggregator.accumulate(rows)]

    def merge(self, columns: Sequence[pa.Array], segments: Segments) -> list[pa.Array]:
        """The columns of each group of accumulators, which lie group after group."""
        pairs = zip(self.members, self._split(columns), strict=True)
        return [column for aggregator, own in pairs for column in aggregator.merge(own, segments)]

    def results(self, columns: Sequence[pa.Array]) -> dict[Aggregator, pa.Array]:
        """The value of each aggregator."""
        pairs = zip(self.members, self._split(columns), strict=True)
        return {aggregator: aggregator.result(own) for aggregator, own in pairs}

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """What the aggregators look at, each once."""
        found = (getattr(aggregator, "column", None) for aggregator in self.members)
        return tuple(dict.fromkeys(source for source in found if source is not None))

    def to_json(self) -> list[dict[str, Any]]:
        """What has to be known to merge accumulators, without the program that made them."""
        return [
            {"kind": aggregator.stored_name}
            | {name: getattr(aggregator, name) for name in _STORED_FIELDS if hasattr(aggregator, name)}
            for aggregator in self.members
        ]

    @staticmethod
    def for_merging(described: Sequence[dict[str, Any]]) -> AggregatorList:
        """Aggregators that merge as those described do; columns and types of the input are not known any more."""
        return AggregatorList(tuple(_for_merging(dict(entry)) for entry in described))

    def _split(self, columns: Sequence[pa.Array]) -> list[list[pa.Array]]:
        """The columns of each aggregator."""
        bounds = [0, *accumulate(len(aggregator.fields) for aggregator in self.members)]
        return [list(columns[start:stop]) for start, stop in pairwise(bounds)]


_STORED_FIELDS: Final = ("name", "is_largest", "is_last")
"""What the description of an aggregator holds besides its kind."""

_OF_STORED_NAME: Final[dict[str, type[Aggregator]]] = {
    kind.stored_name: kind for kind in (CountRows, CountValues, Extreme, FirstOrLast, KeyField, SumFloats, SumIntegers)
}


def _for_merging(entry: dict[str, Any]) -> Aggregator:
    kind = _OF_STORED_NAME[entry.pop("kind")]
    unknown: dict[str, Any] = {"column": -1, "type": Types.PICKLED_BYTE_ARRAY()}
    return kind(**entry, **{name: value for name, value in unknown.items() if name in kind.__dataclass_fields__})


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
