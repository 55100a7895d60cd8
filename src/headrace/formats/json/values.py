"""Values of declared types as JSON, one by one."""

from __future__ import annotations

import base64
import datetime
import json
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from headrace.common.errors import ConfigurationError, InvalidTypeError
from headrace.common.time import Instant
from headrace.common.typeinfo import (
    CompositeTypeInfo,
    MapTypeInfo,
    SequenceTypeInfo,
    TypeInformation,
    Types,
)
from headrace.common.values import handler_of

TIMESTAMP_FORMATS: Final = ("ISO-8601", "SQL")


@dataclass(frozen=True, slots=True)
class JsonStyle:
    """What is left open in how values are written.

    Attributes:
        timestamp_format: what is between day and time: ``T`` in ``ISO-8601``, a blank in ``SQL``.
        ignore_null_fields: whether fields without a value are left out.

    Raises:
        ConfigurationError: when there is no such format.
    """

    timestamp_format: str = "ISO-8601"
    ignore_null_fields: bool = False

    def __post_init__(self) -> None:
        if self.timestamp_format not in TIMESTAMP_FORMATS:
            raise ConfigurationError(
                f"there is no format {self.timestamp_format!r} of timestamps: choose one of "
                f"{', '.join(TIMESTAMP_FORMATS)}"
            )

    @property
    def separator(self) -> str:
        """What is between day and time."""
        return "T" if self.timestamp_format == "ISO-8601" else " "


USUAL: Final = JsonStyle()


def json_text(value: Any, kind: TypeInformation, style: JsonStyle = USUAL) -> str:
    """A value of a type as JSON.

    Fields without names are called ``f0``, ``f1`` and so on. Times are ISO 8601 strings, bytes are Base64, decimals
    are numbers with all their digits, numbers with a point are spelled as Java does, and those that are not finite are
    the strings ``NaN`` and ``Infinity``.

    Raises:
        InvalidTypeError: when the value has no form in JSON.
    """
    if value is None:
        return "null"
    if isinstance(kind, CompositeTypeInfo):
        return _object_text(value, kind, style)
    if isinstance(kind, SequenceTypeInfo):
        return f"[{','.join([json_text(element, kind.element_type, style) for element in value])}]"
    if isinstance(kind, MapTypeInfo):
        members = [
            f"{_key_text(k, kind.key_type, style)}:{json_text(v, kind.value_type, style)}" for k, v in value.items()
        ]
        return _braced(members)
    return _simple_text(value, kind, style)


def _object_text(value: Any, kind: CompositeTypeInfo, style: JsonStyle) -> str:
    triples = zip(kind.field_names, _values(value, kind.field_names), kind.field_types, strict=True)
    return _braced(
        [
            f"{string_text(name)}:{json_text(field, field_kind, style)}"
            for name, field, field_kind in triples
            if field is not None or not style.ignore_null_fields
        ]
    )


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


def _key_text(key: Any, kind: TypeInformation, style: JsonStyle) -> str:
    if key is None:
        raise InvalidTypeError("a map has no None among its keys")
    text = _simple_text(key, kind, style)
    return text if text.startswith('"') else string_text(text)


def _simple_text(value: Any, kind: TypeInformation, style: JsonStyle) -> str:
    if isinstance(value, float):
        return real_text(value, kind)
    if isinstance(value, Decimal):
        return f"{value:f}" if value.is_finite() else f'"{value}"'
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode("ascii")}"'
    if isinstance(value, datetime.datetime | Instant):
        return f'"{_moment_text(value, style)}"'
    if isinstance(value, datetime.date | datetime.time):
        return f'"{value.isoformat()}"'
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{value!r} has no form in JSON: {error}") from error


def real_text(value: float, kind: TypeInformation) -> str:
    """A number with a point: ``46.0``, ``1.0E10``."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else f'"{"-" if value < 0 else ""}Infinity"'
    return handler_of(kind if kind == Types.FLOAT() else Types.DOUBLE()).text(value)


def _moment_text(value: datetime.datetime | Instant, style: JsonStyle) -> str:
    if isinstance(value, Instant):
        moment = datetime.datetime.fromtimestamp(value.seconds, datetime.UTC).replace(tzinfo=None)
        return f"{moment.isoformat(style.separator)}.{value.nanos:09}Z"
    if value.tzinfo is None:
        return value.isoformat(style.separator)
    return f"{value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(style.separator)}Z"
