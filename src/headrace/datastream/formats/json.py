"""JSON, as messages and as lines of files."""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.formats.json import (
    JsonLinesEncoder,
    JsonLinesFormat,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)

__all__ = ["JsonLinesEncoder", "JsonLinesFormat", "JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

public_module(__name__)
