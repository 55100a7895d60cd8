"""Records as text, spelled as PyFlink spells them.

A value of a declared type is written as Flink's own (Java's) classes write it: ``(a,1,true)`` for a tuple, ``null`` for
what is missing. Nothing is known of other values, which are written as Python writes them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headrace.common.row import RowKind
from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    SequenceTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

if TYPE_CHECKING:
    from headrace.common.time import Instant

Text = Callable[[Any], str]
"""Gives the text of a value."""

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_PLAIN_FROM: Final = Decimal("0.001")
_PLAIN_BELOW: Final = Decimal(10_000_000)


def printed(type_info: TypeInformation) -> Text:
    """How ``print()`` of PyFlink shows the records of a stream: as :func:`text_of`, but a row as ``+I[a,None]``."""
    return _printed_row if isinstance(type_info, RowTypeInfo) else text_of(type_info)


def text_of(type_info: TypeInformation) -> Text:
    """How Flink writes values of a type: what a text file holds."""
    text = _text_of_known(type_info)
    if text is python_text:
        return text
    return lambda value: "null" if value is None else text(value)


def python_text(value: Any) -> str:
    """A value of an unknown type."""
    return str(value)


def _text_of_known(type_info: TypeInformation) -> Text:
    if isinstance(type_info, BasicTypeInfo):
        return _BASIC.get(type_info.basic_type, str)
    if isinstance(type_info, SequenceTypeInfo):
        return _in_brackets("[", ", ", "]", text_of(type_info.element_type))
    if isinstance(type_info, MapTypeInfo):
        return _text_of_map(text_of(type_info.key_type), text_of(type_info.value_type))
    if type(type_info) is TupleTypeInfo:
        fields = [text_of(field) for field in type_info.field_types]
        return lambda value: f"({_joined(',', fields, value)})"
    if isinstance(type_info, RowTypeInfo):
        fields = [text_of(field) for field in type_info.field_types]
        return lambda value: f"{_kind(value)}[{_joined(', ', fields, value)}]"
    return python_text


def _printed_row(row: Any) -> str:
    return "null" if row is None else f"{_kind(row)}[{','.join(map(str, row))}]"


def _kind(row: Any) -> RowKind:
    return row.get_row_kind() if hasattr(row, "get_row_kind") else RowKind.INSERT


def _joined(separator: str, texts: list[Text], values: Any) -> str:
    return separator.join([text(value) for text, value in zip(texts, values, strict=True)])


def _in_brackets(begin: str, separator: str, end: str, element: Text) -> Text:
    return lambda values: f"{begin}{separator.join(map(element, values))}{end}"


def _text_of_map(key: Text, value: Text) -> Text:
    return lambda entries: f"{{{', '.join([f'{key(k)}={value(v)}' for k, v in entries.items()])}}}"


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _double(value: float) -> str:
    return _java_number(repr(float(value)))


def _float(value: float) -> str:
    return _java_number(str(np.float32(value)))


def _java_number(digits: str) -> str:
    """The shortest digits of a number as Java writes them: with an exponent below 0.001 and from ten million on."""
    if digits in _NOT_FINITE:
        return _NOT_FINITE[digits]
    number = Decimal(digits)
    if not number or _PLAIN_FROM <= abs(number) < _PLAIN_BELOW:
        plain = f"{number:f}"
        return plain if "." in plain else f"{plain}.0"
    sign, figures, _ = number.normalize().as_tuple()
    rest = "".join(map(str, figures[1:])) or "0"
    return f"{'-' if sign else ''}{figures[0]}.{rest}E{number.adjusted()}"


def _timestamp(value: datetime.datetime) -> str:
    fraction = f"{value.microsecond:06}".rstrip("0") or "0"
    return f"{value.date().isoformat()} {value:%H:%M:%S}.{fraction}"


def _instant(value: Instant) -> str:
    whole = _EPOCH + datetime.timedelta(seconds=value.seconds)
    nanos = f"{value.nanos:09}"
    while nanos.endswith("000"):
        nanos = nanos[:-3]
    return f"{whole.isoformat()}{'.' if nanos else ''}{nanos}Z"


_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

_BASIC: Final[dict[BasicType, Text]] = {
    BasicType.BOOLEAN: _boolean,
    BasicType.FLOAT: _float,
    BasicType.DOUBLE: _double,
    BasicType.INSTANT: _instant,
    BasicType.SQL_DATE: datetime.date.isoformat,
    BasicType.SQL_TIME: datetime.time.isoformat,
    BasicType.SQL_TIMESTAMP: _timestamp,
}
"""Simple values that Java writes in its own way."""
