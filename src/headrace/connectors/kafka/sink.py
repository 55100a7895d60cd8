"""``KafkaSink``, and what its messages are made of, put together as in PyFlink."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self

from headrace.common.builder import Builder
from headrace.common.call_site import warn_caller
from headrace.common.errors import InvalidTypeError, expect, refused, with_article
from headrace.common.output_tag import OutputTag
from headrace.common.serialization import SerializationSchema
from headrace.common.type_variables import T_contra
from headrace.connectors.datasets import LineageDataset, kafka_namespace, topic_datasets
from headrace.connectors.kafka.clients import ClientSettings, MissingMarker, TransactionSettings
from headrace.connectors.kafka.settings import SINK, KafkaClusterBuilder, check_known, check_library
from headrace.connectors.kafka.source import kafka_place
from headrace.connectors.messages import HeaderFunction, MessageSerializationSchema, PartitionFunction, encode_messages
from headrace.connectors.sink import Committer, CommitterContext, DeliveryGuarantee, SinkWriter, WriterContext
from headrace.connectors.topic_builders import TopicSink, TopicSinkBuilder
from headrace.connectors.topic_state import TopicsPlace

_MAX_BYTES: Final = 1_000_000
"""librdkafka's default."""


class KafkaSink(TopicSink[T_contra]):
    """Writes records into topics.

    ``AT_LEAST_ONCE``, the default, and ``NONE`` send them from the tasks, and a checkpoint waits until brokers have
    acknowledged all of them, for what ``acks`` says that is worth. ``EXACTLY_ONCE`` keeps the messages of an epoch in
    the checkpoint directory, and publishes them when the epoch is complete, in one transaction for each subtask;
    readers have to ask for ``read_committed``.

    The event time of a record is the timestamp of its message; where it has none, or one before 1970, the time of its
    epoch is. A key decides the partition as Java's clients do.

    Examples:
        >>> from headrace.common import SimpleStringSchema
        >>> from headrace.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
        >>> alerts = (
        ...     KafkaRecordSerializationSchema.builder()
        ...     .set_topic("alerts")
        ...     .set_value_serialization_schema(SimpleStringSchema())
        ...     .build()
        ... )
        >>> KafkaSink.builder().set_bootstrap_servers("localhost:9092").set_record_serializer(alerts).build()
        KafkaSink(alerts at localhost:9092)
    """

    def __init__(
        self,
        settings: ClientSettings,
        schema: MessageSerializationSchema,
        guarantee: DeliveryGuarantee,
        dead_letter: OutputTag | None = None,
        transactions: TransactionSettings | None = None,
    ) -> None:
        super().__init__(schema, guarantee, dead_letter)
        self._settings = settings
        self._transactions = transactions

    @staticmethod
    def builder() -> "KafkaSinkBuilder":
        """Begin a sink."""
        return KafkaSinkBuilder()

    @property
    def places(self) -> tuple[TopicsPlace, ...]:
        return (kafka_place(self._settings),)

    @property
    def datasets(self) -> tuple[LineageDataset, ...]:
        topics = (self._schema.topic,) if isinstance(self._schema.topic, str) else ()
        return topic_datasets(kafka_namespace(self._settings.servers), topics)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        check_library()
        from headrace.connectors.kafka.partitioned_log import known_partition_count
        from headrace.connectors.kafka.writer import SendingWriter, TransactionalWriter, check_sizes

        max_bytes = self._settings.number("message.max.bytes", _MAX_BYTES)
        count = partial(known_partition_count, self._settings, context.clients)
        check = partial(check_sizes, max_bytes=max_bytes)
        encode = partial(encode_messages, self._schema.of_subtask(context.subtask), context.reject, check, count)
        if self._transactions is None:
            return SendingWriter(self._settings, encode, context)
        id_ = self._transactions.transactional_id(context.job_id, context.operator_id, context.subtask)
        return TransactionalWriter(context, encode, id_, self._transactions.marker_topic)

    def create_committer(self, context: CommitterContext) -> Committer | None:
        if self._transactions is None:
            return None
        check_library()
        from headrace.connectors.kafka.transactions import KafkaCommitter

        return KafkaCommitter(self._transactions, context)

    def check_output(self, context: CommitterContext) -> None:
        check_library()
        from headrace.connectors.kafka.partitioned_log import KafkaPartitionedLog
        from headrace.connectors.kafka.transactions import check_settings, refuse_future

        if self._transactions is None:
            KafkaPartitionedLog(self._settings).topics()  # an error at the start, if the cluster cannot be reached
            return
        check_settings(self._settings)
        refuse_future(self._transactions, context)

    def __repr__(self) -> str:
        topic = self._schema.topic if isinstance(self._schema.topic, str) else "topics by record"
        return f"KafkaSink({topic} at {self._settings.servers})"


