"""Expressions and fields of the records of a stream, checked with errors that end in the user's own line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.common.arguments import refused, shown
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import BasicType, BasicTypeInfo, TupleTypeInfo, Types
from headrace.common.typeinfo.base import FLOATS, WHOLE_NUMBERS
from headrace.datastream.streams.types import declared_type, is_untyped
from headrace.expressions import Column, Expression, bind, col
from headrace.operators.join.tagged import pair_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.expressions import Bound


_SHOWN: Final = 100
"""The number of characters of an expression that the name of an operator shows."""


def bound(expression: Expression, record_type: TypeInformation, method: str) -> Bound:
    """An expression over the records of a stream.

    Args:
        expression: the expression.
        record_type: the type of the records.
        method: the method that it was given to, for messages.

    Raises:
        InvalidTypeError: when it does not fit the records.
    """
    try:
        return bind(expression, record_type)
    except InvalidTypeError as error:
        raise refused(f"{method}: {error}", InvalidTypeError) from None


def type_of_field(record_type: TypeInformation, field: str | int, asked_by: str) -> TypeInformation:
    """The type of a field of records that have some.

    Args:
        record_type: the type of the records.
        field: its name or position.
        asked_by: what asks for it, for messages.

    Raises:
        InvalidTypeError: when there is no such field.
    """
    try:
        return record_type.field_types[record_type.field_index(field)]
    except InvalidTypeError as error:
        raise refused(f"{asked_by}: {error}", InvalidTypeError) from None


def bound_condition(expression: Expression, record_type: TypeInformation, method: str) -> Bound:
    """A condition over the records of a stream, as :func:`bound`.

    Raises:
        InvalidTypeError: also when it is of another type.
    """
    condition = bound(expression, record_type, method)
    if condition.type != Types.BOOLEAN():
        text = (
            f"{method} takes a condition, but {condition.text} is of type {condition.type}: compare it with something"
        )
        raise refused(text, InvalidTypeError)
    return condition


def check_same_type(method: str, value: Bound, declared: Any) -> None:
    """Refuse a declared type that is not the one that an expression has.

    Raises:
        InvalidTypeError: when they differ.
    """
    if declared is not None and declared_type(declared) != value.type:
        text = f"{method}: {value.text} is of type {value.type}, not {declared_type(declared)}: write .cast(...)"
        raise refused(text, InvalidTypeError)


def bound_columns(
    expressions: Sequence[Expression], record_type: TypeInformation
) -> tuple[tuple[Bound, ...], list[str]]:
    """The columns of ``select`` and their names.

    Raises:
        InvalidTypeError: when one does not fit the records.
        InvalidProgramError: when one has no name, or two have the same.
    """
    values = tuple(bound(expression, record_type, "select") for expression in expressions)
    names = [_name(expression, record_type) for expression in expressions]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if not names or repeated:
        text = f"two columns are called {repeated[0]!r}: name one with .alias(...)" if repeated else "say which columns"
        raise refused(f"select: {text}")
    return values, names


def selected(
    expressions: Sequence[Any], left: TypeInformation, right: TypeInformation
) -> tuple[tuple[Bound, ...], TypeInformation]:
    """The columns of ``select`` over pairs of records, and the type of the rows that they make.

    Raises:
        InvalidTypeError: when one is no expression, or does not fit the pairs.
        InvalidProgramError: when one has no name, or two have the same.
    """
    pair = pair_type(left, right)
    for expression in expressions:
        if not isinstance(expression, Expression) or _is_no_side(expression, pair):
            field = expression.key if isinstance(expression, Column) else expression
            named = repr(field) if isinstance(field, str | int) else "'id'"
            text = f"select takes expressions over pairs, left({named}) or right({named}) say, not {shown(expression)}"
            raise refused(text, InvalidTypeError)
    values, names = bound_columns(expressions, pair)
    return values, Types.ROW_NAMED(names, [value.type for value in values])


def _is_no_side(expression: Expression, pair: TypeInformation) -> bool:
    """Returns True for a plain column that is neither of the two records of a pair."""
    return isinstance(expression, Column) and expression.key not in (*pair.field_names, *range(len(pair.field_names)))


def projected(positions: tuple[Any, ...], record_type: TypeInformation) -> tuple[Bound, ...]:
    """The fields of tuples at some positions.

    Raises:
        InvalidTypeError: when the records are no tuples, or there is no such field.
    """
    if not isinstance(record_type, TupleTypeInfo):
        text = f"project is for tuples, but the records are of type {record_type}: use select(...), or give their type"
        raise refused(text, InvalidTypeError)
    if not positions:
        raise refused("project: say which fields, by their positions: project(0, 2)", InvalidTypeError)
    for position in positions:
        if not isinstance(position, int) or isinstance(position, bool):
            text = f"project takes positions of fields one by one, project(0, 2) say, not {position!r}"
            raise refused(text, InvalidTypeError)
    return tuple(bound(col(position), record_type, "project") for position in positions)


def titled(kind: str, *columns: Any) -> str:
    """The name of an operator: its kind and what it computes, shortened."""
    text = ", ".join(map(repr, columns))
    return f"{kind}: {text}" if len(text) <= _SHOWN else f"{kind}: {text[:_SHOWN]}..."


def as_column(column: Any) -> Expression:
    """An expression, or the field with this name or position.

    Raises:
        InvalidTypeError: when it is neither.
    """
    if isinstance(column, Expression):
        return column
    if isinstance(column, str | int) and not isinstance(column, bool):
        return col(column)
    raise refused(f"select takes expressions and names of fields, not {column!r}", InvalidTypeError)


def name_of(expression: Expression, record_type: TypeInformation) -> str | None:
    """The name of an expression over the records of a type; None where only the user could say."""
    if isinstance(expression, Column) and record_type.is_composite:
        return record_type.field_names[record_type.field_index(expression.key)]
    return expression.name


def _name(expression: Expression, record_type: TypeInformation) -> str:
    name = name_of(expression, record_type)
    if name is None:
        raise refused(f"select: say what {expression!r} is called: {expression.alias('...')!r}")
    return name


_NUMBERS: Final = WHOLE_NUMBERS | FLOATS | {BasicType.BIG_INT, BasicType.BIG_DEC}


def checked_field(record_type: TypeInformation, aggregation: str, position: Any) -> str | int | None:
    """The field that is meant; None for the record itself.

    Args:
        record_type: the type of the records.
        aggregation: ``sum``, ``min``, ``max``, ``min_by`` or ``max_by``.
        position: what the user gave: a name, a position or a plain column.

    Raises:
        InvalidTypeError: when it is neither, there is no such field, or its values do not fit.
    """
    if isinstance(position, Column):
        position = position.key
    if not isinstance(position, int | str) or isinstance(position, bool):
        instead = ": make it a field with select(...) first" if isinstance(position, Expression) else ""
        text = f"{aggregation} takes the name or the position of a field, not {position!r}{instead}"
        raise refused(text, InvalidTypeError)
    if is_untyped(record_type):
        return position  # what the records are is known when they come
    if not record_type.is_composite:
        if position != 0:
            text = f"{aggregation}({position!r}): records of type {record_type} have no fields"
            raise refused(f"{text}: {aggregation}() takes the record itself", InvalidTypeError)
        _check_values(record_type, f"{aggregation}()", aggregation)
        return None
    call = f"{aggregation}({position!r})"
    _check_values(type_of_field(record_type, position, call), call, aggregation)
    return position


def _check_values(type_info: TypeInformation, call: str, aggregation: str) -> None:
    """``sum`` takes numbers; the others take whatever has an order."""
    if is_untyped(type_info):
        return
    is_sum = aggregation == "sum"
    if isinstance(type_info, BasicTypeInfo) and (not is_sum or type_info.basic_type in _NUMBERS):
        return
    wanted = "numbers" if is_sum else "numbers, text, booleans, dates and times"
    raise refused(f"{call} takes {wanted}, but the values are of type {type_info}", InvalidTypeError)
