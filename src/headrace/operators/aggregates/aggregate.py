"""Built-in aggregates as the user writes them, ``sum("price").alias("total")``, and bound to the type of the input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.typeinfo import BasicType, BasicTypeInfo, TypeInformation
from headrace.common.typeinfo.base import FLOATS, WHOLE_NUMBERS
from headrace.expressions import Bound, BoundColumn, Column, Expression, bind
from headrace.expressions.evaluation import fields_in

if TYPE_CHECKING:
    from headrace.operators.aggregates.aggregator import BoundAggregate, Input

AnyColumn = str | int | Expression | None
"""A column as a program declares it."""


@dataclass(frozen=True, slots=True)
class InputColumn:
    """The input of an aggregate.

    Attributes:
        source: the position of the column in the input, or the expression that computes it.
        name: the name of the field, or the text of the expression.
        type: the type of the values.
    """

    source: Input
    name: str
    type: TypeInformation


class ColumnTypes(NamedTuple):
    """The columns that an aggregate takes.

    Attributes:
        accepts: whether it takes values of a type.
        wanted: what it takes, for errors.
    """

    accepts: Callable[[TypeInformation], bool]
    wanted: str


def is_one_of(kinds: Set[BasicType], type_: TypeInformation) -> bool:
    """Return whether a type is one of some basic types."""
    return isinstance(type_, BasicTypeInfo) and type_.basic_type in kinds


def has_order(type_: TypeInformation) -> bool:
    """Return whether values of a type compare as their columns do; integers of any size, and decimals, are text."""
    return isinstance(type_, BasicTypeInfo) and type_.basic_type not in (BasicType.BIG_INT, BasicType.BIG_DEC)


ORDERED: Final = ColumnTypes(has_order, "numbers, text, booleans, dates and times")
NUMBERS: Final = ColumnTypes(partial(is_one_of, WHOLE_NUMBERS | FLOATS), "numbers of up to 64 bits")


class BindableAggregate(Protocol):
    """An aggregate that can be bound to the columns of an input: of the DataStream API, or an SQL aggregate call."""

    def bind(self, input_type: TypeInformation, *, retracts: bool = False) -> BoundAggregate:
        """The aggregate over records of a type, which may be taken back or not."""


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """A built-in aggregate as the program declares it.

    Attributes:
        function: what it is called in programs.
        columns: all that it looks at, each a name or position of a field, or an expression; None for records that are a
            single value, and no column for ``count()``.
        make: makes what is bound, of the name of the output column and of the columns.
        takes: which columns it takes; None for all.
        options: further options in the program.
        name: the name of the output column; None for one made of the function and the field (``sum_price``).
        default_name: the name of the output column where it is not made of a field.
        make_retractable: makes what is bound where records may be taken back; None for the same.
        why_not_retractable: why records cannot be taken back from it; empty when they can.

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

    function: str
    columns: tuple[AnyColumn, ...]
    make: Callable[..., BoundAggregate]
    takes: ColumnTypes | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    name: str | None = None
    default_name: str | None = None
    make_retractable: Callable[..., BoundAggregate] | None = None
    why_not_retractable: str = ""

    # Expressions compare as a part of programs, by making another expression; their text identifies each of them.
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        given = [repr(column) for column in self.columns if column is not None]
        given += [f"{name}={value!r}" for name, value in self.options.items()]
        return f"{self.function}({', '.join(given)})" + (f".alias({self.name!r})" if self.name else "")

    def alias(self, name: str) -> Aggregate:
        """The same aggregate under another name in the output.

        Raises:
            InvalidProgramError: when it is no name.
        """
        if not name or type(name) is not str:
            raise InvalidProgramError(f"{self.function}(...).alias() takes a name for the column, not {name!r}")
        return replace(self, name=name)

    def bind(self, input_type: TypeInformation, *, retracts: bool = False) -> BoundAggregate:
        """The aggregate over records of a type.

        Args:
            input_type: the type of the records.
            retracts: whether records may be taken back. Some aggregates then remember more.

        Raises:
            InvalidTypeError: when there is no such field, or the aggregate does not take values of its type.
            InvalidProgramError: when records may be taken back and the aggregate cannot do that.
        """
        columns = [self._resolved(input_type, column) for column in self.columns]
        if retracts and self.why_not_retractable:
            raise InvalidProgramError(
                f"{self.function}() cannot take records back, and its input may do that: {self.why_not_retractable}"
            )
        for column in columns:
            if self.takes is not None and not self.takes.accepts(column.type):
                raise self._misfit(column)
        name = self.name or self.default_name or self._made_name(columns[0].name)
        make = (self.make_retractable if retracts else None) or self.make
        return make(name, *columns)

    def _made_name(self, field: str) -> str:
        column = self.columns[0]
        if isinstance(column, Expression) and not isinstance(column, Column):
            if column.name is None:
                text = f"{self.function}({column!r})"
                raise InvalidTypeError(f'say what {text} is called in the output: {text}.alias("...")')
            field = column.name
        return f"{self.function}_{field}"

    def fields_in(self, input_type: TypeInformation) -> frozenset[int]:
        """The indices of the fields of records that it looks at."""
        sources = [self._resolved(input_type, column).source for column in self.columns]
        computed = (fields_in(each) for each in sources if isinstance(each, Bound))
        return frozenset().union((each for each in sources if isinstance(each, int)), *computed)

    def _misfit(self, column: InputColumn) -> InvalidTypeError:
        is_field, wanted = isinstance(column.source, int), "" if self.takes is None else self.takes.wanted
        name = repr(column.name) if is_field else column.name
        found = f"field {name}" if is_field else "that"
        return InvalidTypeError(f"{self.function}({name}) takes {wanted}, but {found} is of type {column.type}")

    def _resolved(self, input_type: TypeInformation, column: AnyColumn) -> InputColumn:
        """The column of the input that is meant: a field, or what an expression computes of fields.

        Raises:
            InvalidTypeError: when there is no such field.
        """
        if isinstance(column, Expression):
            value = bind(column, input_type)
            if isinstance(value, BoundColumn):
                names = input_type.field_names if input_type.is_composite else ("value",)
                return InputColumn(value.index, names[value.index], value.type)
            return InputColumn(value, value.text, value.type)
        if input_type.is_composite and column is not None:
            index = input_type.field_index(column)
            return InputColumn(index, input_type.field_names[index], input_type.field_types[index])
        if input_type.is_composite:
            known = ", ".join(map(repr, input_type.field_names))
            raise InvalidTypeError(f"{self.function}() needs a field of {input_type}: one of {known}")
        if column not in (None, 0) and input_type.arrow_type is None:
            raise InvalidTypeError(
                f"{self.function}({column!r}): the records are pickled objects and have no fields: give their type "
                "where they are made, with output_type=... or an annotation"
            )
        if column not in (None, 0):
            raise InvalidTypeError(
                f"{self.function}({column!r}): records of type {input_type} have no fields: {self.function}(0) takes "
                "the record itself"
            )
        return InputColumn(0, "value", input_type)
