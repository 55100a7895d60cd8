"""Formats of files: text, CSV, lines of JSON, Parquet; for reading and for writing."""

from headrace.formats.file_format import BulkFormat, Decoded, FileExtent, FileFormat, FileRange
from headrace.formats.text import StreamFormat

__all__ = ["BulkFormat", "Decoded", "FileExtent", "FileFormat", "FileRange", "StreamFormat"]
