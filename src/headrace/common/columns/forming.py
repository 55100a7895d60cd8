"""The quick ways to the form in which values come back from storage, for what programs often put into state.

Storing a value and reading it back gives that form too, but costs tens of microseconds. Where a quick way ends, it says
so, and that is what is done.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import InvalidTypeError
from headrace.common.row import Row, RowKind, make_row

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    Form = Callable[[Any], Any]

UNKNOWN: Final = object()
"""What a quick way gives for a value that it does not know."""

_SINGLE: Final = Struct("<f")
_EXACT: Final = 2**53
"""Integers up to this are doubles."""


def unknown(_: Any) -> Any:
    """There is no quick way."""
    return UNKNOWN


def double(value: Any) -> Any:
    """An integer as a double."""
    return float(value) if type(value) is int and -_EXACT <= value <= _EXACT else UNKNOWN


def single(value: Any) -> Any:
    """A double, rounded to 32 bits."""
    if type(value) is not float:
        return UNKNOWN
    try:
        return _SINGLE.unpack(_SINGLE.pack(value))[0]
    except OverflowError:
        return UNKNOWN


def tuple_of(make: Callable[[list[Any]], Any], kinds: Collection[type], fields: Sequence[Form]) -> Form:
    """A tuple of the right length, field by field.

    Args:
        make: makes the tuple of its fields.
        kinds: the classes of tuples that are taken for one.
        fields: bring the fields into their form.
    """
    size = len(fields)

    def form(value: Any) -> Any:
        if type(value) not in kinds or len(value) != size:
            return UNKNOWN
        return _formed(make, fields, value)

    return form


def row_of(names: tuple[str, ...], fields: Sequence[Form]) -> Form:
    """A row without names, or with these, field by field; a tuple likewise.

    Args:
        names: the names that the row gets.
        fields: bring the fields into their form.
    """
    size = len(fields)

    def form(value: Any) -> Any:
        if type(value) is Row:
            is_known = value._row_kind is RowKind.INSERT and (value._fields is None or value._fields == names)
            values: Sequence[Any] = value._values if is_known else ()
        else:
            values = value if type(value) is tuple else ()
        if len(values) != size:
            return UNKNOWN
        return _formed(lambda parts: make_row(names, parts), fields, values)

    return form


def _formed(make: Callable[[list[Any]], Any], fields: Sequence[Form], values: Sequence[Any]) -> Any:
    try:
        return make([fit(part) for fit, part in zip(fields, values, strict=True)])
    except InvalidTypeError:
        return UNKNOWN  # the long way tells which field is wrong
