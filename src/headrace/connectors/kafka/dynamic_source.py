"""``DynamicKafkaSource``: records of streams that lie in several clusters of Kafka."""

from collections.abc import Iterator, Mapping
from typing import Generic, Self

from headrace.common.errors import ConfigurationError, expect, refused
from headrace.common.other_names import alike
from headrace.common.output_tag import OutputTag
from headrace.common.serialization import DeserializationSchema
from headrace.common.type_variables import T_co
from headrace.connectors.kafka.clients import ClientSettings
from headrace.connectors.kafka.dynamic_enumerator import (
    INTERVAL,
    MODE,
    NO_OFFSET,
    OPTIONS,
    RETENTION,
    THRESHOLD,
    DynamicKafkaEnumerator,
    DynamicPlan,
    cluster_settings,
)
from headrace.connectors.kafka.dynamic_metadata import (
    KafkaMetadataService,
    KafkaStreamSetSubscriber,
    KafkaStreamSubscriber,
    StreamPatternSubscriber,
)
from headrace.connectors.kafka.settings import SOURCE, KafkaClientBuilder, check_known, check_library
from headrace.connectors.kafka.source import KafkaReader
from headrace.connectors.messages import MessageDeserializationSchema
from headrace.connectors.source import (
    EnumeratorContext,
    Json,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
)
from headrace.connectors.topic_builders import MessageSourceBuilder, TopicSource, whole_number


class DynamicKafkaReader(KafkaReader):
    """Reads ranges of offsets of partitions of clusters, which each piece says how to reach.

    Args:
        settings: those of the clients of all clusters.
        schema: what records are made of.
        reject: whether there is an output for dead letters.
    """

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        cluster, properties, partition, start, end = piece
        settings = cluster_settings(self._settings.properties, cluster, properties)
        if end == NO_OFFSET:
            self.close_partition(settings, f"{cluster}/", partition)
        else:
            yield from self.read_range(settings, f"{cluster}/", partition, (start, end))


class DynamicKafkaSource(TopicSource[T_co]):
    """Reads streams exactly once, in whatever topics of whatever clusters they lie, also when that changes.

    A metadata service says where streams are, and is queried again while the job runs. Every partition is a split, in
    its own order and with a watermark of its own.

    Examples:
        >>> from headrace.common import SimpleStringSchema
        >>> from headrace.datastream.connectors.dynamic_kafka import *
        >>> from headrace.datastream.connectors.kafka import KafkaOffsetsInitializer
        >>> source = (
        ...     DynamicKafkaSource.builder()
        ...     .set_stream_ids({"payments"})
        ...     .set_kafka_metadata_service(YamlFileMetadataService("/etc/streams.yaml"))
        ...     .set_property("stream-metadata-discovery-interval-ms", "10000")
        ...     .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        ...     .set_value_only_deserializer(SimpleStringSchema())
        ...     .build()
        ... )
        >>> source, source.produced_type
        (DynamicKafkaSource(payments by YamlFileMetadataService), String)
    """

    def __init__(
        self, plan: DynamicPlan, schema: MessageDeserializationSchema, dead_letter: OutputTag | None = None
    ) -> None:
        self._plan = plan
        super().__init__(str(plan.subscriber), schema, dead_letter, is_bounded=plan.each.is_bounded)

    @staticmethod
    def builder() -> "DynamicKafkaSourceBuilder[T_co]":
        """Begin a source."""
        return DynamicKafkaSourceBuilder()

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        check_library()
        from headrace.connectors.kafka.partitioned_log import KafkaPartitionedLog

        return DynamicKafkaEnumerator(self._plan, KafkaPartitionedLog, context.state)

    def create_reader(self) -> SourceReader:
        return DynamicKafkaReader(
            ClientSettings(self._plan.properties), self._schema, reject=self.dead_letter is not None
        )

    def __repr__(self) -> str:
        return f"DynamicKafkaSource({self._plan.subscriber} by {type(self._plan.service).__name__})"


