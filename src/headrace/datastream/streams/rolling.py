"""Checks of the field that a rolling aggregate works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.common.arguments import refused
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import BasicType, BasicTypeInfo
from headrace.common.typeinfo.basic import FLOATS, WHOLE_NUMBERS
from headrace.datastream.streams.columns import type_of_field
from headrace.datastream.streams.types import is_untyped
from headrace.expressions import Column, Expression

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation

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
