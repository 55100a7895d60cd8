"""Schemas in a registry that speaks the REST of Confluent's: its wire format, for Avro, JSON and Protobuf."""

from __future__ import annotations

from headrace.formats.registry.client import SchemaRegistry
from headrace.formats.registry.protobuf import (
    ConfluentRegistryProtobufDeserializationSchema,
    ConfluentRegistryProtobufSerializationSchema,
)
from headrace.formats.registry.schemas import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
    ConfluentRegistryJsonDeserializationSchema,
    ConfluentRegistryJsonSerializationSchema,
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
