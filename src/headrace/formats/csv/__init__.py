"""Comma-separated values."""

from __future__ import annotations

from headrace.formats.csv.reader import CsvFormat, CsvReaderFormat
from headrace.formats.csv.row_schemas import CsvRowDeserializationSchema, CsvRowSerializationSchema
from headrace.formats.csv.schema import CsvColumn, CsvSchema, CsvSchemaBuilder
from headrace.formats.csv.writer import CsvBulkWriters, CsvEncoder

__all__ = [
    "CsvBulkWriters",
    "CsvColumn",
    "CsvEncoder",
    "CsvFormat",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]
