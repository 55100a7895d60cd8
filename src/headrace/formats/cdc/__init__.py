"""Changes of tables as messages, in the formats of those who watch databases (change data capture)."""

from __future__ import annotations

from headrace.formats.cdc.avro import DebeziumAvroDeserializationSchema, DebeziumAvroSerializationSchema
from headrace.formats.cdc.json_reader import (
    CanalJsonDeserializationSchema,
    DebeziumJsonDeserializationSchema,
    MaxwellJsonDeserializationSchema,
    OggJsonDeserializationSchema,
)
from headrace.formats.cdc.json_writer import (
    CanalJsonSerializationSchema,
    DebeziumJsonSerializationSchema,
    MaxwellJsonSerializationSchema,
    OggJsonSerializationSchema,
)

__all__ = [
    "CanalJsonDeserializationSchema",
    "CanalJsonSerializationSchema",
    "DebeziumAvroDeserializationSchema",
    "DebeziumAvroSerializationSchema",
    "DebeziumJsonDeserializationSchema",
    "DebeziumJsonSerializationSchema",
    "MaxwellJsonDeserializationSchema",
    "MaxwellJsonSerializationSchema",
    "OggJsonDeserializationSchema",
    "OggJsonSerializationSchema",
]
