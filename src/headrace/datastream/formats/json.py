"""JSON, as messages and as lines of files."""

from headrace.common.public_module import public_module
from headrace.formats.json.decoders import JsonLinesFormat
from headrace.formats.json.schemas import JsonRowDeserializationSchema, JsonRowSerializationSchema
from headrace.formats.json.writer import JsonLinesEncoder

__all__ = ["JsonLinesEncoder", "JsonLinesFormat", "JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

public_module(__name__)
