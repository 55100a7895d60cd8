"""Values of declared types as JSON, one by one."""

from __future__ import annotations

import base64
import datetime
import json
import math
from decimal import Decimal
from typing import Any

from headrace.common.errors import InvalidTypeError
from headrace.common.time import Instant
from headrace.common.typeinfo import (
    CompositeTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    SequenceTypeInfo,
    TypeInformation,
)


def json_text(value: Any, kind: TypeInformation) -> str:
    """A value of a type as JSON.

    Fields without names are called ``f0``, ``f1`` and so on. Times are ISO 8601 strings, bytes are Base64, decimals
    are numbers with all their digits, and numbers that are not finite are the strings ``NaN`` and ``Infinity``.

    Raises:
        InvalidTypeError: when the value has no form in JSON.
    """
    if value is None:
        return "null"
    if isinstance(kind, CompositeTypeInfo):
        triples = zip(kind.field_names, _values(value, kind.field_names), kind.field_types, strict=True)
        return _braced([f"{string_text(name)}:{json_text(field, field_kind)}" for name, field, field_kind in triples])
    if isinstance(kind, SequenceTypeInfo):
        return f"[{','.join([json_text(element, kind.element_type) for element in value])}]"
    if isinstance(kind, MapTypeInfo):
        return _braced([f"{_key_text(key)}:{json_text(item, kind.value_type)}" for key, item in value.items()])
    return _simple_text(value)


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


def string_text(value: str) -> str:
    """A string as JSON."""
    return json.dumps(value, ensure_ascii=False)


def _braced(members: list[str]) -> str:
    return f"{{{','.join(members)}}}"


def _values(value: Any, names: tuple[str, ...]) -> list[Any]:
    if isinstance(value, dict):
        return [value.get(name) for name in names]
    if hasattr(value, "__iter__"):  # tuples and rows
        return list(value)
    return [getattr(value, name) for name in names]


def _key_text(key: Any) -> str:
    text = _simple_text(key)
    return text if text.startswith('"') else string_text(text)


def _simple_text(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else f'"{"-" if value < 0 else ""}Infinity"'
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode("ascii")}"'
    if isinstance(value, datetime.date | datetime.time):  # a datetime is a date
        return f'"{value.isoformat()}"'
    if isinstance(value, Instant):
        moment = datetime.datetime.fromtimestamp(value.seconds, datetime.UTC)
        return f'"{moment:%Y-%m-%dT%H:%M:%S}.{value.nanos:09}Z"'
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{value!r} has no form in JSON: {error}") from error
