"""Types of records by a schema of Avro, and schemas of Avro for records whose type is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    DictTypeInfo,
    MapTypeInfo,
    SequenceTypeInfo,
    TypeInformation,
)
from headrace.formats.avro.schema import AvroSchema, GivenSchema, Record, schema_given

_SCHEMAS: Final[dict[BasicType, Any]] = {
    BasicType.STRING: "string",
    BasicType.CHAR: "string",
    BasicType.BOOLEAN: "boolean",
    BasicType.BYTE: "int",
    BasicType.SHORT: "int",
    BasicType.INT: "int",
    BasicType.LONG: "long",
    BasicType.FLOAT: "float",
    BasicType.DOUBLE: "double",
    BasicType.BYTES: "bytes",
    BasicType.SQL_DATE: {"type": "int", "logicalType": "date"},
    BasicType.SQL_TIME: {"type": "long", "logicalType": "time-micros"},
    BasicType.SQL_TIMESTAMP: {"type": "long", "logicalType": "local-timestamp-micros"},
    BasicType.TIMESTAMP_LTZ: {"type": "long", "logicalType": "timestamp-micros"},
}


class GenericRecordAvroTypeInfo(DictTypeInfo):
    """The type of dicts with the fields of a schema, records inside of it being dicts too.

    Args:
        schema: the schema of a record, or its text in JSON.

    Raises:
        InvalidTypeError: when the schema is none of a record.

    Examples:
        >>> from headrace.datastream.formats.avro import AvroSchema, GenericRecordAvroTypeInfo
        >>> order = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
        >>> GenericRecordAvroTypeInfo(AvroSchema.parse_string(order)).get_field_names()
        ['id']
    """

    if TYPE_CHECKING:

        def __init__(self, schema: GivenSchema) -> None: ...

    def __new__(cls, schema: GivenSchema) -> TypeInformation:  # type: ignore[misc]
        """The type of dicts that other programs declare too, so that no second kind of type has to be known."""
        node = schema_given(schema, "GenericRecordAvroTypeInfo").node(as_dicts=True)
        if not isinstance(node, Record):
            raise InvalidTypeError(f"a record of Avro has a schema of type record, not {schema}")
        return node.type_info


def avro_schema_of(
    kind: TypeInformation, name: str = "record", *, advice: str = "give the schema itself"
) -> AvroSchema:
    """The schema of records of a type; every field may be ``null``, as it may be ``None``.

    It is meant to be read without Flink's legacy mapping of timestamps: those with a zone are moments.

    Args:
        kind: the type.
        name: what the record is called.
        advice: what to do where no schema can be made.

    Raises:
        InvalidTypeError: when a field has no form in Avro without further words (decimals), or a name that it has not.
    """
    try:
        return AvroSchema(_schema(kind, name, name))
    except _NoSchemaError as error:
        raise InvalidTypeError(f"{error}: {advice}") from None


class _NoSchemaError(Exception):
    """No schema can be made of a type."""


def _schema(kind: TypeInformation, name: str, path: str) -> Any:
    if isinstance(kind, BasicTypeInfo) and kind.basic_type in _SCHEMAS:
        return _SCHEMAS[kind.basic_type]
    if isinstance(kind, CompositeTypeInfo):
        for field in kind.field_names:
            if not field.isidentifier():
                raise InvalidTypeError(
                    f"{path}.{field} is no name in Avro, which has letters, digits and _ alone: rename it"
                )
        pairs = zip(kind.field_names, kind.field_types, strict=True)
        fields = [{"name": n, "type": _nullable(of, f"{name}_{n}", f"{path}.{n}"), "default": None} for n, of in pairs]
        return {"type": "record", "name": name, "fields": fields}
    if isinstance(kind, SequenceTypeInfo):
        return {"type": "array", "items": _nullable(kind.element_type, name, f"{path}[]")}
    if isinstance(kind, MapTypeInfo) and kind.key_type in _TEXTS:
        return {"type": "map", "values": _nullable(kind.value_type, name, f"{path}[]")}
    raise _NoSchemaError(f"{path} is {kind}, of which no schema of Avro can be made")


def _nullable(kind: TypeInformation, name: str, path: str) -> list[Any]:
    return ["null", _schema(kind, name, path)]


_TEXTS: Final = (BasicTypeInfo(BasicType.STRING), BasicTypeInfo(BasicType.CHAR))
