"""Parquet."""

from __future__ import annotations

from headrace.formats.parquet.avro_records import AvroParquetReaders, AvroParquetWriters
from headrace.formats.parquet.reader import ParquetColumnarRowInputFormat, ParquetFormat
from headrace.formats.parquet.writer import ParquetBulkWriters

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
    "ParquetFormat",
]
