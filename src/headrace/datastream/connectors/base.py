"""The common part of all connectors, and those that are found by a name."""

from headrace.common.public_module import public_module
from headrace.connectors.connector import create_sink, create_source
from headrace.connectors.messages import MessageDeserializationSchema, MessageSerializationSchema
from headrace.connectors.sink import DeliveryGuarantee, Sink, StatefulSinkWriter, SupportsWriterState
from headrace.connectors.source import Source
from headrace.datastream.streams.sinks import SupportsPreWriteTopology

__all__ = [
    "DeliveryGuarantee",
    "MessageDeserializationSchema",
    "MessageSerializationSchema",
    "Sink",
    "Source",
    "StatefulSinkWriter",
    "SupportsPreWriteTopology",
    "SupportsWriterState",
    "create_sink",
    "create_source",
]

public_module(__name__)
