"""Messages of Protobuf as rows and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.serialization import SerializationSchema
from headrace.formats.columnar_messages import ColumnarDeserializationSchema, columns_as, refuse_other_fields
from headrace.formats.protobuf.columns import message_column
from headrace.formats.protobuf.schema import ProtobufSchema, schema_of
from headrace.formats.protobuf.wire import wire_format

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation


class ProtobufRowDeserializationSchema(ColumnarDeserializationSchema):
    """Reads messages of Protobuf as rows, with the options of Flink's format.

    Enums are the names of their values, ``uint32`` is ``Types.LONG()``, ``uint64`` is ``Types.BIG_INT()``, well-known
    types are rows as other messages are.

    Args:
        schema: the message: a class that ``protoc`` has generated, or a :class:`ProtobufSchema`.
        read_default_values: whether what a message does not have is read as its default; else it is ``None``. Fields
            of proto3 that are neither messages nor ``optional`` nor one of several have their default anyway.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Raises:
        InvalidProgramError: when the message contains itself or a group, or a message without fields.
        ConfigurationError: when the library is not installed.

    Examples:
        >>> from google.protobuf.timestamp_pb2 import Timestamp
        >>> from headrace.datastream.formats.protobuf import ProtobufRowDeserializationSchema
        >>> schema = ProtobufRowDeserializationSchema(Timestamp)
        >>> schema.deserialize(Timestamp(seconds=5).SerializeToString())
        Row(seconds=5, nanos=0)
    """

    def __init__(
        self,
        schema: ProtobufSchema | type[Message],
        *,
        read_default_values: bool = False,
        ignore_parse_errors: bool = False,
    ) -> None:
        self._schema = schema_of(schema)
        self._read_defaults = read_default_values
        self.ignore_parse_errors = ignore_parse_errors
        self.get_produced_type()

    def get_produced_type(self) -> TypeInformation:
        """The rows that the message describes."""
        return message_column(self._schema, read_default_values=self._read_defaults).type_info

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        return read_messages(self._schema, messages, read_default_values=self._read_defaults)


class ProtobufRowSerializationSchema(SerializationSchema):
    r"""Writes a record as a message of Protobuf; its fields are those of the message, in their order.

    A field that is ``None`` is not written. Of several fields of a ``oneof`` the last one is.

    Args:
        schema: the message: a class that ``protoc`` has generated, or a :class:`ProtobufSchema`.
        write_null_string_literal: what is written for ``None`` among strings of a list or a map, where there is no
            null; numbers are 0 there.

    Raises:
        InvalidProgramError: as for :class:`ProtobufRowDeserializationSchema`.
        ConfigurationError: likewise.

    Examples:
        >>> from google.protobuf.timestamp_pb2 import Timestamp
        >>> from headrace.common import Row
        >>> from headrace.datastream.formats.protobuf import ProtobufRowSerializationSchema
        >>> ProtobufRowSerializationSchema(Timestamp).serialize(Row(seconds=5, nanos=None))
        b'\x08\x05'
    """

    def __init__(self, schema: ProtobufSchema | type[Message], *, write_null_string_literal: str = "") -> None:
        self._schema = schema_of(schema)
        self._null_literal = write_null_string_literal
        self._type = message_column(self._schema, write_null_string_literal=write_null_string_literal).type_info

    def serialize(self, element: Any) -> bytes:
        """The bytes of one record; an ``InvalidTypeError`` where it does not fit the message."""
        written: bytes = self._write(layout_of(self._type).rows_to_columns([element]))[0].as_py()
        return written

    def serialize_batch(self, batch: Batch) -> pa.Array:
        if batch.type.arrow_type is None:
            return super().serialize_batch(batch)
        return self._write(columns_as(batch, self._type))

    def validate(self, input_type: TypeInformation) -> None:
        refuse_other_fields(self._type, input_type)

    def _write(self, columns: pa.RecordBatch) -> pa.Array:
        wire = wire_format(self._schema)
        column = message_column(self._schema, write_null_string_literal=self._null_literal)
        arrays = column.write_fields(columns.columns, list(wire.schema), "")
        return wire.write(pa.RecordBatch.from_arrays(arrays, schema=wire.schema))


def read_messages(schema: ProtobufSchema, messages: pa.Array, *, read_default_values: bool) -> pa.RecordBatch:
    """The records of messages, none of which is null, under the schema of their type.

    Raises:
        ValueError: when one of them cannot be read.
    """
    wire = wire_format(schema)
    column = message_column(schema, read_default_values=read_default_values)
    messages = messages.cast(pa.binary())
    stored, certain = wire.read(messages)
    if certain and not column.are_plain(stored.columns):
        stored = wire.read_with_doubt(messages)
    rows = pa.StructArray.from_arrays(stored.columns, fields=list(stored.schema))
    return pa.RecordBatch.from_arrays(column.read_fields(rows), schema=layout_of(column.type_info).schema)