class DynamicKafkaSourceBuilder(KafkaClientBuilder, MessageSourceBuilder, Generic[T_co]):
    """Puts a :class:`DynamicKafkaSource` together.

    Settings of clients are those of all clusters; what the metadata says of one goes before them. Beside these there
    are ``stream-metadata-discovery-interval-ms`` (never, unless said),
    ``stream-metadata-discovery-failure-threshold`` (1), which is how often in a row the metadata service, or a cluster,
    may fail before the job does, and ``stream-metadata-removed-cluster-retention-ms`` (0), for how long it is
    remembered how far a cluster was read that is taken away.

    Examples:
        >>> from headrace.common import SimpleStringSchema
        >>> from headrace.datastream.connectors.dynamic_kafka import *
        >>> service = SingleClusterTopicMetadataService("east", {"bootstrap.servers": "east:9092"})
        >>> builder = DynamicKafkaSource.builder().set_stream_pattern("^payments-").set_group_id("fraud")
        >>> _ = builder.set_kafka_metadata_service(service).set_value_only_deserializer(SimpleStringSchema())
        >>> builder.build()
        DynamicKafkaSource(streams like ^payments- by SingleClusterTopicMetadataService)
    """

    _name = "DynamicKafkaSource"
    _kind = SOURCE

    def __init__(self) -> None:
        super().__init__()
        self._subscriber: KafkaStreamSubscriber | None = None
        self._service: KafkaMetadataService | None = None

    def set_stream_ids(self, stream_ids: set[str]) -> Self:
        """Read some streams.

        Raises:
            InvalidProgramError: when there are none, or what to read was said already.
        """
        return self.set_kafka_stream_subscriber(KafkaStreamSetSubscriber(stream_ids))

    def set_stream_pattern(self, stream_pattern: str) -> Self:
        """Read all streams in whose names a regular expression is found, later ones too.

        Raises:
            InvalidProgramError: when it is none, or what to read was said already.
        """
        return self.set_kafka_stream_subscriber(StreamPatternSubscriber(stream_pattern))

    def set_kafka_stream_subscriber(self, kafka_stream_subscriber: KafkaStreamSubscriber) -> Self:
        """Read what a subscriber says.

        Raises:
            InvalidTypeError: when it is none.
            InvalidProgramError: when what to read was said already.
        """
        expect(kafka_stream_subscriber, KafkaStreamSubscriber, "set_kafka_stream_subscriber")
        if self._subscriber is not None:
            raise refused(f"the source reads {self._subscriber} already: say once what it is to read")
        self._subscriber = kafka_stream_subscriber
        return self

    def set_kafka_metadata_service(self, kafka_metadata_service: KafkaMetadataService) -> Self:
        """Set the service that says where streams are.

        Raises:
            InvalidTypeError: when it is no such service.
        """
        expect(kafka_metadata_service, KafkaMetadataService, "set_kafka_metadata_service")
        self._service = kafka_metadata_service
        return self

    def build(self) -> DynamicKafkaSource[T_co]:
        """The source; nothing is connected to yet.

        Raises:
            ConfigurationError: when a setting is malformed.
            InvalidProgramError: when streams, the metadata service or the schema are missing.
        """
        if self._subscriber is None:
            raise refused("a DynamicKafkaSource needs set_stream_ids() or set_stream_pattern()")
        if self._service is None:
            raise refused("a DynamicKafkaSource needs set_kafka_metadata_service()")
        properties = dict(self._properties)
        _check_names(properties)
        interval = whole_number(INTERVAL, properties.pop(INTERVAL, "-1"))
        threshold = whole_number(THRESHOLD, properties.pop(THRESHOLD, "1"))
        if threshold < 0:
            raise refused(f"{THRESHOLD!r} is not negative, got {threshold}", ConfigurationError)
        retention = whole_number(RETENTION, properties.pop(RETENTION, "0"))
        _check_mode(properties.pop(MODE, "global"))
        follows = interval > 0 and not self._plan.is_bounded
        each = self._reading_plan(properties)
        check_known(properties)
        plan = DynamicPlan(
            self._subscriber,
            self._service,
            interval if follows else None,
            each,
            properties,
            0 if self._plan.is_bounded else threshold,
            retention,
        )
        self._check_schema()
        return DynamicKafkaSource(plan, **self._given)


def _check_names(properties: Mapping[str, str]) -> None:
    """Refuse a misspelled setting of the source, which no client would know either."""
    for name in properties:
        if name.startswith("stream-") and name not in OPTIONS:
            raise refused(f"there is no setting {name!r}{alike(name, OPTIONS)}", ConfigurationError)


def _check_mode(text: str) -> None:
    if text != "global":
        raise refused(
            f"{MODE!r} is global, not {text!r}: partitions are spread over all tasks, of whatever cluster they are",
            ConfigurationError,
        )


class KafkaRecordDeserializationSchema(MessageDeserializationSchema):
    """A :class:`MessageDeserializationSchema`, by the name that PyFlink has for one of values alone.

    Examples:
        >>> from headrace.common import SimpleStringSchema
        >>> from headrace.datastream.connectors.dynamic_kafka import KafkaRecordDeserializationSchema
        >>> KafkaRecordDeserializationSchema.value_only(SimpleStringSchema()).produced_type
        String
    """

    @staticmethod
    def value_only(deserialization_schema: DeserializationSchema) -> "KafkaRecordDeserializationSchema":
        """Makes records of the values of messages."""
        return KafkaRecordDeserializationSchema(deserialization_schema)
