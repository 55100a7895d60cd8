"""The formats of messages, as what is fuzzed: which types they have, how they are written and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from headrace.common import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    ByteArraySchema,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    DeserializationSchema,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    SerializationSchema,
    SimpleStringSchema,
)
from headrace.common.typeinfo import BasicType, RowTypeInfo
from headrace.formats.avro.schema import avro_schema_of
from headrace.formats.cdc import schemas as cdc
from headrace.formats.protobuf.messages import ProtobufRowDeserializationSchema, ProtobufRowSerializationSchema
from tests.formats.fuzz.values import VALUES
from tests.formats.protobuf_messages import class_of, file_of

ALL: Final = frozenset(VALUES)
_AVRO: Final = ALL - {BasicType.BIG_INT, BasicType.BIG_DEC, BasicType.BYTE, BasicType.SHORT}
_PROTOBUF: Final = {
    BasicType.BOOLEAN: "bool", BasicType.INT: "sint32", BasicType.LONG: "int64", BasicType.FLOAT: "float",
    BasicType.DOUBLE: "double", BasicType.STRING: "string", BasicType.BYTES: "bytes",
}  # fmt: skip


@dataclass(frozen=True)
class MessageFormat:
    """A format of messages.

    Attributes:
        types: of which types fields may be.
        writer: writes rows of a type.
        reader: reads them.
        nested: whether fields may have parts.
        takes_nulls: whether what is written shows nulls, and is read as such.
        one_each: whether a message is one record.
    """

    types: frozenset[BasicType]
    writer: Callable[[RowTypeInfo], SerializationSchema]
    reader: Callable[[RowTypeInfo], DeserializationSchema]
    nested: bool = True
    takes_nulls: bool = True
    one_each: bool = True


def _avro_text(kind: RowTypeInfo) -> str:
    return str(avro_schema_of(kind))


def _message(kind: RowTypeInfo) -> Any:
    fields = [
        f"{number} optional {_PROTOBUF[field.basic_type]} {name}"  # type: ignore[attr-defined]
        for number, (name, field) in enumerate(zip(kind.field_names, kind.field_types, strict=True), 1)
    ]
    return class_of("M", file_of(("M", *fields)))


def _csv(kind: RowTypeInfo) -> SerializationSchema:
    return CsvRowSerializationSchema.Builder(kind).set_null_literal("<null>").build()


def _csv_reader(kind: RowTypeInfo) -> DeserializationSchema:
    return CsvRowDeserializationSchema.Builder(kind).set_null_literal("<null>").build()


def _changes(reader: Any, writer: Any) -> MessageFormat:
    return MessageFormat(ALL, writer, reader, one_each=False)


FORMATS: Final[dict[str, MessageFormat]] = {
    "json": MessageFormat(ALL, JsonRowSerializationSchema, JsonRowDeserializationSchema),
    "csv": MessageFormat(ALL - {BasicType.BYTES}, _csv, _csv_reader, nested=False),
    "avro": MessageFormat(
        _AVRO,
        lambda kind: AvroRowSerializationSchema(avro_schema_string=_avro_text(kind), legacy_timestamp_mapping=False),
        lambda kind: AvroRowDeserializationSchema(avro_schema_string=_avro_text(kind), legacy_timestamp_mapping=False),
    ),
    "protobuf": MessageFormat(
        frozenset(_PROTOBUF),
        lambda kind: ProtobufRowSerializationSchema(_message(kind)),
        lambda kind: ProtobufRowDeserializationSchema(_message(kind)),
        nested=False,
    ),
    "debezium": _changes(cdc.DebeziumJsonDeserializationSchema, cdc.DebeziumJsonSerializationSchema),
    "canal": _changes(cdc.CanalJsonDeserializationSchema, cdc.CanalJsonSerializationSchema),
    "maxwell": _changes(cdc.MaxwellJsonDeserializationSchema, cdc.MaxwellJsonSerializationSchema),
    "ogg": _changes(cdc.OggJsonDeserializationSchema, cdc.OggJsonSerializationSchema),
}

RAW: Final[dict[str, DeserializationSchema]] = {"strings": SimpleStringSchema(), "bytes": ByteArraySchema()}


def binary(messages: list[bytes]) -> pa.Array:
    """Messages as a source hands them over."""
    return pa.array(messages, pa.binary())
