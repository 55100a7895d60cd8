"""JSON Schemas for records whose type is declared."""

from __future__ import annotations

from typing import Any, Final

from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    MapTypeInfo,
    SequenceTypeInfo,
    TypeInformation,
)
from headrace.common.typeinfo.basic import STRINGS, WHOLE_NUMBERS

_SCHEMAS: Final[dict[BasicType, dict[str, Any]]] = {
    **{kind: {"type": "string"} for kind in STRINGS},
    **{kind: {"type": "integer"} for kind in (*WHOLE_NUMBERS, BasicType.BIG_INT)},
    **{kind: {"type": ["number", "string"]} for kind in (BasicType.FLOAT, BasicType.DOUBLE)},  # NaN is a string
    BasicType.BIG_DEC: {"type": "number"},
    BasicType.BOOLEAN: {"type": "boolean"},
    BasicType.BYTES: {"type": "string", "contentEncoding": "base64"},
    BasicType.SQL_DATE: {"type": "string", "format": "date"},
    BasicType.SQL_TIME: {"type": "string", "format": "time"},
    BasicType.SQL_TIMESTAMP: {"type": "string"},  # the format date-time has a zone
    BasicType.TIMESTAMP_LTZ: {"type": "string", "format": "date-time"},
    BasicType.INSTANT: {"type": "string", "format": "date-time"},
}


def json_schema_of(kind: TypeInformation) -> dict[str, Any]:
    """The JSON Schema of documents that records of a type are written as; every field may be ``null``.

    Raises:
        InvalidTypeError: when a field may be any object.
    """
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_schema(kind)}


def _schema(kind: TypeInformation) -> dict[str, Any]:
    if isinstance(kind, BasicTypeInfo):
        return _SCHEMAS[kind.basic_type]
    if isinstance(kind, CompositeTypeInfo):
        fields = zip(kind.field_names, kind.field_types, strict=True)
        return {"type": "object", "properties": {name: _nullable(of) for name, of in fields}}
    if isinstance(kind, SequenceTypeInfo):
        return {"type": "array", "items": _nullable(kind.element_type)}
    if isinstance(kind, MapTypeInfo):
        return {"type": "object", "additionalProperties": _nullable(kind.value_type)}
    raise InvalidTypeError(f"{kind} has no JSON Schema: give json_schema, or declare the type")


def _nullable(kind: TypeInformation) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, _schema(kind)]}
