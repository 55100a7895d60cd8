"""Avro messages as rows and back, with or without a schema registry, under PyFlink's names."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.errors import InvalidProgramError, UnknownSchemaError, UnsupportedOperationError
from headrace.common.serialization import SchemaCheck
from headrace.common.typeinfo import TypeInformation
from headrace.formats.avro.resolution import avro_reader
from headrace.formats.avro.schema import AvroSchema, avro_schema_of
from headrace.formats.avro.writer import decimals_as_texts, encode_records
from headrace.formats.bad_records import ColumnarDeserializationSchema, ColumnarSerializationSchema, columns_under
from headrace.formats.schema_registry import (
    HEADER_BYTES,
    RegistrySerializationSchema,
    SchemaHeader,
    SchemaRegistry,
    decode_by_schema,
    registry_client,
    registry_of,
)


class AvroRowDeserializationSchema(ColumnarDeserializationSchema):
    """Reads the bytes of a record of Avro as a row.

    Enums are strings, decimals ``Types.BIG_DEC()``, times ``Types.SQL_DATE()``, ``SQL_TIME()`` and ``SQL_TIMESTAMP()``;
    a union of ``null`` and another type is that type, one of several types is any object.

    Args:
        record_class: Flink's, a class of Java; refused.
        avro_schema_string: the schema of the records, in JSON.
        writer_schema: the schema that messages were written with, in JSON, where that is another one.
        legacy_timestamp_mapping: whether ``timestamp-millis`` and ``timestamp-micros`` are times without a zone, as in
            Flink by default; else they are ``Types.TIMESTAMP_LTZ()``.
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
        avro_reader(self._writer, self._reader, legacy_timestamp_mapping=self._legacy)
        kind = self._reader.type_info(legacy_timestamp_mapping=self._legacy)
        super().__init__(kind, ignore_parse_errors=ignore_parse_errors)

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        return avro_reader(self._writer, self._reader, legacy_timestamp_mapping=self._legacy)(messages, 0)


class AvroRowSerializationSchema(ColumnarSerializationSchema):
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
        super().__init__(self._node.type_info)

    def serialize_batch(self, batch: Batch) -> pa.Array:
        if batch.type.arrow_type is None:
            return encode_records(self._node, self.columns_of(batch))
        return encode_records(self._node, columns_under(decimals_as_texts(batch.columns), self._type))


def _schema_of(record_class: str | None, avro_schema_string: str | None) -> AvroSchema:
    if record_class is not None:
        raise UnsupportedOperationError(
            f"{record_class} is a class of Java, and there is no Java behind records: give its schema as "
            "avro_schema_string"
        )
    if avro_schema_string is None:
        raise InvalidProgramError("a schema of Avro messages needs avro_schema_string")
    return AvroSchema(avro_schema_string)


class ConfluentRegistryAvroDeserializationSchema(ColumnarDeserializationSchema):
    """Reads records of Avro whose schemas are in a registry: each says by an id which one it was written with.

    All are given as rows of one schema, that of the reader; those of other schemas are resolved to it. One whose schema
    does not fit, or is not in the registry, cannot be read.

    Args:
        registry: the registry, or its URL.
        reader_schema: what comes out; where it is left out, the newest schema of ``subject`` by now.
        subject: where the reader's schema is in the registry, which is queried once, while the program is built.
        legacy_timestamp_mapping: as for :class:`AvroRowDeserializationSchema`.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Raises:
        InvalidProgramError: when neither a schema nor a subject is given, or the schema is none of Avro.
        UnknownSchemaError: when there is no such subject.
        InfrastructureError: when the registry does not answer.

    Examples:
        >>> from headrace.datastream.formats.avro import AvroSchema
        >>> from headrace.datastream.formats.schema_registry import ConfluentRegistryAvroDeserializationSchema
        >>> order = AvroSchema({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
        >>> ConfluentRegistryAvroDeserializationSchema("http://localhost:8081", order).get_produced_type()
        RowTypeInfo(id: Long)
    """

    def __init__(
        self,
        registry: SchemaRegistry | str,
        reader_schema: AvroSchema | None = None,
        *,
        subject: str | None = None,
        legacy_timestamp_mapping: bool = True,
        ignore_parse_errors: bool = False,
    ) -> None:
        self._registry = registry_of(registry)
        if reader_schema is None:
            if subject is None:
                raise InvalidProgramError("give reader_schema, or the subject whose newest schema it is to be")
            reader_schema = _avro(registry_client(self._registry).latest(subject))
        self._reader = reader_schema
        self._legacy = legacy_timestamp_mapping
        kind = reader_schema.type_info(legacy_timestamp_mapping=legacy_timestamp_mapping)
        super().__init__(kind, ignore_parse_errors=ignore_parse_errors)

    def check_schemas(self, subjects: Sequence[str]) -> Iterator[SchemaCheck]:
        """Resolve the newest schema of each subject to that of the reader."""
        for subject in subjects:
            try:
                writer = _avro(registry_client(self._registry).latest(subject))
                avro_reader(writer, self._reader, legacy_timestamp_mapping=self._legacy)
            except UnknownSchemaError:
                yield SchemaCheck(subject, is_new=True)
            except InvalidProgramError as error:
                yield SchemaCheck(subject, (str(error),))
            else:
                yield SchemaCheck(subject)

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        if not len(messages):
            return self._decode(None, messages)
        records = decode_by_schema(messages, self._decode)
        assert records is not None
        return records

    def _decode(self, schema_id: int | None, messages: pa.Array) -> pa.RecordBatch:
        writer = self._reader
        if schema_id is not None:
            try:
                writer = _avro(registry_client(self._registry).schema(schema_id))
            except UnknownSchemaError as error:
                raise ValueError(str(error)) from error
        reader = avro_reader(writer, self._reader, legacy_timestamp_mapping=self._legacy)
        return reader(messages, HEADER_BYTES)


class ConfluentRegistryAvroSerializationSchema(RegistrySerializationSchema):
    """Writes records as Avro behind the id of their schema, which is put into a registry unless it is there.

    Args:
        registry: the registry, or its URL.
        subject: where the schema is; ``topic-value`` and ``topic-key`` are what other clients look for.
        schema: the schema, or the type of the records, of which one is made where every field may be ``null``.
        auto_register: whether a schema that is not there becomes a new version of the subject.

    Raises:
        InvalidTypeError: when no schema can be made of the type.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.formats.schema_registry import ConfluentRegistryAvroSerializationSchema
        >>> order = Types.ROW_NAMED(["id", "card"], [int, str])
        >>> schema = ConfluentRegistryAvroSerializationSchema("http://localhost:8081", "orders-value", order)
    """

    def __init__(
        self,
        registry: SchemaRegistry | str,
        subject: str,
        schema: AvroSchema | TypeInformation,
        *,
        auto_register: bool = True,
        legacy_timestamp_mapping: bool = True,
    ) -> None:
        made = not isinstance(schema, AvroSchema)
        avro = schema if isinstance(schema, AvroSchema) else avro_schema_of(schema)
        legacy = legacy_timestamp_mapping and not made
        super().__init__(
            SchemaHeader(registry_of(registry), subject, str(avro), "AVRO", auto_register),
            AvroRowSerializationSchema(avro_schema_string=str(avro), legacy_timestamp_mapping=legacy),
        )


def _avro(found: Any) -> AvroSchema:
    if found.kind != "AVRO":
        raise InvalidProgramError(f"the schema {found.id} is one of {found.kind}, not of Avro")
    return AvroSchema(found.text, found.references)
