"""Messages of Avro as rows and back, under PyFlink's names: bytes of a record, with no schema beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from headrace.common.columns import layout_of
from headrace.common.errors import InvalidProgramError, UnsupportedOperationError
from headrace.common.serialization import SerializationSchema
from headrace.formats.avro.encoder import encode_records
from headrace.formats.avro.resolution import avro_reader
from headrace.formats.avro.schema import AvroSchema
from headrace.formats.columnar_messages import ColumnarDeserializationSchema, columns_as, refuse_other_fields

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation


class AvroRowDeserializationSchema(ColumnarDeserializationSchema):
    """Reads the bytes of a record of Avro as a row.

    Enums are strings, decimals ``Types.BIG_DEC()``, times ``Types.SQL_DATE()``, ``SQL_TIME()`` and ``SQL_TIMESTAMP()``;
    a union of ``null`` and another type is that type, one of several types is any object.

    Args:
        record_class: Flink's, a class of Java; refused.
        avro_schema_string: the schema of the records, in JSON.
        writer_schema: the schema that messages were written with, in JSON, where that is another one.
        legacy_timestamp_mapping: whether ``timestamp-millis`` and ``timestamp-micros`` are times without a zone, as in
            Flink unless told otherwise; else they are ``Types.TIMESTAMP_LTZ()``.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Raises:
        InvalidProgramError: when a schema is none of Avro, or messages of the writer's cannot be read with the other.

    Examples:
        >>> from headrace.common import AvroRowDeserializationSchema
        >>> order = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
        >>> schema = AvroRowDeserializationSchema(avro_schema_string=order)
        >>> schema.deserialize(bytes([14]))
        Row(id=7)
    """

    def __init__(
        self,
        record_class: str | None = None,
        avro_schema_string: str | None = None,
        *,
        writer_schema: str | None = None,
        legacy_timestamp_mapping: bool = True,
        ignore_parse_errors: bool = False,
    ) -> None:
        self._reader = _schema_of(record_class, avro_schema_string)
        self._writer = self._reader if writer_schema is None else AvroSchema(writer_schema)
        self._legacy = legacy_timestamp_mapping
        self.ignore_parse_errors = ignore_parse_errors
        avro_reader(self._writer, self._reader, legacy_timestamp_mapping=self._legacy)

    def get_produced_type(self) -> TypeInformation:
        """The rows that the schema describes."""
        return self._reader.type_info(legacy_timestamp_mapping=self._legacy)

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        return avro_reader(self._writer, self._reader, legacy_timestamp_mapping=self._legacy).read(messages)


class AvroRowSerializationSchema(SerializationSchema):
    r"""Writes a record as the bytes of a record of Avro; its fields are those of the schema, in their order.

    Args:
        record_class: Flink's, a class of Java; refused.
        avro_schema_string: the schema, in JSON.
        legacy_timestamp_mapping: as for :class:`AvroRowDeserializationSchema`.

    Raises:
        InvalidProgramError: when the schema is none of Avro.

    Examples:
        >>> from headrace.common import AvroRowSerializationSchema, Row
        >>> order = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
        >>> AvroRowSerializationSchema(avro_schema_string=order).serialize(Row(id=-1))
        b'\x01'
    """

    def __init__(
        self,
        record_class: str | None = None,
        avro_schema_string: str | None = None,
        *,
        legacy_timestamp_mapping: bool = True,
    ) -> None:
        schema = _schema_of(record_class, avro_schema_string)
        self._node = schema.node(legacy_timestamp_mapping=legacy_timestamp_mapping)

    def serialize(self, element: Any) -> bytes:
        """The bytes of one record; an ``InvalidTypeError`` where it does not fit the schema."""
        columns = layout_of(self._node.type_info).rows_to_columns([element])
        written: bytes = encode_records(self._node, columns)[0].as_py()
        return written

    def serialize_batch(self, batch: Batch) -> pa.Array:
        if batch.type.arrow_type is None:
            return super().serialize_batch(batch)
        return encode_records(self._node, columns_as(batch, self._node.type_info))

    def validate(self, input_type: TypeInformation) -> None:
        refuse_other_fields(self._node.type_info, input_type)


def _schema_of(record_class: str | None, avro_schema_string: str | None) -> AvroSchema:
    if record_class is not None:
        _refuse_class(record_class)
    if avro_schema_string is None:
        raise InvalidProgramError("a schema of Avro messages needs avro_schema_string")
    return AvroSchema(avro_schema_string)


def _refuse_class(record_class: str) -> NoReturn:
    raise UnsupportedOperationError(
        f"{record_class} is a class of Java, and there is no Java behind records: give its schema as avro_schema_string"
    )
