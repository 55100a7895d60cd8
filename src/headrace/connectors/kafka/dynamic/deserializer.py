"""The name that PyFlink has for a schema of values alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.tracebacks import hides_engine_of_methods
from headrace.connectors.incoming_messages import MessageDeserializationSchema

if TYPE_CHECKING:
    from headrace.common.serialization import DeserializationSchema


@hides_engine_of_methods
class KafkaRecordDeserializationSchema(MessageDeserializationSchema):
    """A :class:`MessageDeserializationSchema`, by the name that PyFlink has for one of values alone.

    Examples:
        >>> from headrace.common import SimpleStringSchema
        >>> from headrace.datastream.connectors.dynamic_kafka import KafkaRecordDeserializationSchema
        >>> KafkaRecordDeserializationSchema.value_only(SimpleStringSchema()).produced_type
        String
    """

    @staticmethod
    def value_only(deserialization_schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """Makes records of the values of messages."""
        return KafkaRecordDeserializationSchema(deserialization_schema)
