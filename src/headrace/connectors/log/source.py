"""``LogSource``: records from topics of the embedded log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from headrace.common.arguments import expect, refused
from headrace.common.time import Duration
from headrace.common.type_variables import T_co
from headrace.connectors.log.location import location_of
from headrace.connectors.log.partitioned_log import EmbeddedPartitionedLog
from headrace.connectors.log.reader import LogReader
from headrace.connectors.partitions.builder import TopicSourceBuilder
from headrace.connectors.partitions.enumerator import DISCOVERY_MILLIS, PartitionEnumerator
from headrace.connectors.partitions.offsets import OffsetResetStrategy
from headrace.connectors.partitions.topic_source import TopicSource
from headrace.log.log import Log

if TYPE_CHECKING:
    import os
    from typing import Self

    from headrace.common.output_tag import OutputTag
    from headrace.connectors.incoming_messages import MessageDeserializationSchema
    from headrace.connectors.partitions.enumerator import ReadingPlan
    from headrace.connectors.source import EnumeratorContext, SourceReader, SplitEnumerator


class LogSource(TopicSource[T_co]):
    """Reads topics of an embedded log exactly once; every partition is a split, with a watermark of its own.

    Only what was committed is read. Records carry the timestamps that they have in the log.

    Examples:
        >>> from headrace.common import SimpleStringSchema, WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors.log import LogSource, OffsetsInitializer
        >>> from headrace.log import Log, Producer
        >>> log = Log.open("shop.log", create=True)
        >>> log.create_topic("orders")
        >>> with Producer(log) as producer:
        ...     for value in (b"tea", b"cake"):
        ...         _ = producer.send("orders", value)
        >>> source = (
        ...     LogSource.builder()
        ...     .set_log("shop.log")
        ...     .set_topics("orders")
        ...     .set_bounded(OffsetsInitializer.latest())
        ...     .set_value_only_deserializer(SimpleStringSchema())
        ...     .build()
        ... )
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> orders = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "orders")
        >>> list(orders.execute_and_collect())
        ['tea', 'cake']
    """

    def __init__(
        self,
        location: str,
        group: str | None,
        plan: ReadingPlan,
        schema: MessageDeserializationSchema,
        dead_letter: OutputTag | None,
    ) -> None:
        self._location = location
        self._group = group
        self._plan = plan
        super().__init__(str(plan.subscription), schema, dead_letter, is_bounded=plan.is_bounded)

    @staticmethod
    def builder() -> LogSourceBuilder:
        """Begin a source."""
        return LogSourceBuilder()

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        log = Log.open(self._location, options=context.storage_options)
        return PartitionEnumerator(EmbeddedPartitionedLog(log, self._group), self._plan, context.state)

    def create_reader(self) -> SourceReader:
        return LogReader(self._location, self._schema, reject=self._dead_letter is not None)

    def __repr__(self) -> str:
        return f"LogSource({self._plan.subscription} in {self._location!r})"


class LogSourceBuilder(TopicSourceBuilder, Generic[T_co]):
    """Puts a :class:`LogSource` together.

    Examples:
        >>> from headrace.common import JsonRowDeserializationSchema, Types
        >>> from headrace.common.time import Duration
        >>> from headrace.datastream.connectors.base import MessageDeserializationSchema
        >>> from headrace.datastream.connectors.log import LogSource, OffsetResetStrategy
        >>> payments = JsonRowDeserializationSchema(Types.ROW_NAMED(["card", "amount"], [str, float]))
        >>> builder = LogSource.builder().set_log("shop.log").set_topic_pattern("payments-.*").set_group_id("fraud")
        >>> _ = builder.set_partition_discovery(Duration.of_seconds(10)).set_offset_reset(OffsetResetStrategy.EARLIEST)
        >>> _ = builder.set_deserializer(MessageDeserializationSchema(payments, metadata=["topic", "offset"]))
        >>> builder.build()
        LogSource(topics like payments-.* in 'shop.log')
    """

    _name = "LogSource"

    def __init__(self) -> None:
        super().__init__()
        self._location: str | None = None
        self._group: str | None = None
        self._discovery_millis = DISCOVERY_MILLIS
        self._resets_to: str | None = None

    def set_log(self, location: str | os.PathLike[str]) -> Self:
        """Say where the log is: a path, or the URI of a folder on an object store or HDFS.

        Raises:
            InvalidTypeError: when it is neither.
            InvalidProgramError: when it is empty.
        """
        self._location = location_of(location)
        return self

    def set_group_id(self, group_id: str) -> Self:
        """The consumer group whose offsets show how far the job has come; the job itself goes by its checkpoints.

        Raises:
            InvalidTypeError: when it is no text.
            InvalidProgramError: when it is empty.
        """
        expect(group_id, str, "set_group_id")
        if not group_id:
            raise refused("set_group_id: the name of the group is empty")
        self._group = group_id
        return self

    def set_partition_discovery(self, interval: Duration) -> Self:
        """How often to look for new topics and partitions, every five minutes unless said; never where it is zero."""
        expect(interval, Duration, "set_partition_discovery")
        self._discovery_millis = interval.to_millis()
        return self

    def set_offset_reset(self, strategy: OffsetResetStrategy) -> Self:
        """Where to go on when records were deleted before they were read; the job fails unless it is said."""
        expect(strategy, OffsetResetStrategy, "set_offset_reset")
        self._resets_to = None if strategy is OffsetResetStrategy.NONE else strategy.name.lower()
        return self

    def build(self) -> LogSource[T_co]:
        """The source; nothing is read yet.

        Raises:
            InvalidProgramError: when the log, topics or the schema are missing.
        """
        if self._location is None:
            raise refused("a LogSource needs a log: call set_log() with its path")
        plan = self._planned(
            self._subscribed(),
            has_group=self._group is not None,
            commits=True,
            discovery_millis=self._discovery_millis,
            resets_to=self._resets_to,
        )
        return LogSource(self._location, self._group, plan, self._needed_schema(), self._dead_letter)
