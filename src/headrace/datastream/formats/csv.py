"""Comma-separated values."""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.formats.csv import (
    CsvBulkWriters,
    CsvEncoder,
    CsvFormat,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
    CsvSchemaBuilder,
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
