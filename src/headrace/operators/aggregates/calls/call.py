"""``AggregateOperation``: one call of an aggregate function of SQL, and the table of these functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from headrace.common.errors import UnsupportedOperationError
from headrace.common.logical_types import LogicalType, RowType
from headrace.common.typeinfo import TypeInformation
from headrace.common.typeinfo.types import type_of_logical
from headrace.operators.aggregates.aggregator import Aggregator, BoundAggregate, Emit, Input, Running, only_result
from headrace.operators.aggregates.calls import collected, numbers
from headrace.operators.aggregates.calls.collected import OrderedValues
from headrace.operators.aggregates.calls.inputs import Boxed, Doubles, Filtered, FirstOfValue, Present
from headrace.operators.aggregates.calls.numbers import DecimalSum, WrappingSum
from headrace.operators.aggregates.distinct import (
    DistinctSketch,
    Multiset,
    element_at,
    running_distinct,
    running_extreme,
)
from headrace.operators.aggregates.simple import CountRows, CountTrue, CountValues, FirstOrLast, MinOrMax
from headrace.operators.aggregates.sums import SquaredDeviations, SumFiniteFloats, SumFloats


@dataclass(frozen=True, slots=True)
class AggregateOperation:
    """A call of an aggregate function over columns of the input.

    Attributes:
        function: its name in SQL, in capitals (``COUNT``, ``SUM``, ``$SUM0``, ...).
        arguments: the positions of its argument columns; none for ``COUNT(*)``.
        type: the type of its result.
        name: the name of its column in the output.
        is_distinct: whether each value counts once.
        filter: the position of the boolean column of ``FILTER``; only rows where it is true count.
        constants: the values of arguments that are literals, by their position among the arguments.
        options: ``on_null`` (``NULL`` or ``ABSENT``) and ``ignores_nulls``.
        user: the user-defined aggregate function, which chooses its own aggregators.
        keeps_values: whether the operator has the distinct values of groups in state of its own, so that ``DISTINCT``
            aggregates the first record of each value.
        only_grows: whether updates of the argument never take back the result of ``MAX`` or ``MIN``: a count, say.
    """

    function: str
    arguments: tuple[int, ...]
    type: LogicalType
    name: str
    is_distinct: bool = False
    filter: int | None = None
    constants: tuple[tuple[int, Any], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    user: Callable[["CallBinding"], "Remembered"] | None = None
    keeps_values: bool = False
    only_grows: bool = False

    def bind(self, input_type: TypeInformation, *, retracts: bool = False) -> BoundAggregate:
        """The aggregate over records of a type; see ``Aggregate.bind``."""
        return bind_call(self, input_type, retracts=retracts)


@dataclass(frozen=True, slots=True)
class Remembered:
    """The aggregators of a call, and the function that computes its result from theirs."""

    aggregators: tuple[Aggregator, ...]
    emit: Emit = only_result
    is_ordered: bool = False
    running: Running | None = None


@dataclass(frozen=True, slots=True)
class CallBinding:
    """A call over an input.

    Attributes:
        call: the call.
        types: the types of the columns of the input.
        retracts: whether records may be retracted.
    """

    call: AggregateOperation
    types: tuple[LogicalType, ...]
    retracts: bool

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of the column of results."""
        return self.call.type.arrow_type

    def column(self, place: int = 0) -> Input:
        """An argument, null where the filter does not hold."""
        index = self.call.arguments[place]
        if self.call.keeps_values:
            return FirstOfValue(index, self.call.filter, self.type(place).arrow_type)
        return index if self.call.filter is None else Filtered(index, self.call.filter)

    def type(self, place: int = 0) -> LogicalType:
        """The type of an argument."""
        return self.types[self.call.arguments[place]]

    def info(self, place: int = 0) -> TypeInformation:
        """The same as the type of a field."""
        return type_of_logical(self.type(place))

    def name(self, what: str = "") -> str:
        """The name of an accumulator, made from the arguments and the filter, so that equal ones are kept once."""
        text = ",".join(map(str, self.call.arguments))
        text = f"distinct:{text}" if self.call.keeps_values else text
        return f"{what}{text}" if self.call.filter is None else f"{what}{text}|{self.call.filter}"

    def constant(self, place: int, default: Any = None) -> Any:
        """The value of an argument that is a literal."""
        return dict(self.call.constants).get(place, default)

    def option(self, name: str) -> Any:
        """An option of the call, which is given beside its arguments."""
        return dict(self.call.options).get(name)

    def count(self) -> Aggregator:
        """The number of values."""
        return CountValues(self.column(), self.name())

    def ordered(self, places: tuple[int, ...], *, skips_nulls: bool) -> OrderedValues:
        """The values of some arguments in order, as structs."""
        columns = tuple(self.call.arguments[place] for place in places)
        fields = RowType(tuple(f"f{place}" for place in places), tuple(self.type(place) for place in places))
        name = f"{'values' if skips_nulls else 'rows'}:{','.join(map(str, columns))}|{self.call.filter}"
        return OrderedValues(Boxed(columns, self.call.filter, skips_nulls), name, type_of_logical(fields))

    def multiset(self) -> Multiset:
        """The distinct values."""
        return Multiset(self.column(), self.name(), self.info())


