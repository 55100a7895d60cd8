"""Protobuf."""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.formats.protobuf import (
    ProtobufRowDeserializationSchema,
    ProtobufRowSerializationSchema,
    ProtobufSchema,
)

__all__ = ["ProtobufRowDeserializationSchema", "ProtobufRowSerializationSchema", "ProtobufSchema"]

public_module(__name__)
