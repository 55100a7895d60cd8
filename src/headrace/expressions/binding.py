"""Binding: finds the columns and the types of an expression, and refuses what does not fit together."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from headrace.common.columns import infer_from_values, values_to_array
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import BasicTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.composite import VALUE_COLUMN
from headrace.expressions.evaluation import (
    Bound,
    BoundCase,
    BoundColumn,
    BoundConstant,
    BoundField,
    BoundTuple,
    Datum,
    no_value,
)
from headrace.expressions.functions import FUNCTIONS, TOTAL_FUNCTIONS, caster, targets_of
from headrace.expressions.stages import StageAggregate, StageField
from headrace.expressions.tree import (
    Alias,
    CaseWhen,
    CastTo,
    Column,
    Expression,
    FieldOf,
    FunctionCall,
    LiteralValue,
    Side,
)


@dataclass(frozen=True, slots=True)
class BoundCall(Bound):
    """A function of others.

    Attributes:
        function: its name.
        overload: which of its overloads.
        arguments: what it is applied to.
        options: names and values of what is the same for all rows.
    """

    function: str
    overload: int
    arguments: tuple[Bound, ...]
    options: tuple[tuple[str, Any], ...]

    @property
    def is_total(self) -> bool:
        return self.function in TOTAL_FUNCTIONS

    def compute(self, batch: pa.RecordBatch) -> Datum:
        arguments = [argument.compute(batch) for argument in self.arguments]
        overload = FUNCTIONS[self.function].overloads[self.overload]
        try:
            computed = overload.compute(arguments, dict(self.options))
            wanted = self.type.storage_type
            return computed if computed.type.equals(wanted) else computed.cast(wanted)
        except pa.ArrowException as error:
            raise no_value(self, error) from error


@dataclass(frozen=True, slots=True)
class BoundCast(Bound):
    """A value as one of another type.

    Attributes:
        argument: the value.
    """

    argument: Bound

    @property
    def is_total(self) -> bool:
        return False

    def compute(self, batch: pa.RecordBatch) -> Datum:
        value = self.argument.compute(batch)
        cast = caster(self.argument.type, self.type)
        assert cast is not None, "refused when it was bound"
        try:
            return cast(value, self.type.storage_type)
        except pa.ArrowException as error:
            raise no_value(self, error) from error


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Given(Expression):
    """Stands for what is bound already.

    Attributes:
        bound: what it stands for.
    """

    bound: Bound

    def __repr__(self) -> str:
        return self.bound.text


def bind(expression: Expression, record_type: TypeInformation) -> Bound:
    """An expression over records of a type.

    Raises:
        InvalidTypeError: when there is no such column, or a function does not take values of such types; the message
            names the part of the expression that is wrong.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.expressions import bind, col
        >>> bind(col("n") / 2, Types.ROW_NAMED(["n"], [int])).type
        Double
    """
    if record_type.arrow_type is None:
        raise InvalidTypeError(
            f"{expression!r}: the records are pickled objects and have no columns: give their type where they are "
            "made, with output_type=... or an annotation, or use a function of the record instead of an expression"
        )
    return _BINDERS[type(expression)](expression, record_type)


def bind_tuple(expressions: tuple[Expression, ...], record_type: TypeInformation) -> Bound:
    """Several expressions as the fields of one tuple.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.expressions import bind_tuple, col
        >>> bind_tuple((col("a"), col("b") * 2), Types.ROW_NAMED(["a", "b"], [str, int])).type
        TupleTypeInfo(String, Long)
    """
    bound = tuple(bind(expression, record_type) for expression in expressions)
    text = f"({', '.join(one.text for one in bound)})"
    return BoundTuple(text, Types.TUPLE([one.type for one in bound]), bound)


def _column(column: Column, record_type: TypeInformation) -> Bound:
    if record_type.is_composite:
        try:
            index = record_type.field_index(column.key)
        except InvalidTypeError as error:
            raise InvalidTypeError(f"{column!r}: {error}") from None
        return BoundColumn(repr(column), record_type.field_types[index], index)
    if column.key not in (VALUE_COLUMN, 0):
        raise InvalidTypeError(
            f"{column!r}: records of type {record_type} have no fields: col({VALUE_COLUMN!r}) is the record itself"
        )
    return BoundColumn(repr(column), record_type, 0)


def _side(side: Side, record_type: TypeInformation) -> Bound:
    if not record_type.is_composite or side.key not in record_type.field_names:
        raise InvalidTypeError(
            f"{side!r} is a record of a pair, in a join: for fields of records of type {record_type} there is col(...)"
        )
    return _column(side, record_type)


def _literal(literal: LiteralValue, _: TypeInformation) -> Bound:
    type_info = literal.type or _type_of_value(literal)
    try:
        value = values_to_array(type_info, [literal.value])[0]
    except InvalidTypeError as error:
        raise InvalidTypeError(f"{literal!r}: {error}") from None
    return BoundConstant(repr(literal), type_info, value)


def _type_of_value(literal: LiteralValue) -> TypeInformation:
    value = literal.value
    if isinstance(value, datetime) and value.tzinfo is not None:
        return Types.TIMESTAMP_LTZ()  # whatever the zone, it is the moment that counts
    item = getattr(value, "item", None)
    found = infer_from_values([item() if callable(item) else value])
    if not isinstance(found, BasicTypeInfo):
        raise InvalidTypeError(
            f"{literal!r} ({type(value).__name__}) cannot stand in an expression: numbers of 64 bits, text, bytes, "
            "booleans, dates, times and decimals can; for None say the type: lit(None, Types.LONG())"
        )
    return found


def _call(call: FunctionCall, record_type: TypeInformation) -> Bound:
    arguments = tuple(bind(argument, record_type) for argument in call.arguments)
    function = FUNCTIONS[call.function]
    types = [argument.type for argument in arguments]
    chosen = function.choose(types)
    if chosen is None:
        given = ", ".join(f"{argument.text} is {argument.type}" for argument in arguments)
        raise InvalidTypeError(f"{call!r}: {given}; {call.function} takes {function.wanted()}: cast() what differs")
    result = function.overloads[chosen].result or types[0]
    return BoundCall(repr(call), result, call.function, chosen, arguments, call.options)


def _cast(cast: CastTo, record_type: TypeInformation) -> Bound:
    argument = bind(cast.argument, record_type)
    if caster(argument.type, cast.type) is None:
        targets = targets_of(argument.type)
        known = f"it can be cast to {', '.join(targets)}" if targets else "it cannot be cast"
        raise InvalidTypeError(f"{cast!r}: {argument.text} is {argument.type}, which is no {cast.type}: {known}")
    return argument if argument.type == cast.type else BoundCast(repr(cast), cast.type, argument)


def _field(field: FieldOf, record_type: TypeInformation) -> Bound:
    argument = bind(field.argument, record_type)
    if argument.type.arrow_type is None:
        raise InvalidTypeError(f"{field!r}: {argument.text} is a pickled object, which has no columns: give its type")
    try:
        index = argument.type.field_index(field.key)
    except InvalidTypeError as error:
        raise InvalidTypeError(f"{field!r}: {error}") from None
    return BoundField(repr(field), argument.type.field_types[index], argument, index)


def _case(case: CaseWhen, record_type: TypeInformation) -> Bound:
    conditions = [bind(condition, record_type) for condition, _ in case.branches]
    for condition in conditions:
        if condition.type != Types.BOOLEAN():
            raise InvalidTypeError(f"{case!r}: a condition is a boolean, but {condition.text} is {condition.type}")
    values = [bind(value, record_type) for _, value in case.branches]
    if case.default is not None:
        values.append(bind(case.default, record_type))
    common = _common_type([value.type for value in values])
    if common is None:
        given = ", ".join(f"{value.text} is {value.type}" for value in values)
        raise InvalidTypeError(f"{case!r}: the values have no type in common ({given}); cast them to one")
    made = [value if value.type == common else BoundCast(value.text, common, value) for value in values]
    default = None if case.default is None else made.pop()
    return BoundCase(repr(case), common, tuple(zip(conditions, made, strict=True)), default)


def _common_type(types: list[TypeInformation]) -> TypeInformation | None:
    """The type that values of several types are brought to: the same as for ``coalesce``."""
    coalesce = FUNCTIONS["coalesce"]
    chosen = coalesce.choose(types)
    return None if chosen is None else coalesce.overloads[chosen].result or types[0]


def _alias(alias: Alias, record_type: TypeInformation) -> Bound:
    return bind(alias.argument, record_type)


def _given(given: Given, _: TypeInformation) -> Bound:
    return given.bound


def _of_stage(expression: StageField | StageAggregate, _: TypeInformation) -> Bound:
    raise InvalidTypeError(f"{expression!r}: only conditions of patterns know the events that a stage has taken")


_BINDERS: Final[dict[type[Expression], Callable[[Any, TypeInformation], Bound]]] = {
    Column: _column,
    Side: _side,
    LiteralValue: _literal,
    FunctionCall: _call,
    CastTo: _cast,
    FieldOf: _field,
    CaseWhen: _case,
    Alias: _alias,
    Given: _given,
    StageField: _of_stage,
    StageAggregate: _of_stage,
}
