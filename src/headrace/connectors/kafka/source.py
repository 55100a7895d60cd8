"""``KafkaSource``: records from topics of Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Generic

from headrace.common.errors import ConfigurationError
from headrace.common.other_names import other_names
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.common.type_variables import T_co
from headrace.connectors.kafka.client import ClientSettings, check_library, check_properties
from headrace.connectors.kafka.cluster import KafkaOffsets
from headrace.connectors.kafka.reader import KafkaReader
from headrace.connectors.partitions.builder import TopicSourceBuilder
from headrace.connectors.partitions.enumerator import DISCOVERY_MILLIS, PartitionEnumerator, ReadingPlan
from headrace.connectors.source import Boundedness, Source

if TYPE_CHECKING:
    from headrace.common.output_tag import OutputTag
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.messages import MessageDeserializationSchema
    from headrace.connectors.source import EnumeratorContext, SourceReader, SplitEnumerator

_DISCOVERY: Final = "partition.discovery.interval.ms"
_COMMITS: Final = "commit.offsets.on.checkpoint"
_RESET: Final = "auto.offset.reset"


@hides_engine_of_methods
class KafkaSource(Source[T_co]):
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
        self._schema = schema
        self._dead_letter = dead_letter

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Begin a source."""
        return KafkaSourceBuilder()

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._plan.is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def produced_type(self) -> TypeInformation[T_co]:
        return self._schema.produced_type

    @property
    def dead_letter(self) -> OutputTag | None:
        return self._dead_letter

    @property
    def locations(self) -> tuple[str, ...]:
        return (str(self._plan.subscription),)

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        check_library()
        return PartitionEnumerator(KafkaOffsets(self._settings), self._plan, context.state)

    def create_reader(self) -> SourceReader:
        return KafkaReader(self._settings, self._schema, reject=self._dead_letter is not None)

    def __repr__(self) -> str:
        return f"KafkaSource({self._plan.subscription} at {self._settings.servers})"


@hides_engine_of_methods
@other_names()
class KafkaSourceBuilder(TopicSourceBuilder, Generic[T_co]):
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

    def __init__(self) -> None:
        super().__init__()
        self._properties: dict[str, str] = {}

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder[T_co]:
        """Where to ask for the cluster: ``host:port``, several with commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder[T_co]:
        """The consumer group whose offsets show how far the job has come; the job itself goes by its checkpoints."""
        return self.set_property("group.id", group_id)

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder[T_co]:
        """What the ids of clients begin with, in quotas and logs of brokers."""
        return self.set_property("client.id.prefix", prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder[T_co]:
        """A setting of librdkafka, or of Java's clients where both know it.

        ``${env:NAME}``, ``${directory:/run/secrets:password}`` and ``${file:/etc/kafka.properties:password}`` stand for
        secrets, which are looked up where a client is made and are not part of the job.

        Raises:
            ConfigurationError: when it is for the source itself to decide, or for Java alone.
        """
        check_properties({key: str(value)})
        self._properties[key] = str(value)
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder[T_co]:
        """Several settings, see :meth:`set_property`."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource[T_co]:
        """The source; nothing is connected to yet.

        Raises:
            ConfigurationError: when a setting is missing or malformed.
            InvalidProgramError: when topics or the schema are missing.
        """
        if "bootstrap.servers" not in self._properties:
            raise ConfigurationError("a KafkaSource needs set_bootstrap_servers('host:port')")
        properties = dict(self._properties)
        plan = self._planned(
            has_group="group.id" in properties,
            commits=_boolean(_COMMITS, properties.pop(_COMMITS, "true")),
            discovery_millis=_integer(_DISCOVERY, properties.pop(_DISCOVERY, str(DISCOVERY_MILLIS))),
            resets_to=_reset_of(properties.pop(_RESET, "none")),
        )
        return KafkaSource(ClientSettings(properties), plan, self._made_of(), self._dead_letter)


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigurationError(f"{name!r} is true or false, not {text!r}")
    return text.lower() == "true"


def _integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"{name!r} is a number of milliseconds, not {text!r}") from None


def _reset_of(text: str) -> str | None:
    if text not in ("none", "earliest", "latest"):
        raise ConfigurationError(f"{_RESET!r} is earliest, latest or none, not {text!r}")
    return None if text == "none" else text
