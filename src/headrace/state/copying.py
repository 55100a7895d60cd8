"""Copies of values that user code may change in place, as cheap as the value allows."""

import copy
import datetime
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from decimal import Decimal
from enum import Enum
from pickle import PicklingError
from typing import Any, Final
from uuid import UUID

from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import RowTypeInfo, TypeInformation
from headrace.common.types import Row, make_row
from headrace.common.values.handler import WrongValueError

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


def copy_value(value: Any, subject: str = "the value") -> Any:
    """A value that shares nothing with ``value`` that could be changed; itself when nothing in it can.

    Args:
        value: the value.
        subject: what an error calls it.

    Raises:
        InvalidTypeError: when it, or something in it, cannot be copied, as a generator, a file or a lock.
    """
    kind = type(value)
    if kind in ATOMIC:
        return value
    if kind is list:
        return [element if type(element) in ATOMIC else copy_value(element, subject) for element in value]
    if kind is dict:
        return {key: item if type(item) in ATOMIC else copy_value(item, subject) for key, item in value.items()}
    if kind is tuple:
        is_atomic = all(type(element) in ATOMIC for element in value)
        return value if is_atomic else tuple([copy_value(element, subject) for element in value])
    if kind is Row:
        values = [item if type(item) in ATOMIC else copy_value(item, subject) for item in value._values]
        return make_row(value._fields, values, value._row_kind)
    return set(value) if kind is set else value if isinstance(value, Enum) else _deep_copy(value, subject)


def _deep_copy(value: object, subject: str) -> Any:
    try:
        return deepcopy(value)
    except (TypeError, copy.Error, PicklingError) as error:
        wrong = WrongValueError(value, f"an object that can be copied ({error})")
        raise InvalidTypeError(subject + wrong.describe()) from error


def copier(type_: TypeInformation) -> Callable[..., Any]:
    """The function that copies values of a type as :func:`copy_value` does, with the same arguments."""
    if type_.is_immutable:
        return _same
    if isinstance(type_, RowTypeInfo) and all(field.is_immutable for field in type_.field_types):
        return _copy_row
    return copy_value


def _same(value: object, _subject: str = "") -> Any:
    return value


def _copy_row(row: Row | None, _subject: str = "") -> Row | None:
    return None if row is None else make_row(row._fields, row._values, row._row_kind)


def elements_of(given: object, subject: str) -> Iterable[Any]:
    """The elements that a list state is given.

    A string, whose characters would become elements, and a dict, whose keys would, are taken for one element that
    was not put into a list.

    Args:
        given: what the method was called with.
        subject: what an error calls it.

    Raises:
        InvalidTypeError: when that is nothing to iterate over, a string, bytes or a dict.
    """
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | bytearray | Mapping):
        return given
    raise InvalidTypeError(subject + WrongValueError(given, "a list of elements").describe())


def entries_of(given: object, subject: str) -> Iterable[tuple[Any, Any]]:
    """The keys and values of the entries that a map state is given; arguments as of :func:`elements_of`.

    Raises:
        InvalidTypeError: when it is no dict, nor like one.
    """
    items = getattr(given, "items", None)
    if callable(items):
        entries: Iterable[tuple[Any, Any]] = items()
        return entries
    raise InvalidTypeError(subject + WrongValueError(given, "a dict").describe())
