"""Messages whose schemas are in a registry."""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.formats.registry import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
    ConfluentRegistryJsonDeserializationSchema,
    ConfluentRegistryJsonSerializationSchema,
    ConfluentRegistryProtobufDeserializationSchema,
    ConfluentRegistryProtobufSerializationSchema,
    SchemaRegistry,
)

__all__ = [
    "ConfluentRegistryAvroDeserializationSchema",
    "ConfluentRegistryAvroSerializationSchema",
    "ConfluentRegistryJsonDeserializationSchema",
    "ConfluentRegistryJsonSerializationSchema",
    "ConfluentRegistryProtobufDeserializationSchema",
    "ConfluentRegistryProtobufSerializationSchema",
    "SchemaRegistry",
]

public_module(__name__)
