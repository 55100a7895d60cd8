"""What messages of Kafka are made of, put together as in PyFlink."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.common.arguments import expect, refused, with_article
from headrace.common.errors import InvalidTypeError
from headrace.common.serialization import SerializationSchema
from headrace.connectors.outgoing_messages import MessageSerializationSchema

if TYPE_CHECKING:
    from typing import Self

    from headrace.connectors.outgoing_messages import HeaderFunction, PartitionFunction


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


class HeaderProvider(ABC):
    """Gives the headers of every record's message.

    Examples:
        >>> from headrace.datastream.connectors.kafka import HeaderProvider
        >>> class Trace(HeaderProvider):
        ...     def get_headers(self, record):
        ...         return [("trace", record["trace"].encode())]
        >>> Trace().get_headers({"trace": "7f"})
        [('trace', b'7f')]
    """

    @abstractmethod
    def get_headers(self, record: Any) -> Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]] | None:
        """Pairs of a name and bytes, in their order; a name may come more than once. None for no headers."""


class KafkaPartitioner(ABC):
    """Chooses the partition of every record's message.

    Examples:
        >>> from headrace.datastream.connectors.kafka import KafkaPartitioner
        >>> class ByShard(KafkaPartitioner):
        ...     def partition(self, record, key, value, target_topic, partitions):
        ...         return partitions[record["shard"] % len(partitions)]
        >>> ByShard().partition({"shard": 5}, None, b"", "alerts", range(4))
        1
    """

    @abstractmethod
    def partition(
        self, record: Any, key: bytes | None, value: bytes | None, target_topic: str, partitions: Sequence[int]
    ) -> int:
        """One of the partitions that a topic has.

        A record that is sent again after a failure should get the same one: else it may be before what it was behind.
        """


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
        self._headers: HeaderFunction | None = None
        self._partitioner: PartitionFunction | None = None

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
        given = topic_selector
        return self._set_topic(
            _function(given.apply if isinstance(given, KafkaTopicSelector) else given, KafkaTopicSelector)
        )

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

    def set_header_provider(self, header_provider: HeaderProvider | HeaderFunction) -> Self:
        """Have a provider, or a function of the record, give the headers of each message.

        Raises:
            InvalidTypeError: when it is neither.
        """
        given = header_provider
        self._headers = _function(given.get_headers if isinstance(given, HeaderProvider) else given, HeaderProvider)
        return self

    def set_partitioner(self, partitioner: KafkaPartitioner | PartitionFunction) -> Self:
        """Have a partitioner, or a function of what it is given, say to which partition each message goes.

        Raises:
            InvalidTypeError: when it is neither.
        """
        given = partitioner
        self._partitioner = _function(
            given.partition if isinstance(given, KafkaPartitioner) else given, KafkaPartitioner
        )
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
        return KafkaRecordSerializationSchema(
            self._topic,
            self._value,
            self._key,
            key_fields=self._key_fields,
            headers=self._headers,
            partitioner=self._partitioner,
        )

    def _set_topic(self, topic: str | Callable[[Any], str]) -> Self:
        if self._topic is not None:
            raise refused(
                "messages have one topic, or one selector of topics: call set_topic() or set_topic_selector() once"
            )
        self._topic = topic
        return self


def _function(given: Any, kind: type) -> Any:
    """What is called for each record; errors as the setters tell them."""
    if not callable(given):
        raise refused(f"this takes {with_article(kind)} or a function, not {given!r}", InvalidTypeError)
    return given
