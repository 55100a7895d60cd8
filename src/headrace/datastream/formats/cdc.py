"""Changes of tables as messages: Debezium, Canal, Maxwell, Oracle GoldenGate."""

from headrace.common.public_module import public_module
from headrace.formats.cdc.schemas import (
    CanalJsonDeserializationSchema,
    CanalJsonSerializationSchema,
    DebeziumAvroDeserializationSchema,
    DebeziumAvroSerializationSchema,
    DebeziumJsonDeserializationSchema,
    DebeziumJsonSerializationSchema,
    MaxwellJsonDeserializationSchema,
    MaxwellJsonSerializationSchema,
    OggJsonDeserializationSchema,
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

public_module(__name__)
