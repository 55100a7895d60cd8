"""Avro: messages and files, read and written in columns."""

from __future__ import annotations

from headrace.formats.avro.file_writer import AvroBulkWriters
from headrace.formats.avro.files import AvroFormat, AvroInputFormat
from headrace.formats.avro.row_schemas import AvroRowDeserializationSchema, AvroRowSerializationSchema
from headrace.formats.avro.schema import AvroSchema, GenericRecordAvroTypeInfo

__all__ = [
    "AvroBulkWriters",
    "AvroFormat",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]
