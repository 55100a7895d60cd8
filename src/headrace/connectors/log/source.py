"""``LogSource``: records from topics of the embedded log; its reader, and the requests of the driver to the log."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, Self

import pyarrow as pa

from headrace.common.builder import Builder
from headrace.common.errors import (
    CommitFailedError,
    InvalidTypeError,
    OffsetOutOfRangeError,
    SourceChangedError,
    UnknownTopicError,
    expect,
    refused,
)
from headrace.common.logs import get_logger
from headrace.common.messages import TopicPartition
from headrace.common.output_tag import OutputTag
from headrace.common.time import Duration
from headrace.common.type_variables import T_co
from headrace.connectors.datasets import LineageDataset, log_datasets
from headrace.connectors.log.topic_monitor import log_place
from headrace.connectors.messages import METADATA, MessageDecoder, MessageDeserializationSchema, Messages
from headrace.connectors.partitions import (
    OffsetResetStrategy,
    PartitionedLog,
    PartitionEnumerator,
    ReadingPlan,
    topic_made_again,
)
from headrace.connectors.source import (
    EnumeratorContext,
    Json,
    ReaderContext,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
)
from headrace.connectors.topic_builders import DISCOVERY, GROUP, RESET, TopicSource, TopicSourceBuilder
from headrace.connectors.topic_state import TopicsPlace
from headrace.log.groups import Group
from headrace.log.log import Log
from headrace.log.membership import commit_without_members

logger = get_logger(__name__)


class LogBuilder(Builder):
    """Puts something together that reads or writes an embedded log."""

    def set_log(self, location: str | os.PathLike[str]) -> Self:
        """Say where the log is: a path, or the URI of a folder on an object store or HDFS.

        Raises:
            InvalidTypeError: when it is neither.
            InvalidProgramError: when it is empty.
        """
        if not isinstance(location, str | os.PathLike):
            raise refused(f"set_log takes a path or a URI, not {location!r}", InvalidTypeError)
        text = os.fspath(location)
        if not text.strip():
            raise refused("set_log: the path is empty (was it to come from a variable that is not set?)")
        return self._set(location=text)

    def _check_location(self) -> None:
        self._needed("location", "a log: call set_log() with its path")


class EmbeddedPartitionedLog(PartitionedLog):
    """An embedded log as an enumerator sees it.

    Args:
        log: the log.
        group: the consumer group to which offsets are committed; None for none.
    """

    def __init__(self, log: Log, group: str | None) -> None:
        self._log = log
        self._group = group
        self._committed: dict[TopicPartition, int] = {}
        self._created: dict[str, int] = {}

    def topics(self) -> dict[str, int]:
        return self._log.topics()

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        with self._log.journal.lock:
            state = self._log.journal.state()
            self._created = {name: state.topic(name).created for name in topics}
        return {name: str(created) for name, created in self._created.items()}

    def earliest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return _offsets(self._log.beginning_offsets, partitions)

    def latest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return _offsets(self._log.end_offsets, partitions)

    def at_timestamp(self, partitions: Sequence[TopicPartition], millis: int) -> dict[TopicPartition, int]:
        found = {each: self._log.offset_for_time(each, millis) for each in partitions}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        known = {} if self._group is None else self._log.committed(self._group)
        return {each: known[each] for each in partitions if each in known}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._group is None or offsets == self._committed:
            return
        try:
            commit_without_members(
                self._log.journal, self._group, offsets, self._created, lambda group: self._check_alone(group, offsets)
            )
            self._committed = dict(offsets)
        except (CommitFailedError, OSError) as error:
            logger.warning("the offsets of group %s were not committed: %s", self._group, error)
            self._committed = {}

    def _check_alone(self, group: Group, offsets: Mapping[TopicPartition, int]) -> None:
        """Check that no other process has committed further offsets of the group.

        A job manager that stood still learns only from its next manifest that another one has taken its place.

        Raises:
            CommitFailedError: when it has.
        """
        for each, offset in offsets.items() if self._committed else ():
            there = group.offsets.get(each, 0)
            if there > offset and there != self._committed.get(each):
                raise CommitFailedError(f"another process has committed {there} of {each}; this job is at {offset}")


def _offsets(
    ask: Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, int]], partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    try:
        found = ask(partitions)
    except UnknownTopicError as error:
        raise SourceChangedError(
            f"{error}. Take it from the source, or make it again and start the job without its checkpoints"
        ) from error
    return dict(found)


_HEADERS: Final = "headers"
_TIMESTAMP_TYPE: Final = "timestamp-type"

_CREATED: Final = "CreateTime"
"""Kafka's name for timestamps that the sender of a record has set."""


