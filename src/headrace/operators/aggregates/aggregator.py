"""The contract of aggregators: how a few columns of accumulators are made, merged and read.

``sum("v")`` and ``avg("v")`` need the same sum; it is kept once. An aggregator makes an accumulator of each group of
rows (``accumulate``), one that takes such rows away again (``retract``), one accumulator of several of the same group
(``merge``), and a value of an accumulator (``result``). Merging is associative, and commutative but for aggregators
that depend on the order of records: nothing depends on how the input was cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np
import pyarrow as pa

from headrace.expressions import Bound
from headrace.operators.arrays import concat, fixed_width, gather, list_lengths, replaced, validity
from headrace.state.runs.grouping import Segments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.user_code import OperatorPlace
    from headrace.state.runs.grouping import Groups, RowGroups

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]
    Merge = Callable[[list[pa.Array], Segments], list[pa.Array]]
    Fields = tuple[tuple[str, TypeInformation], ...]

Input = int | Bound
"""What an aggregator looks at: a column of the input by its position, or what is computed of its columns."""


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

    @property
    def segments(self) -> RowGroups:
        """Which rows of a column belong to which group."""
        return self.groups.segments

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


class ScatteredRows(GroupedRows):
    """The input columns of a batch as they came, for aggregators that are scatterable; there are no ``groups``."""

    def __init__(self, columns: Mapping[Input, pa.Array], segments: RowGroups) -> None:
        self._columns = columns
        self._segments = segments

    @property
    def segments(self) -> RowGroups:
        return self._segments

    def column(self, source: Input) -> pa.Array:
        return self._columns[source]

    def first_values(self, index: int) -> pa.Array:
        return gather(self._columns[index], self._segments.first_rows)


@dataclass(frozen=True, slots=True)
class Aggregator(ABC):
    """Makes and merges accumulators of one kind; equal aggregators are kept once.

    Class attributes:
        stored_name: the name of the kind in the description of stored runs; it must not change.
        parameters: the attributes that such a description holds as well; JSON knows their values.
        is_scatterable: whether ``accumulate`` asks nothing but columns, first values and ``segments`` of the rows, and
            ``merge`` nothing but what all :class:`RowGroups` know, so that rows need not be sorted by group. Summing
            up is several times as fast then.
        grows: whether an accumulator takes the more memory the more it has been merged of.
    """

    stored_name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ()
    is_scatterable: ClassVar[bool] = False
    grows: ClassVar[bool] = False

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What it looks at."""
        return ()

    def of_operator(self, place: OperatorPlace) -> Self:
        """The same aggregator; where it calls functions of the user, their failures name the operator."""
        return self

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

    def combine(self, older: list[pa.Array], newer: list[pa.Array]) -> list[pa.Array]:
        """The accumulators of two tables row by row, of which both have all groups, in the same order."""
        return merged_pairs(self.merge, older, newer)

    def scan(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        """In place of each accumulator, the one that merges it with all before it in its group.

        As many steps as the longest group has binary digits: each merges what lies twice as far apart as the last.
        """
        places = np.arange(segments.total) - segments.starts[segments.ids]
        distance = 1
        while len(rows := np.flatnonzero(places >= distance)):
            older = [gather(column, rows - distance) for column in columns]
            merged = self.combine(older, [gather(column, rows) for column in columns])
            columns = [replaced(column, rows, values) for column, values in zip(columns, merged, strict=True)]
            distance *= 2
        return columns

    def running_results(self, columns: list[pa.Array], segments: Segments) -> pa.Array:
        """The value of each accumulator merged with all before it in its group.

        Accumulators that grow with what they hold are merged in blocks, since all of them take memory at once.
        """
        blocks, scanned = [], [column.slice(0, 0) for column in columns]
        bounds = _block_bounds(columns, segments) if self.grows else [0, segments.total]
        for start, stop in pairwise(bounds):
            carried = int(start > 0 and start not in segments.starts)
            last = len(scanned[0]) - carried
            block = [
                concat([a.slice(last), b.slice(start, stop - start)]) for a, b in zip(scanned, columns, strict=True)
            ]
            starts = segments.starts[(segments.starts > start) & (segments.starts < stop)] - start + carried
            scanned = self.scan(block, Segments(np.concatenate(([0], starts)), len(block[0])))
            blocks.append(self.result([column.slice(carried) for column in scanned]))
        return concat(blocks) if blocks else self.result(columns)

    def negate(self, columns: list[pa.Array]) -> list[pa.Array]:
        """Accumulators that take away what these add, once they are merged; only where the aggregate can retract."""
        raise NotImplementedError(f"{type(self).__name__} cannot take values back")

    def is_reversible(self, columns: list[pa.Array]) -> bool:
        """Whether nothing of these accumulators remains where they are merged and later their opposites are.

        Of accumulators that are all reversible, those that are left have to give what they give by themselves.
        """
        return False

    def retract(self, rows: GroupedRows) -> list[pa.Array]:
        """The accumulator of each group that takes its rows away from the accumulators that it is merged with."""
        return self.negate(self.accumulate(rows))

    def result(self, columns: list[pa.Array]) -> pa.Array:
        """The value of each accumulator; null when there was none among the rows."""
        return columns[0]


@dataclass(frozen=True, slots=True)
class ColumnAggregator(Aggregator):
    """An aggregator that looks at one column.

    Attributes:
        column: its position in the input, or the expression that computes it.
        name: its name, for the columns of the accumulator.
    """

    parameters: ClassVar[tuple[str, ...]] = ("name",)
    column: Input
    name: str

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.column,)