def bind_call(call: AggregateOperation, input_type: TypeInformation, *, retracts: bool) -> BoundAggregate:
    """Bind a call to records of a type: choose its aggregators, and the function that computes its result from theirs.

    Args:
        call: the call.
        input_type: the type of the records, which has fields.
        retracts: whether records may be retracted.

    Raises:
        UnsupportedOperationError: when the function does not exist, or cannot retract.
    """
    make = call.user or _maker(call)
    types = tuple(field.logical_type for field in input_type.field_types)
    found = make(CallBinding(call, types, retracts))
    result = type_of_logical(call.type)
    return BoundAggregate(call.name, result, found.aggregators, found.emit, found.is_ordered, found.running)


def _maker(call: AggregateOperation) -> "_Make":
    is_distinct = call.is_distinct and not call.keeps_values
    make = (_DISTINCT if is_distinct else _FUNCTIONS).get(call.function) or _FUNCTIONS.get(call.function)
    if make is None or (is_distinct and call.function not in _DISTINCT and call.function not in _IDEMPOTENT):
        distinct = "(DISTINCT ...)" if call.is_distinct and call.function in _FUNCTIONS else ""
        raise UnsupportedOperationError(f"there is no aggregate function {call.function}{distinct} yet")
    return make


def _count(of: CallBinding) -> Remembered:
    call = of.call
    if len(call.arguments) == 1:
        return Remembered((of.count(),))
    if call.filter is None and not call.arguments:
        return Remembered((CountRows(),))
    return Remembered((CountTrue(Present(call.arguments, call.filter), of.name("present:")),))


def _total(of: CallBinding) -> Aggregator:
    arrow_type = of.type().arrow_type
    if pa.types.is_decimal(arrow_type):
        return DecimalSum(of.column(), of.name("decimals:"), arrow_type.scale)
    if pa.types.is_floating(arrow_type):
        return (SumFiniteFloats if of.retracts else SumFloats)(of.column(), of.name())
    return WrappingSum(of.column(), of.name("integers:"))


def _sum(of: CallBinding) -> Remembered:
    return Remembered((_total(of), of.count()), partial(numbers.counted_sum, of.arrow_type))


def _sum_or_zero(of: CallBinding) -> Remembered:
    return Remembered((_total(of), of.count()), partial(numbers.sum_or_zero, of.arrow_type))


def _average(of: CallBinding) -> Remembered:
    return Remembered((_total(of), of.count()), partial(numbers.average, of.arrow_type))


def _variance(of: CallBinding, *, is_sample: bool, is_root: bool) -> Remembered:
    values = Doubles(of.call.arguments[0], of.call.filter)
    emit = partial(numbers.variance, of.arrow_type, is_sample, is_root)
    return Remembered((SquaredDeviations(values, of.name()),), emit)


def _extreme(of: CallBinding, *, is_largest: bool) -> Remembered:
    if not of.retracts or of.call.only_grows:
        return Remembered((MinOrMax(of.column(), of.name(), of.info(), is_largest),))
    emit = partial(element_at, -1 if is_largest else 0)
    return Remembered((of.multiset(),), emit, running=partial(running_extreme, is_largest))


def _edge(of: CallBinding, *, is_last: bool) -> Remembered:
    if not of.retracts:
        return Remembered((FirstOrLast(of.column(), of.name(), of.info(), is_last),), is_ordered=True)
    values = of.ordered((0,), skips_nulls=True)
    return Remembered((values,), collected.last_of if is_last else collected.first_of, is_ordered=True)


def _listagg(of: CallBinding) -> Remembered:
    separator = of.constant(1, "," if len(of.call.arguments) == 1 else None)
    places = (0,) if separator is not None else (0, 1)
    emit = partial(collected.joined_text, separator, of.call.is_distinct)
    return Remembered((of.ordered(places, skips_nulls=True),), emit, is_ordered=True)


def _array_agg(of: CallBinding) -> Remembered:
    emit = partial(collected.array_of, of.arrow_type, of.call.is_distinct)
    return Remembered((of.ordered((0,), skips_nulls=bool(of.option("ignores_nulls"))),), emit, is_ordered=True)


