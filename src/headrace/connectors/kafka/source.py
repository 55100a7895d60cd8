"""``KafkaSource``: records from topics of Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from headrace.common.arguments import expect
from headrace.common.type_variables import T_co
from headrace.connectors.kafka.builders import KafkaConsumerBuilder
from headrace.connectors.kafka.clients import ClientSettings, check_known, check_library
from headrace.connectors.kafka.partitioned_log import KafkaPartitionedLog
from headrace.connectors.kafka.reader import KafkaReader
from headrace.connectors.partitions.builder import TopicSource, TopicSourceBuilder
from headrace.connectors.partitions.enumerator import PartitionEnumerator

if TYPE_CHECKING:
    from typing import Self

    from headrace.common.output_tag import OutputTag
    from headrace.connectors.incoming_messages import MessageDeserializationSchema
    from headrace.connectors.partitions.enumerator import ReadingPlan
    from headrace.connectors.source import EnumeratorContext, SourceReader, SplitEnumerator


class KafkaSource(TopicSource[T_co]):
    """Reads topics exactly once; every partition is a split, in its own order and with a watermark of its own.

    Of transactions only what is committed is read, unless ``isolation.level`` says otherwise. Records carry the
    timestamps that they have in Kafka.

    Examples:
        >>> from headrace.common import SimpleStringSchema
        >>> from headrace.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
        >>> source = (
        ...     KafkaSource.builder()
        ...     .set_bootstrap_servers("localhost:9092")
        ...     .set_topics("payments")
        ...     .set_group_id("fraud")
        ...     .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        ...     .set_value_only_deserializer(SimpleStringSchema())
        ...     .build()
        ... )
        >>> source, source.produced_type
        (KafkaSource(payments at localhost:9092), String)
    """

    def __init__(
        self,
        settings: ClientSettings,
        plan: ReadingPlan,
        schema: MessageDeserializationSchema,
        dead_letter: OutputTag | None,
    ) -> None:
        self._settings = settings
        self._plan = plan
        super().__init__(str(plan.subscription), schema, dead_letter, is_bounded=plan.is_bounded)

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Begin a source."""
        return KafkaSourceBuilder()

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        check_library()
        return PartitionEnumerator(KafkaPartitionedLog(self._settings), self._plan, context.state)

    def create_reader(self) -> SourceReader:
        return KafkaReader(self._settings, self._schema, reject=self._dead_letter is not None)

    def __repr__(self) -> str:
        return f"KafkaSource({self._plan.subscription} at {self._settings.servers})"


class KafkaSourceBuilder(KafkaConsumerBuilder, TopicSourceBuilder, Generic[T_co]):
    """Puts a :class:`KafkaSource` together.

    Examples:
        >>> from headrace.common import JsonRowDeserializationSchema, Types
        >>> from headrace.datastream import OutputTag
        >>> from headrace.datastream.connectors.base import MessageDeserializationSchema
        >>> from headrace.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
        >>> payments = JsonRowDeserializationSchema(Types.ROW_NAMED(["card", "amount"], [str, float]))
        >>> builder = KafkaSource.builder().set_bootstrap_servers("localhost:9092").set_topic_pattern("payments-.*")
        >>> _ = builder.set_deserializer(MessageDeserializationSchema(payments, metadata=["topic", "offset"]))
        >>> _ = builder.set_bounded(KafkaOffsetsInitializer.latest()).set_dead_letter(OutputTag("bad"))
        >>> _ = builder.set_property("sasl.password", "${env:KAFKA_PASSWORD}")
        >>> builder.build().produced_type
        RowTypeInfo(card: String, amount: Double, topic: String, offset: Long)
    """

    _name = "KafkaSource"

    def set_bootstrap_servers(self, bootstrap_servers: str) -> Self:
        """Where to ask for the cluster: ``host:port``, several with commas.

        Raises:
            InvalidTypeError: when it is no text.
        """
        expect(bootstrap_servers, str, "set_bootstrap_servers")
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def build(self) -> KafkaSource[T_co]:
        """The source; nothing is connected to yet.

        Raises:
            ConfigurationError: when a setting is missing or malformed.
            InvalidProgramError: when topics or the schema are missing.
        """
        self._check_servers()
        properties = dict(self._properties)
        plan = self._reading_plan(self._subscribed(), properties)
        check_known(properties)
        return KafkaSource(ClientSettings(properties), plan, self._needed_schema(), self._dead_letter)
