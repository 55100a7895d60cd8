"""JSON Schemas: of records whose type is declared, and the types of records that one describes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    MapTypeInfo,
    SequenceTypeInfo,
    TypeInformation,
    Types,
)
from headrace.common.typeinfo.base import STRINGS, WHOLE_NUMBERS

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


_TEXTS: Final[Mapping[str, Callable[[], TypeInformation]]] = {
    "date": Types.SQL_DATE,
    "time": Types.SQL_TIME,
    "date-time": Types.SQL_TIMESTAMP,
}
_UNIONS: Final = ("allOf", "anyOf", "not", "extends", "disallow")


def type_of_json_schema(text: str) -> TypeInformation:
    """The type of the documents that a JSON Schema describes, as Flink's ``JsonRowSchemaConverter`` reads it.

    Numbers are BIG_DEC, tuples are rows. References lead into the same document; ``oneOf`` serves for ``null`` alone.

    Raises:
        InvalidTypeError: naming the place in the schema, where it cannot be read so.
    """
    try:
        root = json.loads(text)
    except ValueError as error:
        raise InvalidTypeError(f"the JSON Schema is no JSON: {error}") from None
    return _Documents(root).type_of(root, "<root>", ())


class _Documents:
    """The documents of a schema; places are named as in the schema."""

    def __init__(self, root: Any) -> None:
        self._root = root

    def type_of(self, node: Any, place: str, above: tuple[str, ...]) -> TypeInformation:
        found = self._type_or_null(node, place, above)
        if found is None:
            raise InvalidTypeError(f"{place} of the JSON Schema is always null: give it another type")
        return found

    def _type_or_null(self, node: Any, place: str, above: tuple[str, ...]) -> TypeInformation | None:
        if not isinstance(node, Mapping):
            raise InvalidTypeError(f"{place} of the JSON Schema is {node!r}, which describes no type")
        if "$ref" in node:
            node, above = {**self._target(node["$ref"], place, above), **node}, (*above, node["$ref"])
        if refused := [name for name in _UNIONS if name in node]:
            raise InvalidTypeError(f"{place} of the JSON Schema: {refused[0]!r} is not supported")
        given = node.get("type", ())
        names = [given] if isinstance(given, str) else given
        kinds = {self._named(name, node, place, above) for name in names}
        alternatives = enumerate(node.get("oneOf", ()))
        kinds |= {self._type_or_null(each, f"{place}/oneOf[{index}]", above) for index, each in alternatives}
        if not kinds:
            raise InvalidTypeError(f"{place} of the JSON Schema has no type")
        if len(kinds - {None}) > 1:
            raise InvalidTypeError(f"{place} of the JSON Schema has several types: only null may stand beside another")
        return next(iter(kinds - {None}), None)

    def _target(self, reference: str, place: str, above: tuple[str, ...]) -> Any:
        if not reference.startswith("#") or reference in above:
            raise InvalidTypeError(f"{place} of the JSON Schema: {reference!r} is cyclic or leads outside")
        found = self._root
        for name in filter(None, reference[1:].split("/")):
            found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        if not isinstance(found, Mapping):
            raise InvalidTypeError(f"{place} of the JSON Schema: there is nothing at {reference!r}")
        return found

    def _named(self, name: object, node: Any, place: str, above: tuple[str, ...]) -> TypeInformation | None:
        match name:
            case "null":
                return None
            case "boolean":
                return Types.BOOLEAN()
            case "number" | "integer":
                return Types.BIG_DEC()
            case "string":
                return _text_type(node, place)
            case "object":
                return self._row(node, place, above)
            case "array":
                return self._array(node, place, above)
        raise InvalidTypeError(f"{place} of the JSON Schema: there is no type {name!r}")

    def _row(self, node: Any, place: str, above: tuple[str, ...]) -> TypeInformation:
        fields = node.get("properties", {})
        if node.get("additionalProperties") is True or not fields:
            raise InvalidTypeError(f"{place} of the JSON Schema has to name its properties, and to allow no others")
        kinds = [self.type_of(each, f"{place}/{name}", above) for name, each in fields.items()]
        return Types.ROW_NAMED(list(fields), kinds)

    def _array(self, node: Any, place: str, above: tuple[str, ...]) -> TypeInformation:
        items = node.get("items")
        if not isinstance(items, list):
            return Types.OBJECT_ARRAY(self.type_of(items, f"{place}/items", above))
        if node.get("additionalItems") is True:
            raise InvalidTypeError(f"{place} of the JSON Schema has to name its items, and to allow no others")
        return Types.ROW([self.type_of(each, f"{place}/items[{index}]", above) for index, each in enumerate(items)])


def _text_type(node: Any, place: str) -> TypeInformation:
    if "format" in node:
        return _TEXTS.get(node["format"], Types.STRING)()
    encoding = node.get("contentEncoding")
    if encoding not in (None, "base64"):
        raise InvalidTypeError(f"{place} of the JSON Schema: there is no contentEncoding {encoding!r} but base64")
    return Types.STRING() if encoding is None else Types.PRIMITIVE_ARRAY(Types.BYTE())