def _single_value(of: CallBinding) -> Remembered:
    return Remembered((of.ordered((0,), skips_nulls=False),), collected.single_value, is_ordered=True)


def _json_array(of: CallBinding) -> Remembered:
    values = of.ordered((0,), skips_nulls=of.option("on_null") != "NULL")
    return Remembered((values,), collected.json_array, is_ordered=True)


def _json_object(of: CallBinding) -> Remembered:
    values = of.ordered((0, 1), skips_nulls=of.option("on_null") == "ABSENT")
    return Remembered((values,), collected.json_object, is_ordered=True)


def _collect(of: CallBinding) -> Remembered:
    return Remembered((of.multiset(),), partial(collected.multiset_of, of.arrow_type))


def _percentile(of: CallBinding) -> Remembered:
    parts = of.constant(1)
    if parts is None or len(of.call.arguments) > 2:
        raise UnsupportedOperationError("PERCENTILE takes a literal, or an ARRAY of literals, for which percentiles")
    many = isinstance(parts, list | tuple)
    shares = tuple(float(part) for part in (parts if many else (parts,)))
    return Remembered((of.multiset(),), partial(collected.percentiles, shares, not many))


def _approximate_count(of: CallBinding) -> Remembered:
    if of.retracts:
        raise UnsupportedOperationError("APPROX_COUNT_DISTINCT cannot take records back")
    return Remembered((DistinctSketch(of.column(), of.name()),))


def _count_of_distinct(of: CallBinding) -> Remembered:
    return Remembered((of.multiset(),), collected.count_of_distinct, running=running_distinct)


def _of_distinct(emit: Callable[..., pa.Array], of: CallBinding) -> Remembered:
    return Remembered((of.multiset(),), partial(emit, of.arrow_type))


def _bitmap(emit: Callable[..., pa.Array], combine: collected.Combine, of: CallBinding) -> Remembered:
    return Remembered((of.multiset(),), partial(emit, combine))


_Make = Callable[[CallBinding], Remembered]

_FUNCTIONS: Final[Mapping[str, _Make]] = {
    "COUNT": _count,
    "SUM": _sum,
    "$SUM0": _sum_or_zero,
    "SUM0": _sum_or_zero,
    "AVG": _average,
    "MIN": partial(_extreme, is_largest=False),
    "MAX": partial(_extreme, is_largest=True),
    "STDDEV": partial(_variance, is_sample=True, is_root=True),
    "STDDEV_POP": partial(_variance, is_sample=False, is_root=True),
    "STDDEV_SAMP": partial(_variance, is_sample=True, is_root=True),
    "VAR_POP": partial(_variance, is_sample=False, is_root=False),
    "VAR_SAMP": partial(_variance, is_sample=True, is_root=False),
    "VARIANCE": partial(_variance, is_sample=True, is_root=False),
    "FIRST_VALUE": partial(_edge, is_last=False),
    "LAST_VALUE": partial(_edge, is_last=True),
    "LISTAGG": _listagg,
    "ARRAY_AGG": _array_agg,
    "SINGLE_VALUE": _single_value,
    "COLLECT": _collect,
    "PERCENTILE": _percentile,
    "JSON_ARRAYAGG": _json_array,
    "JSON_OBJECTAGG": _json_object,
    "APPROX_COUNT_DISTINCT": _approximate_count,
    **{f"BITMAP_{word}_AGG": partial(_bitmap, collected.bitmap, made) for word, made in collected.COMBINES.items()},
    **{
        f"BITMAP_{word}_CARDINALITY_AGG": partial(_bitmap, collected.cardinality, made)
        for word, made in collected.COMBINES.items()
    },
}
"""Aggregators by function name."""

_DISTINCT: Final[Mapping[str, _Make]] = {
    "COUNT": _count_of_distinct,
    "SUM": partial(_of_distinct, collected.sum_of_distinct),
    **dict.fromkeys(("$SUM0", "SUM0"), partial(_of_distinct, collected.sum_of_distinct_or_zero)),
    "AVG": partial(_of_distinct, collected.average_of_distinct),
    "LISTAGG": _listagg,
    "ARRAY_AGG": _array_agg,
    "COLLECT": lambda of: Remembered((of.multiset(),), partial(collected.set_of, of.arrow_type)),
}
"""Aggregators with ``DISTINCT``, by function name."""

_IDEMPOTENT: Final = frozenset({"MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "APPROX_COUNT_DISTINCT"})
"""Functions whose result is the same with ``DISTINCT``."""
