"""Values of declared types from text and from JSON, for what Arrow's own readers cannot read."""

from __future__ import annotations

import base64
import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from headrace.common.time import Instant
from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    SequenceTypeInfo,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.typeinfo import TypeInformation

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def _instant(text: str) -> Instant:
    micros = (_aware(text) - _EPOCH) // _MICROSECOND
    return Instant(micros // 1_000_000, micros % 1_000_000 * 1000)


def _aware(text: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment


def _naive(text: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        raise ValueError(f"{text!r} has a time zone")
    return moment


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a number") from None


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_FROM_TEXT: dict[BasicType, Callable[[str], Any]] = {
    BasicType.STRING: str,
    BasicType.CHAR: str,
    BasicType.BYTE: int,
    BasicType.SHORT: int,
    BasicType.INT: int,
    BasicType.LONG: int,
    BasicType.BIG_INT: int,
    BasicType.FLOAT: float,
    BasicType.DOUBLE: float,
    BasicType.BOOLEAN: _boolean,
    BasicType.BIG_DEC: _decimal,
    BasicType.BYTES: _bytes,
    BasicType.SQL_DATE: datetime.date.fromisoformat,
    BasicType.SQL_TIME: datetime.time.fromisoformat,
    BasicType.SQL_TIMESTAMP: _naive,
    BasicType.TIMESTAMP_LTZ: _aware,
    BasicType.INSTANT: _instant,
}

_AS_JSON_STRINGS = {
    BasicType.BYTES,
    BasicType.SQL_DATE,
    BasicType.SQL_TIME,
    BasicType.SQL_TIMESTAMP,
    BasicType.TIMESTAMP_LTZ,
    BasicType.INSTANT,
}


def value_of_text(text: str, kind: TypeInformation) -> Any:
    """A value from its text.

    Raises:
        ValueError: when the text is no value of that type.
    """
    if not isinstance(kind, BasicTypeInfo):
        raise ValueError(f"a value of type {kind} cannot be read from text")
    return _FROM_TEXT[kind.basic_type](text)


def value_of_json(value: Any, kind: TypeInformation) -> Any:
    """A value from what :mod:`json` makes of it, with numbers that have a fraction as ``Decimal``.

    Composite values become tuples. What is not handled here is left to the check against the type.

    Raises:
        ValueError: when it is no value of that type.
    """
    if value is None:
        return None
    if isinstance(kind, BasicTypeInfo):
        return _simple(value, kind.basic_type)
    if isinstance(kind, CompositeTypeInfo):
        _expect(value, dict, kind)
        pairs = zip(kind.field_names, kind.field_types, strict=True)
        return tuple([value_of_json(value.get(name), field) for name, field in pairs])
    if isinstance(kind, SequenceTypeInfo):
        _expect(value, list, kind)
        return [value_of_json(element, kind.element_type) for element in value]
    if isinstance(kind, MapTypeInfo):
        _expect(value, dict, kind)
        return {value_of_text(k, kind.key_type): value_of_json(v, kind.value_type) for k, v in value.items()}
    return value


def _simple(value: Any, kind: BasicType) -> Any:
    if kind in _AS_JSON_STRINGS:
        _expect(value, str, kind.name)
        return _FROM_TEXT[kind](value)
    if kind in (BasicType.FLOAT, BasicType.DOUBLE) and isinstance(value, Decimal | int) and not isinstance(value, bool):
        return float(value)
    if kind is BasicType.BIG_DEC and isinstance(value, str):
        return _decimal(value)
    return value


def _expect(value: Any, wanted: type, kind: Any) -> None:
    if not isinstance(value, wanted):
        raise ValueError(f"{value!r} is no value of type {kind}")


def by_position(kind: TypeInformation) -> TypeInformation:
    """A type with the same columns whose composite values are tuples: it makes columns without making records."""
    if isinstance(kind, CompositeTypeInfo):
        changelog = isinstance(kind, RowTypeInfo) and kind.changelog
        return RowTypeInfo(tuple(map(by_position, kind.field_types)), kind.field_names, changelog)
    if isinstance(kind, SequenceTypeInfo):
        inner = by_position(kind.element_type)
        return kind if inner == kind.element_type else ListTypeInfo(inner)
    if isinstance(kind, MapTypeInfo):
        return MapTypeInfo(by_position(kind.key_type), by_position(kind.value_type))
    return kind
