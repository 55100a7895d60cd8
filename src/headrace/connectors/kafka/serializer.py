"""What messages of Kafka are made of, put together as in PyFlink."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.common.arguments import expect, refused
from headrace.common.errors import InvalidTypeError
from headrace.common.serialization import SerializationSchema
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.connectors.outgoing_messages import MessageSerializationSchema

if TYPE_CHECKING:
    from typing import Self


class KafkaTopicSelector(ABC):
    """Chooses the topic of every record.

    Examples:
        >>> from headrace.datastream.connectors.kafka import KafkaTopicSelector
        >>> class ByCountry(KafkaTopicSelector):
        ...     def apply(self, data):
        ...         return f"payments-{data['country']}"
        >>> ByCountry().apply({"country": "lu"})
        'payments-lu'
    """

    @abstractmethod
    def apply(self, data: Any) -> str:
        """The topic of a record."""


@hides_engine_of_methods
class KafkaRecordSerializationSchema(MessageSerializationSchema):
    """A :class:`~headrace.datastream.connectors.base.MessageSerializationSchema` with PyFlink's builder.

    Examples:
        >>> from headrace.common import SimpleStringSchema
        >>> from headrace.datastream.connectors.kafka import KafkaRecordSerializationSchema
        >>> schema = (
        ...     KafkaRecordSerializationSchema.builder()
        ...     .set_topic("alerts")
        ...     .set_value_serialization_schema(SimpleStringSchema())
        ...     .build()
        ... )
        >>> schema.topic
        'alerts'
    """

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Begin a schema."""
        return KafkaRecordSerializationSchemaBuilder()


@hides_engine_of_methods
class KafkaRecordSerializationSchemaBuilder:
    """Puts a :class:`KafkaRecordSerializationSchema` together.

    Examples:
        >>> from headrace.common import SimpleStringSchema
        >>> from headrace.datastream.connectors.kafka import KafkaRecordSerializationSchema
        >>> builder = KafkaRecordSerializationSchema.builder().set_topic_selector(lambda text: text[:2])
        >>> schema = builder.set_value_serialization_schema(SimpleStringSchema()).build()
    """

    def __init__(self) -> None:
        self._topic: str | Callable[[Any], str] | None = None
        self._key: SerializationSchema | None = None
        self._key_fields: tuple[str, ...] = ()
        self._value: SerializationSchema | None = None

    def set_topic(self, topic: str) -> Self:
        """Have all messages go to one topic.

        Raises:
            InvalidProgramError: when a topic or a selector is given already.
            InvalidTypeError: when it is no text.
        """
        expect(topic, str, "set_topic")
        return self._set_topic(topic)

    def set_topic_selector(self, topic_selector: KafkaTopicSelector | Callable[[Any], str]) -> Self:
        """Have a selector, or a function of the record, say where each message goes.

        Raises:
            InvalidProgramError: when a topic or a selector is given already.
            InvalidTypeError: when it is neither.
        """
        if isinstance(topic_selector, KafkaTopicSelector):
            return self._set_topic(topic_selector.apply)
        if not callable(topic_selector):
            raise refused(
                f"a topic selector is a KafkaTopicSelector or a function, not {topic_selector!r}", InvalidTypeError
            )
        return self._set_topic(topic_selector)

    def set_key_serialization_schema(self, key_serialization_schema: SerializationSchema) -> Self:
        """Say how keys are written; messages have none without it."""
        expect(key_serialization_schema, SerializationSchema, "set_key_serialization_schema")
        self._key = key_serialization_schema
        return self

    def set_key_fields(self, *names: str) -> Self:
        """Make keys of some fields of the record, as ``key.fields`` of Flink's SQL does.

        The key's schema then gets rows of these fields; without one, the key is one field of text or bytes, as it is.
        """
        for name in names:
            expect(name, str, "set_key_fields")
        self._key_fields = names
        return self

    def set_value_serialization_schema(self, value_serialization_schema: SerializationSchema) -> Self:
        """Say how values are written."""
        expect(value_serialization_schema, SerializationSchema, "set_value_serialization_schema")
        self._value = value_serialization_schema
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """The schema.

        Raises:
            InvalidProgramError: when something is missing.
        """
        if self._topic is None:
            raise refused("messages need a topic: call set_topic() or set_topic_selector()")
        if self._value is None:
            raise refused("messages need values: call set_value_serialization_schema()")
        return KafkaRecordSerializationSchema(self._topic, self._value, self._key, key_fields=self._key_fields)

    def _set_topic(self, topic: str | Callable[[Any], str]) -> Self:
        if self._topic is not None:
            raise refused(
                "messages have one topic, or one selector of topics: call set_topic() or set_topic_selector() once"
            )
        self._topic = topic
        return self
