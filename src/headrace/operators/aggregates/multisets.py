"""Aggregates over the distinct values of a group and how often each came, and the aggregator that keeps these."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import Types
from headrace.operators.aggregates.aggregate import Aggregate, BoundAggregate, has_order
from headrace.operators.aggregates.aggregator import ColumnAggregator, running_sums
from headrace.operators.arrays import fixed_width, list_lengths, lists_of
from headrace.state.runs.grouping import Segments, sorted_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.expressions import Expression
    from headrace.operators.aggregates.aggregate import InputColumn
    from headrace.operators.aggregates.aggregator import Fields, GroupedRows, Longs


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
            groups, column = groups[column.is_valid().to_numpy(zero_copy_only=False)], column.drop_null()
        values = self.values(column)
        return _counted(groups, values, np.ones(len(values), np.int64), len(segments))

    def values(self, column: pa.Array) -> pa.Array:
        """What is counted of a column without nulls."""
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
    """How many different values there are in each multiset merged with all before it in its group."""
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
    def of(columns: list[pa.Array], segments: Segments) -> _Presence:
        """What accumulators say when they are merged one after the other."""
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


class _OfDistinctValues(Aggregate):
    """An aggregate of the values as a multiset."""

    __slots__ = ()

    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        if not has_order(column.type):
            raise self._refuse(column, "numbers, text, booleans, dates and times")
        values = Multiset(column.source, column.name, column.type)
        return BoundAggregate(name, self._type(column.type), (values,), self._emitted)

    @staticmethod
    @abstractmethod
    def _type(values: TypeInformation) -> TypeInformation:
        """The type of the result."""

    @staticmethod
    @abstractmethod
    def _emitted(results: Sequence[pa.Array]) -> pa.Array:
        """What is emitted of multisets."""


@dataclass(frozen=True, slots=True, eq=False)
class CountDistinct(_OfDistinctValues):
    """How many different values there were, not counting null."""

    function = "count_distinct"

    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        bound = _OfDistinctValues._bound(self, name, column, retracts=retracts)
        return replace(bound, running=running_distinct)

    @staticmethod
    def _type(values: TypeInformation) -> TypeInformation:
        return Types.LONG()

    @staticmethod
    def _emitted(results: Sequence[pa.Array]) -> pa.Array:
        return pa.array(list_lengths(results[0].field("values")))


@dataclass(frozen=True, slots=True, eq=False)
class CollectSet(_OfDistinctValues):
    """A list of the different values, ascending."""

    function = "collect_set"

    @staticmethod
    def _type(values: TypeInformation) -> TypeInformation:
        return Types.LIST(values)

    @staticmethod
    def _emitted(results: Sequence[pa.Array]) -> pa.Array:
        values, _ = results[0].flatten()
        lengths = list_lengths(values)
        return lists_of(values.flatten(), lengths, is_missing=lengths == 0)


@dataclass(frozen=True, slots=True, eq=False)
class CollectMultiset(_OfDistinctValues):
    """A map from each value to how often it came."""

    function = "collect_multiset"

    @staticmethod
    def _type(values: TypeInformation) -> TypeInformation:
        return Types.MAP(values, Types.LONG())

    @staticmethod
    def _emitted(results: Sequence[pa.Array]) -> pa.Array:
        values, counts = results[0].flatten()
        lengths = list_lengths(values)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        places = pa.array(offsets, pa.int32(), mask=np.append(lengths == 0, False))
        return pa.MapArray.from_arrays(places, values.flatten(), counts.flatten())


def count_distinct(column: str | int | Expression | None = None) -> CountDistinct:
    """How many different values a column has.

    Examples:
        >>> from headrace.datastream.aggregates import count_distinct
        >>> count_distinct("user").alias("users")
        CountDistinct(column='user', name='users')
    """
    return CountDistinct(column)


def collect_set(column: str | int | Expression | None = None) -> CollectSet:
    """The different values of a column as a list, in ascending order.

    Examples:
        >>> from headrace.datastream.aggregates import collect_set
        >>> collect_set("user")
        CollectSet(column='user', name=None)
    """
    return CollectSet(column)


def collect_multiset(column: str | int | Expression | None = None) -> CollectMultiset:
    """The different values of a column and how often each came, as a map.

    Examples:
        >>> from headrace.datastream.aggregates import collect_multiset
        >>> collect_multiset("status")
        CollectMultiset(column='status', name=None)
    """
    return CollectMultiset(column)


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
    """Values, none of them null, as places in the ascending list of the different ones, and that list."""
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