class LogReader(SourceReader):
    """Reads ranges of offsets.

    Args:
        location: where the log is.
        schema: what records are made of.
        reject: whether there is an output for dead letters.
    """

    def __init__(self, location: str, schema: MessageDeserializationSchema, *, reject: bool) -> None:
        self._location = location
        self._decoder = MessageDecoder(schema, reject=reject)
        self._wants_keys = schema.key is not None
        self._metadata = set(schema.metadata.values())
        self._log: Log | None = None
        self._created: dict[str, int] = {}

    def open(self, context: ReaderContext) -> None:
        self._log = Log.open(self._location, options=context.storage_options)

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        split_id, offset, end = piece
        assert self._log is not None, "it is opened before it reads"
        partition = TopicPartition.parse(split_id)
        self._check(self._log, partition, end)
        while offset < end:
            try:
                batches, offset = self._log.fetch(partition, offset, end)
            except (OffsetOutOfRangeError, UnknownTopicError) as error:
                raise SourceChangedError(
                    f"{error}: records were deleted after they were found, and before they were read"
                ) from error
            for batch in batches:
                yield self._decoder.decode(self._messages(partition, batch))

    def _check(self, log: Log, partition: TopicPartition, end: int) -> None:
        """Check that a partition is the one that it was, and has records up to an offset."""
        with log.journal.lock:
            log.journal.refresh()
            topic = log.journal.state().topics.get(partition.topic)
            ends = [each.end_offset for each in topic.partitions[partition.partition :][:1]] if topic else []
        if topic is not None and self._created.setdefault(partition.topic, topic.created) != topic.created:
            raise topic_made_again(partition.topic)
        if not ends or ends[0] < end:
            raise SourceChangedError(f"{log}: {partition} ends before offset {end}, which it had before")

    def _messages(self, partition: TopicPartition, batch: pa.RecordBatch) -> Messages:
        return Messages(
            partition.topic,
            partition.partition,
            batch.column("offset").to_numpy(),
            batch.column("value"),
            batch.column("key") if self._wants_keys else None,
            batch.column("timestamp").cast(pa.int64()).to_numpy(),
            {name: column(batch) for name, column in _COLUMNS.items() if name in self._metadata},
        )


def _headers(batch: pa.RecordBatch) -> pa.Array:
    """The headers; of several with one name, the last."""
    found = [{pair["key"]: pair["value"] for pair in pairs or ()} for pairs in batch.column("headers").to_pylist()]
    return pa.array([list(each.items()) for each in found], METADATA[_HEADERS].storage_type)


def _timestamp_types(batch: pa.RecordBatch) -> pa.Array:
    return pa.repeat(pa.scalar(_CREATED, METADATA[_TIMESTAMP_TYPE].storage_type), batch.num_rows)


_COLUMNS: Final[Mapping[str, Callable[[pa.RecordBatch], pa.Array]]] = {
    _HEADERS: _headers,
    _TIMESTAMP_TYPE: _timestamp_types,
}
"""Metadata that is read on request."""


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
        dead_letter: OutputTag | None = None,
    ) -> None:
        self._location = location
        self._group = group
        self._plan = plan
        super().__init__(str(plan.subscription), schema, dead_letter, is_bounded=plan.is_bounded)

    @staticmethod
    def builder() -> "LogSourceBuilder":
        """Begin a source."""
        return LogSourceBuilder()

    @property
    def places(self) -> tuple[TopicsPlace, ...]:
        return (log_place(self._location),)

    @property
    def group(self) -> str | None:
        return self._group

    @property
    def datasets(self) -> tuple[LineageDataset, ...]:
        return log_datasets(self._location, self._plan.subscription.names)

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        log = Log.open(self._location, options=context.storage_options)
        return PartitionEnumerator(EmbeddedPartitionedLog(log, self._group), self._plan, context.state)

    def create_reader(self) -> SourceReader:
        return LogReader(self._location, self._schema, reject=self.dead_letter is not None)

    def __repr__(self) -> str:
        return f"LogSource({self._plan.subscription} in {self._location!r})"


class LogSourceBuilder(LogBuilder, TopicSourceBuilder, Generic[T_co]):
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

    def set_partition_discovery(self, interval: Duration) -> Self:
        """Set how often to look for new topics and partitions: every five minutes by default, never if it is zero."""
        expect(interval, Duration, "set_partition_discovery")
        self._properties[DISCOVERY] = str(interval.to_millis())
        return self

    def set_offset_reset(self, strategy: OffsetResetStrategy) -> Self:
        """Set where to go on when records were deleted before they were read. By default the job fails."""
        expect(strategy, OffsetResetStrategy, "set_offset_reset")
        self._properties[RESET] = strategy.name.lower()
        return self

    def build(self) -> LogSource[T_co]:
        """The source; nothing is read yet.

        Raises:
            InvalidProgramError: when the log, topics or the schema are missing.
        """
        self._check_location()
        properties = dict(self._properties)
        plan = self._reading_plan(properties)
        self._check_schema()
        return LogSource(group=properties.get(GROUP), plan=plan, **self._given)
