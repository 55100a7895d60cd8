"""The built-in aggregates: ``window.aggregate(count(), sum("price").alias("total"))``.

All of them pass over nulls, as in SQL, and give null when there was no value; ``count`` gives 0. Sums, averages and
extremes do not depend on the order of records or on how the input was cut into batches and epochs, to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from headrace.common.tracebacks import hides_engine
from headrace.common.typeinfo import BasicType, BasicTypeInfo, Types
from headrace.common.typeinfo.basic import FLOATS, WHOLE_NUMBERS
from headrace.operators.aggregates.aggregate import Aggregate, BoundAggregate
from headrace.operators.aggregates.choices import Extreme, FirstOrLast
from headrace.operators.aggregates.counts import CountRows, CountValues
from headrace.operators.aggregates.exact_sum import IntegerOverflowError
from headrace.operators.aggregates.sums import SumFloats, SumIntegers
from headrace.operators.arrays import fixed_width, of_fixed_width, validity

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from headrace.common.typeinfo import TypeInformation
    from headrace.expressions import Expression
    from headrace.operators.aggregates.aggregator import Aggregator, Input

# Integers and decimals of any size are kept as text, which does not compare as they do.
_UNORDERED = {BasicType.BIG_INT, BasicType.BIG_DEC}


@dataclass(frozen=True, slots=True, eq=False)
class Count(Aggregate):
    """How many records, or how many values that are not null."""

    function = "count"

    def bind(self, input_type: TypeInformation) -> BoundAggregate:
        if self.column is None:
            return BoundAggregate(self.name or "count", Types.LONG(), (CountRows(),))
        return Aggregate.bind(self, input_type)

    def _bound(self, name: str, source: Input, field: str, type_: TypeInformation) -> BoundAggregate:
        return BoundAggregate(name, Types.LONG(), (CountValues(source, field),))


@dataclass(frozen=True, slots=True, eq=False)
class Sum(Aggregate):
    """The sum: of integers as ``LONG``, an error when it does not fit; of floats as ``DOUBLE``, rounded once."""

    function = "sum"

    def _bound(self, name: str, source: Input, field: str, type_: TypeInformation) -> BoundAggregate:
        aggregator = self._aggregator(source, field, type_)
        if isinstance(aggregator, SumIntegers):
            return BoundAggregate(name, Types.LONG(), (aggregator,), partial(_fitting, field))
        return BoundAggregate(name, Types.DOUBLE(), (aggregator,))

    def _aggregator(self, source: Input, field: str, type_: TypeInformation) -> Aggregator:
        if _is_one_of(type_, WHOLE_NUMBERS):
            return SumIntegers(source, field)
        if _is_one_of(type_, FLOATS):
            return SumFloats(source, field)
        raise self._refuse(field, type_, "numbers of up to 64 bits")


@dataclass(frozen=True, slots=True, eq=False)
class Average(Sum):
    """The exact sum, rounded, divided by the number of values: a ``DOUBLE``."""

    function = "avg"

    def _bound(self, name: str, source: Input, field: str, type_: TypeInformation) -> BoundAggregate:
        aggregators = (self._aggregator(source, field, type_), CountValues(source, field))
        return BoundAggregate(name, Types.DOUBLE(), aggregators, _divided)


@dataclass(frozen=True, slots=True, eq=False)
class Minimum(Aggregate):
    """The smallest value."""

    function = "min"
    is_largest: ClassVar[bool] = False

    def _bound(self, name: str, source: Input, field: str, type_: TypeInformation) -> BoundAggregate:
        if not isinstance(type_, BasicTypeInfo) or type_.basic_type in _UNORDERED:
            raise self._refuse(field, type_, "numbers, text, booleans, dates and times")
        return BoundAggregate(name, type_, (Extreme(source, field, type_, self.is_largest),))


@dataclass(frozen=True, slots=True, eq=False)
class Maximum(Minimum):
    """The largest value."""

    function = "max"
    is_largest = True


@dataclass(frozen=True, slots=True, eq=False)
class First(Aggregate):
    """The value that came first."""

    function = "first"
    is_last: ClassVar[bool] = False

    def _bound(self, name: str, source: Input, field: str, type_: TypeInformation) -> BoundAggregate:
        return BoundAggregate(name, type_, (FirstOrLast(source, field, type_, self.is_last),), is_ordered=True)


@dataclass(frozen=True, slots=True, eq=False)
class Last(First):
    """The value that came last."""

    function = "last"
    is_last = True


@hides_engine
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


@hides_engine
def sum(column: str | int | Expression | None = None) -> Sum:
    """The sum of a column of numbers.

    Examples:
        >>> from headrace.datastream.aggregates import sum
        >>> from headrace.expressions import col
        >>> sum("amount")
        Sum(column='amount', name=None)
        >>> sum(col("price") * col("quantity")).alias("spent")
        Sum(column=col("price") * col("quantity"), name='spent')
    """
    return Sum(column)


@hides_engine
def avg(column: str | int | Expression | None = None) -> Average:
    """The average of a column of numbers.

    Examples:
        >>> from headrace.datastream.aggregates import avg
        >>> avg("amount").alias("mean")
        Average(column='amount', name='mean')
    """
    return Average(column)


@hides_engine
def min(column: str | int | Expression | None = None) -> Minimum:
    """The smallest value of a column.

    Examples:
        >>> from headrace.datastream.aggregates import min
        >>> min("amount")
        Minimum(column='amount', name=None)
    """
    return Minimum(column)


@hides_engine
def max(column: str | int | Expression | None = None) -> Maximum:
    """The largest value of a column.

    Examples:
        >>> from headrace.datastream.aggregates import max
        >>> max("amount")
        Maximum(column='amount', name=None)
    """
    return Maximum(column)


@hides_engine
def first(column: str | int | Expression | None = None) -> First:
    """The value of the record that came first and has one.

    Examples:
        >>> from headrace.datastream.aggregates import first
        >>> first("amount")
        First(column='amount', name=None)
    """
    return First(column)


@hides_engine
def last(column: str | int | Expression | None = None) -> Last:
    """The value of the record that came last and has one.

    Examples:
        >>> from headrace.datastream.aggregates import last
        >>> last("amount")
        Last(column='amount', name=None)
    """
    return Last(column)


def _is_one_of(type_: TypeInformation, kinds: Set[BasicType]) -> bool:
    return isinstance(type_, BasicTypeInfo) and type_.basic_type in kinds


def _fitting(field: str, results: Sequence[pa.Array]) -> pa.Array:
    """Sums that fit into 64 bits.

    Raises:
        IntegerOverflowError: when one does not.
    """
    if pa.types.is_decimal(results[0].type):
        raise IntegerOverflowError(
            f"the sum of {field!r} does not fit into 64 bits: sum it as double, or the column cast to double"
        )
    return results[0]


def _divided(results: Sequence[pa.Array]) -> pa.Array:
    total, counts = results
    if pa.types.is_decimal(total.type):  # sums of integers that do not fit; rounded once, as all are
        total = pa.array([None if value is None else float(value) for value in total.to_pylist()], pa.float64())
    values = fixed_width(total).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = values / fixed_width(counts)
    return of_fixed_width(ratios, validity(total), pa.float64())
