"""Lines of JSON, one document a line."""

from __future__ import annotations

from headrace.formats.json.decoders import JsonLinesFormat
from headrace.formats.json.schemas import JsonRowDeserializationSchema, JsonRowSerializationSchema
from headrace.formats.json.writer import JsonLinesEncoder

__all__ = ["JsonLinesEncoder", "JsonLinesFormat", "JsonRowDeserializationSchema", "JsonRowSerializationSchema"]
