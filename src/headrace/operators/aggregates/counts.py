"""``count``, and the aggregators behind it; and the one that keeps a field of the key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.typeinfo import Types
from headrace.operators.aggregates.aggregate import Aggregate, BoundAggregate
from headrace.operators.aggregates.aggregator import Aggregator, ColumnAggregator
from headrace.operators.arrays import fixed_width, gather, validity
from headrace.state.keys.typed import look_alike

if TYPE_CHECKING:
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
