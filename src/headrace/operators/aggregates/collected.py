"""``collect_list``, ``listagg`` and ``top_n``, and the aggregators that keep values of records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import Types
from headrace.common.typeinfo.base import STRINGS
from headrace.operators.aggregates.aggregate import Aggregate, BoundAggregate, has_order, is_one_of
from headrace.operators.aggregates.aggregator import ColumnAggregator
from headrace.operators.aggregates.multisets import coded
from headrace.operators.arrays import fixed_width, gather, list_lengths, lists_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.expressions import Expression
    from headrace.operators.aggregates.aggregate import InputColumn
    from headrace.operators.aggregates.aggregator import Fields, GroupedRows, Input, Longs
    from headrace.state.runs.grouping import Segments


@dataclass(frozen=True, slots=True)
class ArrivedValues(ColumnAggregator):
    """The values that are not null, in the order in which they came, and when each came. The result is their list."""

    stored_name: ClassVar[str] = "ArrivedValues"
    grows: ClassVar[bool] = True
    type: TypeInformation

    @property
    def fields(self) -> Fields:
        name = f"list({self.name})"
        return (name, Types.LIST(self.type)), (f"{name}.arrivals", Types.LIST(Types.LONG()))

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        values, arrivals, segments = rows.column(self.column), rows.arrivals(), rows.groups.segments
        lengths = segments.counts
        if values.null_count:
            is_value = np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
            lengths = segments.reduce(np.add, is_value.astype(np.int64))
            values, arrivals = values.drop_null(), arrivals[is_value]
        return [lists_of(values, lengths), lists_of(pa.array(arrivals), lengths)]

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        parts = list_lengths(columns[0])
        lengths: Longs = segments.reduce(np.add, parts)
        values, arrivals = columns[0].flatten(), fixed_width(columns[1].flatten())
        groups = np.repeat(segments.ids, parts)
        if ((np.diff(arrivals) < 0) & (np.diff(groups) == 0)).any():
            order = np.lexsort((arrivals, groups))
            values, arrivals = gather(values, order), arrivals[order]
        return [lists_of(values, lengths), lists_of(pa.array(arrivals), lengths)]


@dataclass(frozen=True, slots=True, eq=False)
class CollectList(Aggregate):
    """A list of the values, in the order in which records came."""

    function = "collect_list"
    why_not_retractable = "a value may have come more than once, and nothing tells which one is taken back"

    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        values = ArrivedValues(column.source, column.name, column.type)
        return BoundAggregate(name, Types.LIST(column.type), (values,), present_lists, is_ordered=True)


@dataclass(frozen=True, slots=True, eq=False)
class ListAgg(CollectList):
    """The texts one after the other, in the order in which records came.

    Attributes:
        separator: what stands between two of them.
    """

    separator: str = ","

    function = "listagg"

    def __post_init__(self) -> None:
        if not isinstance(self.separator, str):
            raise InvalidProgramError(f"listagg() takes a text that stands between two values, not {self.separator!r}")

    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        if not is_one_of(column.type, STRINGS):
            raise self._refuse(column, "text")
        values = ArrivedValues(column.source, column.name, column.type)
        return BoundAggregate(name, Types.STRING(), (values,), partial(_joined, self.separator), is_ordered=True)


def collect_list(column: str | int | Expression | None = None) -> CollectList:
    """The values of a column as a list, in the order in which records came.

    Examples:
        >>> from headrace.datastream.aggregates import collect_list
        >>> collect_list("page").alias("visit")
        CollectList(column='page', name='visit')
    """
    return CollectList(column)


def listagg(column: str | int | Expression | None = None, separator: str = ",") -> ListAgg:
    """The texts of a column one after the other, in the order in which records came.

    Raises:
        InvalidProgramError: when ``separator`` is no text.

    Examples:
        >>> from headrace.datastream.aggregates import listagg
        >>> listagg("page", " > ")
        ListAgg(column='page', name=None, separator=' > ')
    """
    return ListAgg(column, separator=separator)


def present_lists(results: Sequence[pa.Array]) -> pa.Array:
    """The lists, null in place of empty ones."""
    lengths = list_lengths(results[0])
    return lists_of(results[0].flatten(), lengths, is_missing=lengths == 0)


def _joined(separator: str, results: Sequence[pa.Array]) -> pa.Array:
    return pc.binary_join(present_lists(results), separator)


BY: Final = " by "
"""What stands between the names of the two columns."""


@dataclass(frozen=True, slots=True)
class TopValues(ColumnAggregator):
    """The values of a column, and of another one that they are chosen by: the largest first, then the smaller value.

    Attributes:
        by: the other column.
        n: how many are kept.
        type: the type of the values.
        by_type: the type of the other column.
    """

    stored_name: ClassVar[str] = "TopValues"
    parameters: ClassVar[tuple[str, ...]] = ("name", "n")
    by: Input
    n: int
    type: TypeInformation
    by_type: TypeInformation

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.column, self.by

    @property
    def fields(self) -> Fields:
        name = f"top({self.name}, {self.n})"
        return (name, Types.LIST(self.type)), (f"{name}.by", Types.LIST(self.by_type))

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        values, by, groups = rows.column(self.column), rows.column(self.by), rows.groups.segments.ids
        if values.null_count or by.null_count:
            kept = np.asarray(values.is_valid()) & np.asarray(by.is_valid())
            groups, values, by = groups[kept], values.filter(pa.array(kept)), by.filter(pa.array(kept))
        return self._largest(groups, values, by, len(rows.groups.segments))

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        if segments.are_single:
            return columns
        groups = np.repeat(segments.ids, list_lengths(columns[0]))
        return self._largest(groups, columns[0].flatten(), columns[1].flatten(), len(segments))

    def _largest(self, groups: Longs, values: pa.Array, by: pa.Array, total: int) -> list[pa.Array]:
        value_codes, distinct_values = coded(values)
        by_codes, distinct_by = coded(by)
        order = np.lexsort((value_codes, -by_codes, groups))
        groups = groups[order]
        first = np.searchsorted(groups, groups)  # where each one's group begins
        kept = np.arange(len(groups)) - first < self.n
        order = order[kept]
        lengths = np.bincount(groups[kept], minlength=total)
        chosen = (distinct_values, value_codes), (distinct_by, by_codes)
        return [lists_of(distinct.take(pa.array(codes[order])), lengths) for distinct, codes in chosen]


@dataclass(frozen=True, slots=True, eq=False)
class TopN(Aggregate):
    """The values of the records that are largest by a column, from the largest down.

    Attributes:
        n: how many at most.
        by: the column that they are chosen by; None for the values themselves.
    """

    n: int = 1
    by: str | int | Expression | None = None

    function = "top_n"
    why_not_retractable = "what comes next after the values that it remembers is forgotten"

    def __post_init__(self) -> None:
        if type(self.n) is not int or self.n < 1:
            raise InvalidProgramError(f"top_n() takes a number of values from 1 on, not {self.n!r}")

    @property
    def columns(self) -> tuple[str | int | Expression | None, ...]:
        return (self.column,) if self.by is None else (self.column, self.by)

    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        by = others[0] if others else column
        for each in (column, by):
            if not has_order(each.type):
                raise self._refuse(each, "numbers, text, booleans, dates and times")
        values = TopValues(column.source, f"{column.name}{BY}{by.name}", by.source, self.n, column.type, by.type)
        return BoundAggregate(name, Types.LIST(column.type), (values,), present_lists)


def top_n(column: str | int | Expression | None = None, n: int = 1, by: str | int | Expression | None = None) -> TopN:
    """The values of the records that are largest by a column, as a list from the largest down.

    Among records that are equal there, those with the smaller value come first. Records without a value in either
    column are passed over.

    Args:
        column: what is listed.
        n: how many values at most.
        by: the column that they are chosen by; None for the values themselves.

    Raises:
        InvalidProgramError: when ``n`` is not a number from 1 on.

    Examples:
        >>> from headrace.datastream.aggregates import top_n
        >>> top_n("product", 3, by="price").alias("dearest")
        TopN(column='product', name='dearest', n=3, by='price')
    """
    return TopN(column, n=n, by=by)