class KafkaSinkBuilder(KafkaClusterBuilder, TopicSinkBuilder):
    """Puts a :class:`KafkaSink` together.

    Examples:
        >>> from headrace.common import SimpleStringSchema
        >>> from headrace.datastream import OutputTag
        >>> from headrace.datastream.connectors.base import DeliveryGuarantee, MessageSerializationSchema
        >>> from headrace.datastream.connectors.kafka import KafkaSink
        >>> sink = (
        ...     KafkaSink.builder()
        ...     .set_bootstrap_servers("localhost:9092")
        ...     .set_record_serializer(MessageSerializationSchema("alerts", SimpleStringSchema()))
        ...     .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        ...     .set_property("compression.type", "zstd")
        ...     .set_dead_letter(OutputTag("unwritten"))
        ...     .build()
        ... )
    """

    _name = "KafkaSink"
    _kind = SINK
    _usual_guarantee = DeliveryGuarantee.AT_LEAST_ONCE

    def __init__(self) -> None:
        super().__init__()
        self._of_transactions: dict[str, Any] = {}

    def set_transactional_id_prefix(self, prefix: str) -> Self:
        """Say how transactional ids begin, and the groups of the same names; by default those of job and sink.

        Of two jobs with one prefix the one that was started later goes on, and the other one is stopped.

        Raises:
            InvalidProgramError: when it is empty.
        """
        expect(prefix, str, "set_transactional_id_prefix")
        if not prefix:
            raise refused("the prefix of transactional ids is some text: leave it out for one of the job's own")
        self._of_transactions["transactional_id_prefix"] = prefix
        return self

    def set_marker_topic(self, topic: str) -> Self:
        """Say at which topic it is kept which epoch was published; that of the messages, where it is only one.

        It is the offset of a consumer group, so the topic has to be there, and has to be one that may be read; its
        messages have nothing to do with it.
        """
        expect(topic, str, "set_marker_topic")
        self._of_transactions["marker_topic"] = topic
        return self

    def set_missing_marker(self, missing_marker: MissingMarker) -> Self:
        """Say what to do when it is lost which epoch was published; by default the job stops."""
        expect(missing_marker, MissingMarker, "set_missing_marker")
        self._of_transactions["missing_marker"] = missing_marker
        return self

    def set_published_up_to(self, epoch: int, transactional_id: str | None = None) -> Self:
        """Say of which epochs the messages are there, where the job has stopped because that is lost.

        The error says which epochs wait: those up to this one count as published, later ones are published. It answers
        for these epochs alone, so it may stay in the program.

        Args:
            epoch: the last epoch whose messages are there; the one before the first that waits, if none is.
            transactional_id: under which id; under all for which nothing else is said, when None.

        Raises:
            InvalidProgramError: when the epoch is negative.
        """
        expect(epoch, int, "set_published_up_to")
        if transactional_id is not None:
            expect(transactional_id, str, "set_published_up_to")
        if epoch < 0:
            raise refused(f"an epoch is not negative, got {epoch}")
        before = self._of_transactions.get("published_up_to", {})
        self._of_transactions["published_up_to"] = {**before, transactional_id: epoch}
        return self

    def build(self) -> KafkaSink:
        """The sink; nothing is connected to yet.

        Raises:
            ConfigurationError: when the servers are missing.
            InvalidProgramError: when the serializer is missing, or the topic of the markers.
        """
        self._check_servers()
        schema = self._needed_schema()
        check_known(self._properties)
        settings = ClientSettings(dict(self._properties))
        return KafkaSink(settings, transactions=self._transactions(settings, schema), **self._given)

    def _transactions(self, settings: ClientSettings, schema: MessageSerializationSchema) -> TransactionSettings | None:
        guarantee, given = self._given["guarantee"], self._of_transactions
        if guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            for name in given:
                warn_caller(f"set_{name}() has no effect: a KafkaSink that is {guarantee.name} has no transactions")
            return None
        if not given.get("marker_topic") and not isinstance(schema.topic, str):
            raise refused(
                "a KafkaSink whose topics are chosen by record keeps at one topic which epoch is published: name one "
                "that is there with set_marker_topic()"
            )
        return TransactionSettings(settings, **{"marker_topic": schema.topic, **given})


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
        """Choose one of the partitions of a topic.

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
    def builder() -> "KafkaRecordSerializationSchemaBuilder":
        """Begin a schema."""
        return KafkaRecordSerializationSchemaBuilder()


class KafkaRecordSerializationSchemaBuilder(Builder):
    """Puts a :class:`KafkaRecordSerializationSchema` together.

    Examples:
        >>> from headrace.common import SimpleStringSchema
        >>> from headrace.datastream.connectors.kafka import KafkaRecordSerializationSchema
        >>> builder = KafkaRecordSerializationSchema.builder().set_topic_selector(lambda text: text[:2])
        >>> schema = builder.set_value_serialization_schema(SimpleStringSchema()).build()
    """

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
        return self._set_a(SerializationSchema, "set_key_serialization_schema", key=key_serialization_schema)

    def set_key_fields(self, *names: str) -> Self:
        """Make keys of some fields of the record, as ``key.fields`` of Flink's SQL does.

        The key's schema then gets rows of these fields; without one, the key is one field of text or bytes, as it is.
        """
        for name in names:
            expect(name, str, "set_key_fields")
        return self._set(key_fields=names)

    def set_value_serialization_schema(self, value_serialization_schema: SerializationSchema) -> Self:
        """Say how values are written."""
        return self._set_a(SerializationSchema, "set_value_serialization_schema", value=value_serialization_schema)

    def set_header_provider(self, header_provider: HeaderProvider | HeaderFunction) -> Self:
        """Have a provider, or a function of the record, give the headers of each message.

        Raises:
            InvalidTypeError: when it is neither.
        """
        given = header_provider
        function = given.get_headers if isinstance(given, HeaderProvider) else given
        return self._set(headers=_function(function, HeaderProvider))

    def set_partitioner(self, partitioner: KafkaPartitioner | PartitionFunction) -> Self:
        """Have a partitioner, or a function of what it is given, say to which partition each message goes.

        Raises:
            InvalidTypeError: when it is neither.
        """
        given = partitioner
        function = given.partition if isinstance(given, KafkaPartitioner) else given
        return self._set(partitioner=_function(function, KafkaPartitioner))

    def build(self) -> KafkaRecordSerializationSchema:
        """The schema.

        Raises:
            InvalidProgramError: when something is missing.
        """
        if "topic" not in self._given:
            raise refused("messages need a topic: call set_topic() or set_topic_selector()")
        if "value" not in self._given:
            raise refused("messages need values: call set_value_serialization_schema()")
        return KafkaRecordSerializationSchema(**self._given)

    def _set_topic(self, topic: str | Callable[[Any], str]) -> Self:
        if "topic" in self._given:
            raise refused(
                "messages have one topic, or one selector of topics: call set_topic() or set_topic_selector() once"
            )
        return self._set(topic=topic)


def _function(given: object, kind: type) -> Any:
    """The function that is called for each record; errors are those of the setters."""
    if not callable(given):
        raise refused(f"this takes {with_article(kind)} or a function, not {given!r}", InvalidTypeError)
    return given
