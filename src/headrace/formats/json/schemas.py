"""JSON messages as rows and back, with or without a schema registry; and JSON Schemas of types."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.builder import Builder
from headrace.common.errors import InvalidProgramError, InvalidTypeError
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
from headrace.formats.bad_records import ColumnarDeserializationSchema, ColumnarSerializationSchema
from headrace.formats.json.decoders import decoder_of, refuse_missing_fields
from headrace.formats.json.writer import JsonStyle, json_texts
from headrace.formats.schema_registry import (
    RegistrySerializationSchema,
    SchemaHeader,
    SchemaRegistry,
    registry_of,
    without_header,
)

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

    def __init__(self, root: object) -> None:
        self._root = root

    def type_of(self, node: object, place: str, above: tuple[str, ...]) -> TypeInformation:
        found = self._type_or_null(node, place, above)
        if found is None:
            raise InvalidTypeError(f"{place} of the JSON Schema is always null: give it another type")
        return found

    def _type_or_null(self, node: object, place: str, above: tuple[str, ...]) -> TypeInformation | None:
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

    def _named(self, name: object, node: object, place: str, above: tuple[str, ...]) -> TypeInformation | None:
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


class JsonRowDeserializationSchemaBuilder(Builder):
    """Puts a :class:`JsonRowDeserializationSchema` together."""

    def type_info(self, type_info: TypeInformation | type) -> Self:
        """The type of the records."""
        return self._set(type_info=type_info)

    def json_schema(self, json_schema: str) -> Self:
        """The type of the records, as a JSON Schema describes it: numbers are BIG_DEC.

        Raises:
            InvalidTypeError: when it describes no type of rows.
        """
        return self.type_info(type_of_json_schema(json_schema))

    def fail_on_missing_field(self) -> Self:
        """Take a missing field for an error."""
        return self._set(fail_on_missing_field=True)

    def ignore_parse_errors(self) -> Self:
        """Leave out what cannot be read."""
        return self._set(ignore_parse_errors=True)

    def build(self) -> JsonRowDeserializationSchema:
        """The schema.

        Raises:
            InvalidProgramError: when no type was given, or both ways to treat errors were requested.
        """
        if self._given.get("type_info") is None:
            raise InvalidProgramError("JsonRowDeserializationSchema needs a type: call type_info(...)")
        if self._given.keys() >= {"fail_on_missing_field", "ignore_parse_errors"}:
            raise InvalidProgramError("choose one of fail_on_missing_field and ignore_parse_errors")
        return JsonRowDeserializationSchema(**self._given)


class JsonRowDeserializationSchema(ColumnarDeserializationSchema):
    """Reads a JSON object as a record of a type.

    Args:
        type_info: the type of the records; a dataclass says it, too.
        fail_on_missing_field: whether a missing field is an error; else it is ``None``.
        ignore_parse_errors: whether what cannot be read is left out; else it is an error.

    Examples:
        >>> from headrace.common import JsonRowDeserializationSchema, Types
        >>> user = Types.ROW_NAMED(["name", "age"], [str, int])
        >>> schema = JsonRowDeserializationSchema.builder().type_info(user).build()
        >>> schema.deserialize(b'{"name": "ann", "age": 31}')
        Row(name='ann', age=31)
    """

    Builder = JsonRowDeserializationSchemaBuilder

    def __init__(
        self,
        type_info: TypeInformation | type,
        *,
        fail_on_missing_field: bool = False,
        ignore_parse_errors: bool = False,
    ) -> None:
        super().__init__(Types.of(type_info), ignore_parse_errors=ignore_parse_errors)
        self._fail_on_missing_field = fail_on_missing_field

    @staticmethod
    def builder() -> JsonRowDeserializationSchemaBuilder:
        """Begin a schema."""
        return JsonRowDeserializationSchemaBuilder()

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        columns = decoder_of(self._type).messages(messages)
        if self._fail_on_missing_field:
            refuse_missing_fields(messages, columns, self._type)
        return columns


class JsonRowSerializationSchemaBuilder(Builder):
    """Puts a :class:`JsonRowSerializationSchema` together."""

    def with_type_info(self, type_info: TypeInformation | type) -> Self:
        """The type of the records."""
        return self._set(type_info=type_info)

    def with_timestamp_format(self, timestamp_format: str) -> Self:
        """Return how moments are written: ``ISO-8601``, which is the default, or ``SQL``."""
        JsonStyle(timestamp_format)  # refuses another one
        return self._set(timestamp_format=timestamp_format)

    def ignore_null_fields(self) -> Self:
        """Leave fields without a value out."""
        return self._set(ignore_null_fields=True)

    def build(self) -> JsonRowSerializationSchema:
        """The schema.

        Raises:
            InvalidProgramError: when no type was given.
        """
        if self._given.get("type_info") is None:
            raise InvalidProgramError("JsonRowSerializationSchema needs a type: call with_type_info(...)")
        return JsonRowSerializationSchema(**self._given)


class JsonRowSerializationSchema(ColumnarSerializationSchema):
    """Writes a record of a type as a JSON object.

    Args:
        type_info: the type of the records; a dataclass says it, too.
        timestamp_format: how moments are written: ``ISO-8601``, or ``SQL``, which has a blank in place of the ``T``.
        ignore_null_fields: whether fields without a value are left out.

    Raises:
        ConfigurationError: when there is no such format.

    Examples:
        >>> from headrace.common import JsonRowSerializationSchema, Row, Types
        >>> user = Types.ROW_NAMED(["name", "age"], [str, int])
        >>> schema = JsonRowSerializationSchema.builder().with_type_info(user).build()
        >>> schema.serialize(Row(name="ann", age=31))
        b'{"name":"ann","age":31}'
    """

    Builder = JsonRowSerializationSchemaBuilder

    def __init__(
        self,
        type_info: TypeInformation | type,
        *,
        timestamp_format: str = "ISO-8601",
        ignore_null_fields: bool = False,
    ) -> None:
        super().__init__(Types.of(type_info))
        self._style = JsonStyle(timestamp_format, ignore_null_fields)

    @staticmethod
    def builder() -> JsonRowSerializationSchemaBuilder:
        """Begin a schema."""
        return JsonRowSerializationSchemaBuilder()

    def serialize_batch(self, batch: Batch) -> pa.Array:
        return json_texts(self.columns_of(batch), self._type, style=self._style).cast(pa.binary())


class ConfluentRegistryJsonDeserializationSchema(ColumnarDeserializationSchema):
    r"""Reads documents of JSON behind the id of a schema; what comes out is said by a type, as for other JSON.

    Args:
        type_info: the type of the records.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.formats.schema_registry import ConfluentRegistryJsonDeserializationSchema
        >>> schema = ConfluentRegistryJsonDeserializationSchema(Types.ROW_NAMED(["id"], [int]))
        >>> schema.deserialize(bytes(4) + b'\x07{"id": 1}')
        Row(id=1)
    """

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        return decoder_of(self._type).messages(without_header(messages))


class ConfluentRegistryJsonSerializationSchema(RegistrySerializationSchema):
    """Writes records as documents of JSON behind the id of their JSON Schema, which is put into a registry.

    Args:
        registry: the registry, or its URL.
        subject: where the schema is.
        type_info: the type of the records.
        json_schema: their JSON Schema; one is made of the type when it is left out.
        auto_register: whether a schema that is not there becomes a new version of the subject.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.formats.schema_registry import ConfluentRegistryJsonSerializationSchema
        >>> order = Types.ROW_NAMED(["id", "card"], [int, str])
        >>> schema = ConfluentRegistryJsonSerializationSchema("http://localhost:8081", "orders-value", order)
    """

    def __init__(
        self,
        registry: SchemaRegistry | str,
        subject: str,
        type_info: TypeInformation,
        *,
        json_schema: str | None = None,
        auto_register: bool = True,
    ) -> None:
        text = json.dumps(json_schema_of(type_info)) if json_schema is None else json_schema
        header = SchemaHeader(registry_of(registry), subject, text, "JSON", auto_register)
        super().__init__(header, JsonRowSerializationSchema(type_info))
