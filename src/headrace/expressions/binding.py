"""Binding: finds the columns and the types of an expression, and refuses what does not fit together."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.columns import VALUE_COLUMN, infer_from_values, values_to_array
from headrace.common.errors import EvaluationError, InvalidTypeError
from headrace.common.typeinfo import BasicTypeInfo, TypeInformation, Types
from headrace.expressions.functions import FUNCTIONS, Datum, caster, targets_of
from headrace.expressions.tree import Alias, Case, Cast, Column, Expression, FieldOf, FunctionCall, Literal, Side


@dataclass(frozen=True, slots=True)
class Bound(ABC):
    """A bound expression.

    Attributes:
        text: as the user wrote it.
        type: the type of its values.

    Examples:
        >>> import pyarrow as pa
        >>> from headrace.common import Types
        >>> from headrace.expressions import bind, col
        >>> doubled = bind(col("n") * 2, Types.ROW_NAMED(["n"], [int]))
        >>> doubled.column(pa.record_batch({"n": [1, None, 3]})).to_pylist()
        [2, None, 6]
    """

    text: str
    type: TypeInformation

    @abstractmethod
    def compute(self, batch: pa.RecordBatch) -> Datum:
        """A value for each row, or one for all of them, under the type's storage type.

        Raises:
            EvaluationError: when a row has no value.
        """

    def column(self, batch: pa.RecordBatch) -> pa.Array:
        """A value for each row."""
        if not batch.num_rows:
            return pa.array([], self.type.storage_type)  # not even a constant that has no value is looked at
        datum = self.compute(batch)
        return pa.repeat(datum, batch.num_rows) if isinstance(datum, pa.Scalar) else datum

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class BoundColumn(Bound):
    """A field of the record.

    Attributes:
        index: its position.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.expressions import bind, col
        >>> bind(col("amount"), Types.ROW_NAMED(["card", "amount"], [str, float]))
        BoundColumn(text='col("amount")', type=Double, index=1)
    """

    index: int

    def compute(self, batch: pa.RecordBatch) -> Datum:
        return batch.column(self.index)


@dataclass(frozen=True, slots=True)
class BoundLiteral(Bound):
    """A value."""

    value: Any

    def compute(self, batch: pa.RecordBatch) -> Datum:
        return values_to_array(self.type, [self.value])[0]


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

    def compute(self, batch: pa.RecordBatch) -> Datum:
        arguments = [argument.compute(batch) for argument in self.arguments]
        overload = FUNCTIONS[self.function].overloads[self.overload]
        try:
            computed = overload.compute(arguments, dict(self.options))
            wanted = self.type.storage_type
            return computed if computed.type.equals(wanted) else computed.cast(wanted)
        except pa.ArrowException as error:
            raise _no_value(self, error) from error


@dataclass(frozen=True, slots=True)
class BoundCast(Bound):
    """A value as one of another type.

    Attributes:
        argument: the value.
    """

    argument: Bound

    def compute(self, batch: pa.RecordBatch) -> Datum:
        value = self.argument.compute(batch)
        cast = caster(self.argument.type, self.type)
        assert cast is not None, "refused when it was bound"
        try:
            return cast(value, self.type.storage_type)
        except pa.ArrowException as error:
            raise _no_value(self, error) from error


@dataclass(frozen=True, slots=True)
class BoundField(Bound):
    """A field of a value that has some.

    Attributes:
        argument: the value.
        index: the position of the field.
    """

    argument: Bound
    index: int

    def compute(self, batch: pa.RecordBatch) -> Datum:
        return pc.struct_field(self.argument.compute(batch), [self.index])


@dataclass(frozen=True, slots=True)
class BoundTuple(Bound):
    """Several values as the fields of one.

    Attributes:
        arguments: the values.
    """

    arguments: tuple[Bound, ...]

    def compute(self, batch: pa.RecordBatch) -> Datum:
        columns = [argument.column(batch) for argument in self.arguments]
        return pa.StructArray.from_arrays(columns, fields=list(self.type.storage_type))


@dataclass(frozen=True, slots=True)
class BoundCase(Bound):
    """The value of the first branch whose condition is true.

    Attributes:
        branches: conditions and values, these of the type of the whole.
        default: the value where no condition is true; None for null.
    """

    branches: tuple[tuple[Bound, Bound], ...]
    default: Bound | None

    def compute(self, batch: pa.RecordBatch) -> Datum:
        try:
            return self._at_once(batch)
        except EvaluationError:
            return self._branch_by_branch(batch)

    def _at_once(self, batch: pa.RecordBatch) -> Datum:
        """All values of all rows: fast, and right unless one fails where it is not taken."""
        result = self._rest.compute(batch)
        for condition, value in reversed(self.branches):
            taken = pc.fill_null(condition.compute(batch), False)
            result = pc.if_else(taken, value.compute(batch), result)
        return result

    def _branch_by_branch(self, batch: pa.RecordBatch) -> Datum:
        """Each value of those rows only that take it."""
        rest = np.arange(batch.num_rows)
        rows, values = [], []
        for condition, value in self.branches:
            remaining = batch.take(pa.array(rest))
            taken = pc.fill_null(condition.column(remaining), False).to_numpy(zero_copy_only=False)
            rows.append(rest[taken])
            values.append(value.column(batch.take(pa.array(rest[taken]))))
            rest = rest[~taken]
        rows.append(rest)
        values.append(self._rest.column(batch.take(pa.array(rest))))
        places = np.argsort(np.concatenate(rows))
        return pa.concat_arrays(values).take(pa.array(places))

    @property
    def _rest(self) -> Bound:
        return self.default or BoundLiteral("None", self.type, None)


def evaluate(expressions: Sequence[Bound], batch: pa.RecordBatch) -> list[pa.Array]:
    """A column for each expression.

    Raises:
        EvaluationError: when a record has no value; its ``row`` says which.

    Examples:
        >>> import pyarrow as pa
        >>> from headrace.common import Types
        >>> from headrace.expressions import bind, col, evaluate
        >>> record = Types.ROW_NAMED(["n"], [int])
        >>> columns = evaluate([bind(col("n") + 1, record), bind(col("n") * 2, record)], pa.record_batch({"n": [1, 2]}))
        >>> [column.to_pylist() for column in columns]
        [[2, 3], [2, 4]]
    """
    try:
        return [expression.column(batch) for expression in expressions]
    except EvaluationError as error:
        error.row = _first_without_value(expressions, batch)
        raise


def _first_without_value(expressions: Sequence[Bound], batch: pa.RecordBatch) -> int:
    """Found by halving, since columns do not tell which of their rows went wrong."""
    start, stop = 0, batch.num_rows
    while stop - start > 1:
        middle = (start + stop) // 2
        if _fails(expressions, batch.slice(start, middle - start)):
            stop = middle
        else:
            start = middle
    return start


def _fails(expressions: Sequence[Bound], batch: pa.RecordBatch) -> bool:
    try:
        for expression in expressions:
            expression.column(batch)
    except EvaluationError:
        return True
    return False


_REASONS = {
    "overflow": "the result does not fit into 64 bits",
    "divide by zero": "division by zero",
}


def _no_value(expression: Bound, error: pa.ArrowException) -> EvaluationError:
    reason = str(error)
    return EvaluationError(f"{expression.text}: {_REASONS.get(reason, reason)}")


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


def _literal(literal: Literal, _: TypeInformation) -> Bound:
    type_info = literal.type or _type_of_value(literal)
    try:
        values_to_array(type_info, [literal.value])
    except InvalidTypeError as error:
        raise InvalidTypeError(f"{literal!r}: {error}") from None
    return BoundLiteral(repr(literal), type_info, literal.value)


def _type_of_value(literal: Literal) -> TypeInformation:
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


def _cast(cast: Cast, record_type: TypeInformation) -> Bound:
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


def _case(case: Case, record_type: TypeInformation) -> Bound:
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


_BINDERS: Final[dict[type[Expression], Callable[[Any, TypeInformation], Bound]]] = {
    Column: _column,
    Side: _side,
    Literal: _literal,
    FunctionCall: _call,
    Cast: _cast,
    FieldOf: _field,
    Case: _case,
    Alias: _alias,
}
