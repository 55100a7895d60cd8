"""``count``, ``bool_and`` and ``bool_or``, the aggregators behind them, and the one that keeps a field of the key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import BasicType, Types
from headrace.operators.aggregates.aggregate import Aggregate, BoundAggregate, is_one_of
from headrace.operators.aggregates.aggregator import Aggregator, ColumnAggregator, running_sums
from headrace.operators.arrays import fixed_width, gather, of_fixed_width, validity
from headrace.state.keys.typed import look_alike

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.expressions import Expression
    from headrace.operators.aggregates.aggregate import InputColumn
    from headrace.operators.aggregates.aggregator import Fields, GroupedRows, Input
    from headrace.state.runs.grouping import Segments


class _Counts(Aggregator):
    """A number of records, which is never null."""

    __slots__ = ()

    is_scatterable: ClassVar[bool] = True

    def merge(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return [pa.array(segments.reduce(np.add, fixed_width(columns[0])))]

    def combine(self, older: list[pa.Array], newer: list[pa.Array]) -> list[pa.Array]:
        return [pa.array(fixed_width(older[0]) + fixed_width(newer[0]))]

    def scan(self, columns: list[pa.Array], segments: Segments) -> list[pa.Array]:
        return [pa.array(running_sums(fixed_width(columns[0]), segments))]

    def negate(self, columns: list[pa.Array]) -> list[pa.Array]:
        return [pa.array(-fixed_width(columns[0]))]

    def is_reversible(self, columns: list[pa.Array]) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class CountRows(_Counts):
    """How many records there were."""

    stored_name: ClassVar[str] = "CountRows"

    @property
    def fields(self) -> Fields:
        return (("records", Types.LONG()),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return [pa.array(rows.segments.counts)]


@dataclass(frozen=True, slots=True)
class CountValues(_Counts, ColumnAggregator):
    """How many values there were that are not null."""

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
        """Whether the results of equal keys look alike: ``0.0`` for ``-0.0`` as well."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Count(Aggregate):
    """How many records, or how many values that are not null."""

    function = "count"

    def bind(self, input_type: TypeInformation, *, retracts: bool = False) -> BoundAggregate:
        if self.column is None:
            return BoundAggregate(self.name or "count", Types.LONG(), (CountRows(),))
        return Aggregate.bind(self, input_type, retracts=retracts)

    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        return BoundAggregate(name, Types.LONG(), (CountValues(column.source, column.name),))


def count(column: str | int | Expression | None = None) -> Count:
    """How many records there were, or how many had a value in ``column``.

    Examples:
        >>> from headrace.datastream.aggregates import count
        >>> count()
        Count(column=None, name=None)
        >>> count("amount").alias("payments")
        Count(column='amount', name='payments')
    """
    return Count(column)


@dataclass(frozen=True, slots=True)
class CountTrue(CountValues):
    """How many values were true."""

    stored_name: ClassVar[str] = "CountTrue"

    @property
    def fields(self) -> Fields:
        return ((f"true({self.name})", Types.LONG()),)

    def accumulate(self, rows: GroupedRows) -> list[pa.Array]:
        return [pa.array(rows.segments.reduce(np.add, fixed_width(rows.column(self.column)).astype(np.int64)))]


@dataclass(frozen=True, slots=True, eq=False)
class BoolAnd(Aggregate):
    """Whether all values were true."""

    function = "bool_and"

    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        if not is_one_of(column.type, {BasicType.BOOLEAN}):
            raise self._refuse(column, "booleans")
        aggregators = CountTrue(column.source, column.name), CountValues(column.source, column.name)
        return BoundAggregate(name, Types.BOOLEAN(), aggregators, self._emitted)

    @staticmethod
    def _emitted(results: Sequence[pa.Array]) -> pa.Array:
        true, values = map(fixed_width, results)
        return of_fixed_width(true == values, values > 0, pa.bool_())


@dataclass(frozen=True, slots=True, eq=False)
class BoolOr(BoolAnd):
    """Whether any value was true."""

    function = "bool_or"

    @staticmethod
    def _emitted(results: Sequence[pa.Array]) -> pa.Array:
        true, values = map(fixed_width, results)
        return of_fixed_width(true > 0, values > 0, pa.bool_())


def bool_and(column: str | int | Expression | None = None) -> BoolAnd:
    """Whether all values of a column of booleans are true.

    Examples:
        >>> from headrace.datastream.aggregates import bool_and
        >>> from headrace.expressions import col
        >>> bool_and(col("amount") > 0).alias("all_positive")
        BoolAnd(column=col("amount") > 0, name='all_positive')
    """
    return BoolAnd(column)


def bool_or(column: str | int | Expression | None = None) -> BoolOr:
    """Whether any value of a column of booleans is true.

    Examples:
        >>> from headrace.datastream.aggregates import bool_or
        >>> bool_or("is_refund")
        BoolOr(column='is_refund', name=None)
    """
    return BoolOr(column)
