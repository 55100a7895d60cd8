"""The aggregates that windows compute column by column: ``window.aggregate(count(), sum("price").alias("total"))``.

All of them pass over nulls, as in SQL, and give null when there was no value; ``count`` gives 0. Sums, averages and
extremes do not depend on the order of records or on how the input was cut into batches and epochs, to the last bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import pyarrow as pa

from headrace.common.errors import InvalidTypeError
from headrace.common.tracebacks import hides_engine, hides_engine_of_methods
from headrace.common.typeinfo import BasicType, BasicTypeInfo, Types
from headrace.common.typeinfo.basic import FLOATS, WHOLE_NUMBERS
from headrace.expressions import BoundColumn, Column, Expression, bind
from headrace.operators.window.aggregators import (
    Aggregator,
    CountRows,
    CountValues,
    Extreme,
    FirstOrLast,
    SumFloats,
    SumIntegers,
)
from headrace.operators.window.arrays import fixed_width, of_fixed_width, validity
from headrace.operators.window.exact_sum import IntegerOverflowError

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.window.aggregators import Input

# Integers and decimals of any size are kept as text, which does not compare as they do.
_UNORDERED = {BasicType.BIG_INT, BasicType.BIG_DEC}


@dataclass(frozen=True, slots=True)
class BoundAggregate:
    """An aggregate over an input whose columns are known.

    Attributes:
        name: the name of the output column.
        type: the type of the output column.
        aggregators: what a window has to remember for it.
        is_ratio: whether the result is the first aggregator divided by the second.
        is_ordered: whether the result depends on the order in which records come.
    """

    name: str
    type: TypeInformation
    aggregators: tuple[Aggregator, ...]
    is_ratio: bool = False
    is_ordered: bool = False

    def final(self, results: Sequence[pa.Array]) -> pa.Array:
        """The output column, from the results of the aggregators.

        Raises:
            IntegerOverflowError: when a sum of integers does not fit.
        """
        if self.is_ratio:
            return _divided(results[0], results[1])
        total = self.aggregators[0]
        if isinstance(total, SumIntegers) and pa.types.is_decimal(results[0].type):
            raise IntegerOverflowError(
                f"the sum of {total.name!r} does not fit into 64 bits: sum it as double, or the column cast to double"
            )
        return results[0]


@hides_engine_of_methods
@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(ABC):
    """A built-in aggregate as the user asks for it.

    Attributes:
        column: name or position of the field, or an expression; None for ``count()``, and for records that are a
            single value.
        name: the name of the output column; None for one made of the function and the field (``sum_price``).

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.aggregates import avg, count
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> from headrace.testing import JobHarness
        >>> def job(harness):
        ...     readings = harness.add_source("readings", Types.ROW_NAMED(["sensor", "value"], [str, float]))
        ...     minutes = readings.key_by("sensor").window(TumblingEventTimeWindows.of(60_000))
        ...     harness.add_sink("means", minutes.aggregate(count(), avg("value").alias("mean")))
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("readings", [("a", 1.0), ("a", 4.0)], [1_000, 2_000])
        ...     harness.finish()
        ...     print(harness.results("means"))
        [Row(sensor='a', window_start=0, window_end=60000, count=2, mean=2.5)]
    """

    column: str | int | Expression | None = None
    name: str | None = None

    function: ClassVar[str]

    # Expressions compare as a part of programs, by making another expression; their text tells all of them.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[str, bool, str, str | None]:
        return self.function, isinstance(self.column, Expression), repr(self.column), self.name

    def alias(self, name: str) -> Self:
        """The same aggregate under another name in the output."""
        return replace(self, name=name)

    def bind(self, input_type: TypeInformation) -> BoundAggregate:
        """The aggregate over records of a type.

        Raises:
            InvalidTypeError: when there is no such field, or the aggregate does not take values of its type.
        """
        source, field, type_ = _resolve(input_type, self)
        return self._bound(self.name or self._made_name(field), source, field, type_)

    def _made_name(self, field: str) -> str:
        column = self.column
        if isinstance(column, Expression) and not isinstance(column, Column):
            if column.name is None:
                text = f"{self.function}({column!r})"
                raise InvalidTypeError(f'say what {text} is called in the output: {text}.alias("...")')
            field = column.name
        return f"{self.function}_{field}"

    @abstractmethod
    def _bound(self, name: str, source: Input, field: str, type_: TypeInformation) -> BoundAggregate:
        """The aggregate of the column ``source``, called ``field``."""

    def _refuse(self, field: str, type_: TypeInformation, wanted: str) -> InvalidTypeError:
        if isinstance(self.column, Expression):
            return InvalidTypeError(f"{self.function}({self.column!r}) takes {wanted}, but that is of type {type_}")
        return InvalidTypeError(f"{self.function}({field!r}) takes {wanted}, but field {field!r} is of type {type_}")


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
        return BoundAggregate(
            name, Types.LONG() if isinstance(aggregator, SumIntegers) else Types.DOUBLE(), (aggregator,)
        )

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
        return BoundAggregate(name, Types.DOUBLE(), aggregators, is_ratio=True)


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


def _resolve(input_type: TypeInformation, aggregate: Aggregate) -> tuple[Input, str, TypeInformation]:
    """Position, name and type of the field that an aggregate means; the expression itself where it is no field."""
    column = aggregate.column
    if isinstance(column, Expression):
        value = bind(column, input_type)
        if isinstance(value, BoundColumn):
            names = input_type.field_names if input_type.is_composite else ("value",)
            return value.index, names[value.index], value.type
        return value, value.text, value.type
    if input_type.is_composite and column is not None:
        index = input_type.field_index(column)
        return index, input_type.field_names[index], input_type.field_types[index]
    if input_type.is_composite:
        known = ", ".join(map(repr, input_type.field_names))
        raise InvalidTypeError(f"{aggregate.function}() needs a field of {input_type}: one of {known}")
    if column not in (None, 0):
        raise InvalidTypeError(f"{aggregate.function}({column!r}): records of type {input_type} have no fields")
    return 0, "value", input_type


def _is_one_of(type_: TypeInformation, kinds: Set[BasicType]) -> bool:
    return isinstance(type_, BasicTypeInfo) and type_.basic_type in kinds


def _divided(total: pa.Array, counts: pa.Array) -> pa.Array:
    if pa.types.is_decimal(total.type):  # sums of integers that do not fit; rounded once, as all are
        total = pa.array([None if value is None else float(value) for value in total.to_pylist()], pa.float64())
    values = fixed_width(total).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = values / fixed_width(counts)
    return of_fixed_width(ratios, validity(total), pa.float64())
