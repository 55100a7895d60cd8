"""Messages of Avro behind Confluent's header: the id of the schema that they were written with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.errors import InvalidProgramError, UnknownSchemaError
from headrace.formats.avro.resolution import avro_reader
from headrace.formats.avro.row_schemas import AvroRowSerializationSchema
from headrace.formats.avro.schema import AvroSchema, avro_schema_of
from headrace.formats.columnar_messages import ColumnarDeserializationSchema
from headrace.formats.registry.client import SchemaRegistry, registry_client, registry_of
from headrace.formats.registry.wire_format import (
    HEADER_BYTES,
    RegistrySerializationSchema,
    SchemaHeader,
    decode_by_schema,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.common.typeinfo import TypeInformation


class ConfluentRegistryAvroDeserializationSchema(ColumnarDeserializationSchema):
    """Reads records of Avro whose schemas are in a registry: each says by an id which one it was written with.

    All are given as rows of one schema, that of the reader; those of other schemas are resolved to it. One whose schema
    does not fit, or is not in the registry, cannot be read.

    Args:
        registry: the registry, or its URL.
        reader_schema: what comes out; where it is left out, the newest schema of ``subject`` by now.
        subject: where the reader's schema is in the registry, which is asked once, while the program is built.
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
            reader_schema = _newest(self._registry, subject)
        self._reader = reader_schema
        self._legacy = legacy_timestamp_mapping
        self.ignore_parse_errors = ignore_parse_errors

    def get_produced_type(self) -> TypeInformation:
        """The rows that the reader's schema describes."""
        return self._reader.type_info(legacy_timestamp_mapping=self._legacy)

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
        return reader.read(messages, skip=HEADER_BYTES)


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


class _NotAvroError(ValueError):
    """A schema of the registry is of another kind; a message that was written with it is a bad one."""


def _newest(registry: SchemaRegistry, subject: str) -> AvroSchema:
    try:
        return _avro(registry_client(registry).latest(subject))
    except _NotAvroError as error:
        raise InvalidProgramError(str(error)) from error


def _avro(found: Any) -> AvroSchema:
    if found.kind != "AVRO":
        raise _NotAvroError(f"the schema {found.id} is one of {found.kind}, not of Avro")
    return AvroSchema(found.text, found.references)
