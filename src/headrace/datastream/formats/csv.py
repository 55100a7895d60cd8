"""Comma-separated values."""

from headrace.common.public_module import public_module
from headrace.formats.csv.reader import CsvFormat, CsvReaderFormat
from headrace.formats.csv.schema import CsvSchema, CsvSchemaBuilder
from headrace.formats.csv.writer import (
    CsvBulkWriters,
    CsvEncoder,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
)

__all__ = [
    "CsvBulkWriters",
    "CsvEncoder",
    "CsvFormat",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]

public_module(__name__)
