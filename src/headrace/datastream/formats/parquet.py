"""Parquet."""

from __future__ import annotations

from headrace.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat, ParquetFormat

__all__ = ["ParquetBulkWriters", "ParquetColumnarRowInputFormat", "ParquetFormat"]
