"""Protobuf."""

from headrace.common.public_module import public_module
from headrace.formats.protobuf.messages import ProtobufRowDeserializationSchema, ProtobufRowSerializationSchema
from headrace.formats.protobuf.wire import ProtobufSchema

__all__ = ["ProtobufRowDeserializationSchema", "ProtobufRowSerializationSchema", "ProtobufSchema"]

public_module(__name__)
