"""``collect_list``, ``listagg`` and ``top_n``, and the aggregators that keep values of records."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import fixed_width, gather, list_lengths, lists_of, valid_mask
from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.typeinfo.base import STRINGS
from headrace.operators.aggregates.aggregate import ORDERED, Aggregate, AnyColumn, ColumnTypes, InputColumn, is_one_of
from headrace.operators.aggregates.aggregator import (
    BY,
    BoundAggregate,
    ColumnAggregator,
    Fields,
    GroupedRows,
    Input,
    Longs,
)
from headrace.operators.aggregates.distinct import coded
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
            is_value = valid_mask(values)
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


def collect_list(column: AnyColumn = None) -> Aggregate:
    """The values of a column as a list, in the order in which records came.

    Examples:
        >>> from headrace.datastream.aggregates import collect_list
        >>> collect_list("page").alias("visit")
        collect_list('page').alias('visit')
    """
    return Aggregate("collect_list", (column,), _list, why_not_retractable=_UNKNOWN_VALUE)


def listagg(column: AnyColumn = None, separator: str = ",") -> Aggregate:
    """The texts of a column one after the other, in the order in which records came.

    Raises:
        InvalidProgramError: when ``separator`` is no text.

    Examples:
        >>> from headrace.datastream.aggregates import listagg
        >>> listagg("page", " > ")
        listagg('page', separator=' > ')
    """
    if not isinstance(separator, str):
        raise InvalidProgramError(f"listagg() takes a text that stands between two values, not {separator!r}")
    make, options = partial(_joined_list, separator), {"separator": separator}
    return Aggregate("listagg", (column,), make, _TEXTS, options, why_not_retractable=_UNKNOWN_VALUE)


_TEXTS: Final = ColumnTypes(partial(is_one_of, STRINGS), "text")
_UNKNOWN_VALUE: Final = "a value may have come more than once, and nothing tells which one is taken back"


def _list(name: str, column: InputColumn) -> BoundAggregate:
    values = ArrivedValues(column.source, column.name, column.type)
    return BoundAggregate(name, Types.LIST(column.type), (values,), present_lists, is_ordered=True)


def _joined_list(separator: str, name: str, column: InputColumn) -> BoundAggregate:
    values = ArrivedValues(column.source, column.name, column.type)
    return BoundAggregate(name, Types.STRING(), (values,), partial(_joined, separator), is_ordered=True)


def present_lists(results: Sequence[pa.Array]) -> pa.Array:
    """The lists, null in place of empty ones."""
    lengths = list_lengths(results[0])
    return lists_of(results[0].flatten(), lengths, is_missing=lengths == 0)


def _joined(separator: str, results: Sequence[pa.Array]) -> pa.Array:
    return pc.binary_join(present_lists(results), separator)


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


def top_n(column: AnyColumn = None, n: int = 1, by: AnyColumn = None) -> Aggregate:
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
        top_n('product', 'price', n=3).alias('dearest')
    """
    if type(n) is not int or n < 1:
        raise InvalidProgramError(f"top_n() takes a number of values from 1 on, not {n!r}")
    columns = (column,) if by is None else (column, by)
    return Aggregate("top_n", columns, partial(_top, n), ORDERED, {"n": n}, why_not_retractable=_NEXT_VALUE)


_NEXT_VALUE: Final = "what comes next after the values that it remembers is forgotten"


def _top(n: int, name: str, column: InputColumn, by: InputColumn | None = None) -> BoundAggregate:
    by = by or column
    values = TopValues(column.source, f"{column.name}{BY}{by.name}", by.source, n, column.type, by.type)
    return BoundAggregate(name, Types.LIST(column.type), (values,), present_lists)
