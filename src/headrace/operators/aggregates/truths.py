"""``bool_and`` and ``bool_or``, and the aggregator that counts what is true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from headrace.common.typeinfo import BasicType, Types
from headrace.operators.aggregates.aggregate import Aggregate, BoundAggregate, is_one_of
from headrace.operators.aggregates.counts import CountValues
from headrace.operators.arrays import fixed_width, of_fixed_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.expressions import Expression
    from headrace.operators.aggregates.aggregate import InputColumn
    from headrace.operators.aggregates.aggregator import Fields, GroupedRows


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
