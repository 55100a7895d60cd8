"""Avro."""

from headrace.common.public_module import public_module
from headrace.formats.avro.files import AvroFormat, AvroInputFormat
from headrace.formats.avro.messages import AvroRowDeserializationSchema, AvroRowSerializationSchema
from headrace.formats.avro.schema import AvroSchema, GenericRecordAvroTypeInfo
from headrace.formats.avro.writer import AvroBulkWriters

__all__ = [
    "AvroBulkWriters",
    "AvroFormat",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]

public_module(__name__)
