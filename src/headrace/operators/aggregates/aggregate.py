"""What the user asks for, ``sum("price").alias("total")``, and what is made of it once the input is known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar, Self

import pyarrow as pa

from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.common.typeinfo import BasicType, BasicTypeInfo
from headrace.expressions import BoundColumn, Column, Expression, bind

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.aggregates.aggregator import Aggregator, Input
    from headrace.state.runs.grouping import Segments

Emit = Callable[[Sequence[pa.Array]], pa.Array]
"""From the results of aggregators to one column."""

Running = Callable[[list[pa.Array], "Segments"], pa.Array]
"""From the accumulators of an aggregator, group after group, to one column."""


def only_result(results: Sequence[pa.Array]) -> pa.Array:
    """The result of the first aggregator, as it is."""
    return results[0]


@dataclass(frozen=True, slots=True)
class InputColumn:
    """What an aggregate looks at.

    Attributes:
        source: the position of the column in the input, or the expression that computes it.
        name: the name of the field, or the text of the expression.
        type: the type of the values.
    """

    source: Input
    name: str
    type: TypeInformation


@dataclass(frozen=True, slots=True)
class BoundAggregate:
    """An aggregate over an input whose columns are known.

    Attributes:
        name: the name of the output column.
        type: the type of the output column.
        aggregators: what has to be remembered for it.
        emit: the output column, from the results of the aggregators; a function that can be pickled.
        is_ordered: whether the result depends on the order in which records come.
        running: the output column of each accumulator of the only aggregator, merged with all before it in its group;
            None where these have to be merged for it.
    """

    name: str
    type: TypeInformation
    aggregators: tuple[Aggregator, ...]
    emit: Emit = only_result
    is_ordered: bool = False
    running: Running | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(ABC):
    """A built-in aggregate as the user asks for it.

    Attributes:
        column: name or position of the field, or an expression; None for ``count()``, and for records that are a
            single value.
        name: the name of the output column; None for one made of the function and the field (``sum_price``).

    Class attributes:
        function: what it is called in programs.
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

    column: str | int | Expression | None = None
    name: str | None = None

    function: ClassVar[str]
    why_not_retractable: ClassVar[str] = ""

    # Expressions compare as a part of programs, by making another expression; their text tells all of them.
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[str, ...]:
        return self.function, *(repr(getattr(self, field.name)) for field in fields(self))

    @property
    def columns(self) -> tuple[str | int | Expression | None, ...]:
        """All that it looks at, as the program says it."""
        return (self.column,)

    def alias(self, name: str) -> Self:
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
        column, *others = (self._resolved(input_type, column) for column in self.columns)
        if retracts:
            self._check_retractable()
        return self._bound(self.name or self._made_name(column.name), column, *others, retracts=retracts)

    def _check_retractable(self) -> None:
        if self.why_not_retractable:
            raise InvalidProgramError(
                f"{self.function}() cannot take records back, and its input may do that: {self.why_not_retractable}"
            )

    def _made_name(self, field: str) -> str:
        column = self.column
        if isinstance(column, Expression) and not isinstance(column, Column):
            if column.name is None:
                text = f"{self.function}({column!r})"
                raise InvalidTypeError(f'say what {text} is called in the output: {text}.alias("...")')
            field = column.name
        return f"{self.function}_{field}"

    @abstractmethod
    def _bound(self, name: str, column: InputColumn, *others: InputColumn, retracts: bool) -> BoundAggregate:
        """The aggregate of its columns, called ``name`` in the output."""

    def _resolved(self, input_type: TypeInformation, column: str | int | Expression | None) -> InputColumn:
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

    def _refuse(self, column: InputColumn, wanted: str) -> InvalidTypeError:
        is_field = isinstance(column.source, int)
        name = repr(column.name) if is_field else column.name
        found = f"field {name}" if is_field else "that"
        return InvalidTypeError(f"{self.function}({name}) takes {wanted}, but {found} is of type {column.type}")


def is_one_of(type_: TypeInformation, kinds: Set[BasicType]) -> bool:
    """Whether a type is one of some basic types."""
    return isinstance(type_, BasicTypeInfo) and type_.basic_type in kinds


def has_order(type_: TypeInformation) -> bool:
    """Whether values of a type compare as their columns do; integers and decimals of any size are kept as text."""
    return isinstance(type_, BasicTypeInfo) and type_.basic_type not in (BasicType.BIG_INT, BasicType.BIG_DEC)
