"""Protobuf: messages, read and written in columns."""

from __future__ import annotations

from headrace.formats.protobuf.row_schemas import ProtobufRowDeserializationSchema, ProtobufRowSerializationSchema
from headrace.formats.protobuf.schema import ProtobufSchema

__all__ = ["ProtobufRowDeserializationSchema", "ProtobufRowSerializationSchema", "ProtobufSchema"]
