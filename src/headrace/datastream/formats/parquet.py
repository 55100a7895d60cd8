"""Parquet."""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat, ParquetFormat

__all__ = ["ParquetBulkWriters", "ParquetColumnarRowInputFormat", "ParquetFormat"]

public_module(__name__)