def merged_pairs(merge: Merge, older: list[pa.Array], newer: list[pa.Array]) -> list[pa.Array]:
    """The rows of two tables merged in pairs, by a function that merges groups of rows."""
    count = len(older[0])
    pairs = np.arange(2 * count).reshape(2, count).T.ravel()
    columns = [gather(concat([a, b]), pairs) for a, b in zip(older, newer, strict=True)]
    return merge(columns, Segments(np.arange(0, 2 * count, 2), 2 * count))


def any_valid(valid: Mask | None, segments: RowGroups) -> Mask | None:
    """Which groups have a value at all; None when all have."""
    return None if valid is None else np.asarray(segments.reduce(np.logical_or, valid), dtype=np.bool_)


_BLOCK_BYTES: Final = 1 << 24
"""About so much memory takes what is scanned at a time of accumulators that grow."""


def _block_bounds(columns: list[pa.Array], segments: Segments) -> list[int]:
    """Where to cut accumulators that are to be scanned, so that none of the blocks takes much more than it should."""
    sizes = np.zeros(segments.total, np.int64)
    for column in columns:
        if pa.types.is_list(column.type):
            lengths = list_lengths(column)
            sizes += lengths * (column.flatten().nbytes // max(int(lengths.sum()), 1))
        else:
            sizes += column.nbytes // max(segments.total, 1)
    merged = np.cumsum(running_sums(sizes, segments))
    cuts = np.searchsorted(merged, np.arange(_BLOCK_BYTES, merged.max(initial=0), _BLOCK_BYTES))
    bounds: list[int] = np.unique(np.concatenate(([0], cuts, [segments.total]))).tolist()
    return bounds


def running_sums(values: Longs, segments: Segments) -> Longs:
    """The sum of each value and all before it in its group; of all values together it has to fit into 64 bits."""
    sums = np.cumsum(values)
    return sums - (sums - values)[segments.starts][segments.ids]


def either_valid(one: Mask | None, other: Mask | None) -> Mask | None:
    """Where one of two columns has a value; None where that is everywhere."""
    return None if one is None or other is None else one | other


def filled(array: pa.Array, dtype: Any) -> tuple[npt.NDArray[Any], Mask | None]:
    """The values as numbers of one type, zero in place of nulls."""
    valid = validity(array)
    values = fixed_width(array)
    if valid is not None:
        values = np.where(valid, values, values.dtype.type(0))
    return values.astype(dtype, copy=False), valid
