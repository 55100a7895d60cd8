"""Copies of values that user code may change in place, as cheap as the value allows."""

from __future__ import annotations

import datetime
from copy import deepcopy
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from headrace.common.row import Row, make_row
from headrace.common.typeinfo import RowTypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.typeinfo import TypeInformation

ATOMIC: Final = frozenset(
    {
        type(None),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        Decimal,
        UUID,
        range,
        datetime.date,
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
        datetime.timezone,
    }
)
"""Classes whose instances cannot be changed (exactly these: an instance of a subclass may have attributes)."""


def copy_value(value: Any) -> Any:
    """A value that shares nothing with ``value`` that could be changed; itself when nothing in it can."""
    kind = type(value)
    if kind in ATOMIC:
        return value
    if kind is list:
        return [element if type(element) in ATOMIC else copy_value(element) for element in value]
    if kind is dict:
        return {key: item if type(item) in ATOMIC else copy_value(item) for key, item in value.items()}
    if kind is tuple:
        return value if all(type(element) in ATOMIC for element in value) else tuple(map(copy_value, value))
    if kind is Row:
        values = [item if type(item) in ATOMIC else copy_value(item) for item in value._values]
        return make_row(value._fields, values, value._row_kind)
    return set(value) if kind is set else value if isinstance(value, Enum) else deepcopy(value)


def copier(type_: TypeInformation) -> Callable[[Any], Any]:
    """What copies values of a type, so that changing the copy does not change the value."""
    if type_.is_immutable:
        return _same
    if isinstance(type_, RowTypeInfo) and all(field.is_immutable for field in type_.field_types):
        return _copy_row
    return copy_value


def _same(value: Any) -> Any:
    return value


def _copy_row(row: Row | None) -> Row | None:
    return None if row is None else make_row(row._fields, row._values, row._row_kind)
