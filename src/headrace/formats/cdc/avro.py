"""Changes as Debezium writes them in Avro, with their schemas in a registry."""

import json

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.typeinfo import TypeInformation
from headrace.formats.avro.messages import ConfluentRegistryAvroDeserializationSchema
from headrace.formats.avro.schema import AvroSchema, avro_schema_of
from headrace.formats.avro.writer import encode_records
from headrace.formats.bad_records import ColumnarSerializationSchema
from headrace.formats.cdc.changes import rows_of_changes
from headrace.formats.cdc.json import BeforeAndAfterSchema, DebeziumJsonDeserializationSchema, are_removed
from headrace.formats.schema_registry import SchemaHeader, SchemaRegistry, registry_of


class DebeziumAvroDeserializationSchema(BeforeAndAfterSchema):
    """Reads changes as Debezium writes them in Avro, each behind the id of its schema in a registry.

    Args:
        registry: the registry, or its URL.
        type_info: the type of the rows of the table; their fields are found by name.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Raises:
        InvalidTypeError: when no schema of Avro can be made of the type.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.formats.cdc import DebeziumAvroDeserializationSchema
        >>> stock = Types.ROW_NAMED(["item", "pieces"], [str, int])
        >>> schema = DebeziumAvroDeserializationSchema("http://localhost:8081", stock)
    """

    operations = DebeziumJsonDeserializationSchema.operations
    operation_field = "op"

    def __init__(
        self, registry: SchemaRegistry | str, type_info: TypeInformation, *, ignore_parse_errors: bool = False
    ) -> None:
        super().__init__(type_info, ignore_parse_errors=ignore_parse_errors)
        envelope = envelope_schema(self.row_type)
        self._inner = ConfluentRegistryAvroDeserializationSchema(registry, envelope, legacy_timestamp_mapping=False)

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        return self._inner.decode(messages)


class DebeziumAvroSerializationSchema(ColumnarSerializationSchema):
    """Writes changes as Debezium does in Avro, behind the id of their schema, which is put into a registry.

    Args:
        registry: the registry, or its URL.
        subject: where the schema is.
        type_info: the type of the rows.
        auto_register: whether a schema that is not there becomes a new version of the subject.

    Raises:
        InvalidTypeError: when no schema of Avro can be made of the type.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.formats.cdc import DebeziumAvroSerializationSchema
        >>> stock = Types.ROW_NAMED(["item", "pieces"], [str, int])
        >>> schema = DebeziumAvroSerializationSchema("http://localhost:8081", "stock-value", stock)
    """

    takes_changes = True

    def __init__(
        self, registry: SchemaRegistry | str, subject: str, type_info: TypeInformation, *, auto_register: bool = True
    ) -> None:
        super().__init__(rows_of_changes(type_info))
        schema = envelope_schema(self._type)
        self._node = schema.node(legacy_timestamp_mapping=False)
        self._header = SchemaHeader(registry_of(registry), subject, str(schema), "AVRO", auto_register)

    def serialize_batch(self, batch: Batch) -> pa.Array:
        rows, removed = self.columns_of(batch), are_removed(batch)
        images = [
            pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema), mask=pa.array(there))
            for there in (~removed, removed)
        ]
        names = pa.array(["c", "d"]).take(pa.array(removed.astype(np.int64)))
        envelope = pa.RecordBatch.from_arrays([*images, names], names=["before", "after", "op"])
        return self._header.before_all(encode_records(self._node, envelope))


def envelope_schema(kind: TypeInformation) -> AvroSchema:
    """The schema of messages about rows of a type.

    Raises:
        InvalidTypeError: when no schema of Avro can be made of the type.
    """
    row = json.loads(str(avro_schema_of(kind, "Value")))
    fields = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": ["null", "string"], "default": None},
    ]
    return AvroSchema({"type": "record", "name": "Envelope", "fields": fields})
