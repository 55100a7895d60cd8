"""``collect_list`` and ``listagg``, and the aggregator that keeps all values in the order in which records came."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import Types
from headrace.common.typeinfo.basic import STRINGS
from headrace.operators.aggregates.aggregate import Aggregate, BoundAggregate, is_one_of
from headrace.operators.aggregates.aggregator import ColumnAggregator
from headrace.operators.arrays import fixed_width, gather, list_lengths, lists_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.expressions import Expression
    from headrace.operators.aggregates.aggregate import InputColumn
    from headrace.operators.aggregates.aggregator import Fields, GroupedRows, Longs
    from headrace.state.runs.grouping import Segments


@dataclass(frozen=True, slots=True)
class ArrivedValues(ColumnAggregator):
    """The values that are not null, in the order in which they came, and when each came. The result is their list."""

    stored_name: ClassVar[str] = "ArrivedValues"
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
