"""``KafkaSource``: ranges of offsets, fetched from brokers in tasks and read column by column."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import filterfalse
from operator import itemgetter, methodcaller
from typing import TYPE_CHECKING, Final, Generic

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InfrastructureError, SourceChangedError
from headrace.common.messages import TopicPartition
from headrace.common.output_tag import OutputTag
from headrace.common.type_variables import T_co
from headrace.connectors.datasets import LineageDataset, kafka_namespace, topic_datasets
from headrace.connectors.kafka.clients import ClientErrors, ClientSettings, error_of
from headrace.connectors.kafka.settings import SOURCE, KafkaClusterBuilder, check_known, check_library
from headrace.connectors.messages import METADATA, MessageDecoder, MessageDeserializationSchema, Messages
from headrace.connectors.partitions import PartitionEnumerator, ReadingPlan
from headrace.connectors.source import (
    EnumeratorContext,
    Json,
    KeptClients,
    ReaderContext,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
)
from headrace.connectors.topic_builders import TopicSource, TopicSourceBuilder
from headrace.connectors.topic_state import TopicMonitor, TopicsPlace

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message


_FETCH_RECORDS: Final = 500  # memory that is used again at once: twice as many cost a third more
_FETCH_SECONDS: Final = 0.02
_WAIT_SECONDS: Final = 0.5
_FEW_RECORDS: Final = 2_000
"""A range with fewer is what has come of late: as a rule there is nothing behind it, so nothing is fetched ahead. A
fetch that waits is answered at each new record, many times between two epochs."""
_STALLED_SECONDS: Final = 60
_NOWHERE: Final = -1
_OFFSET: Final = methodcaller("offset")


@dataclass(slots=True)
class PartitionConsumer:
    """A consumer of one partition, which fetches ahead what comes next, unless it rests.

    Attributes:
        settings: how the cluster is reached.
        partition: the partition.
    """

    settings: ClientSettings
    partition: TopicPartition
    _consumer: Consumer | None = None
    _errors: ClientErrors = field(default_factory=ClientErrors)
    _ahead: list[Message] = field(default_factory=list)
    _fetched: int = _NOWHERE
    _handed_out: int = _NOWHERE

    def read(self, start: int, end: int) -> Iterator[list[Message]]:
        """The messages of ``[start, end)`` in their order, as they come.

        Offsets may have gaps, of compaction and of the marks of transactions, before ``end`` as well: so the range is
        over when a message from behind it comes, or the partition has no more.

        Raises:
            SourceChangedError: when the first of them were deleted.
            InfrastructureError: when nothing comes for a minute, or on another passing fault.
        """
        consumer = self._at(start)
        self._handed_out = _NOWHERE
        while True:
            behind = bisect_left(self._ahead, end, key=_OFFSET) if self._fetched > end else len(self._ahead)
            taken, self._ahead = self._ahead[:behind], self._ahead[behind:]
            is_over = self._fetched >= end
            if is_over:  # before the last ones are returned: there may be no next call
                self._handed_out = end
                if end - start < _FEW_RECORDS:
                    self.rest()
            if taken:
                yield taken
            if is_over:
                return
            self._fetch(consumer, end, 0 if end - start < _FEW_RECORDS else _FETCH_SECONDS)

    def rest(self) -> None:
        """Fetch nothing until there is something to read; connections stay."""
        if self._consumer is not None:
            self._consumer.unassign()
        self._ahead, self._fetched, self._handed_out = [], _NOWHERE, _NOWHERE

    def close(self) -> None:
        """Let go of connections."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _at(self, offset: int) -> Consumer:
        """The consumer, whose next message is the first one from an offset on."""
        from confluent_kafka import TopicPartition as Assigned

        if self._consumer is None:
            self._consumer = self.settings.consumer(f"reader-{self.partition}", self._errors)
        if self._handed_out != offset:
            self._consumer.assign([Assigned(self.partition.topic, self.partition.partition, offset)])
            self._ahead, self._fetched = [], offset
        return self._consumer

    def _fetch(self, consumer: Consumer, end: int, seconds: float) -> None:
        """Wait for messages; of many, take those that come within some seconds."""
        started = time.monotonic()
        wanted = max(1, min(_FETCH_RECORDS, end - self._fetched))
        while not self._take(consumer.consume(wanted, seconds) or consumer.consume(1, _WAIT_SECONDS)):
            self._errors.check(f"{self.partition}@{self._fetched}, at {self.settings.servers}")
            if time.monotonic() - started > _STALLED_SECONDS:
                raise InfrastructureError(
                    f"{self.partition}@{self._fetched}: nothing has come from {self.settings.servers} for "
                    f"{_STALLED_SECONDS} s; what the log has from headrace.connectors.kafka may say why"
                )

    def _take(self, messages: list[Message]) -> bool:
        """Keep the messages that have come; False if there were none."""
        good = list(filterfalse(type(messages[0]).error, messages)) if messages else messages
        if good:
            self._ahead += good
            self._fetched = good[-1].offset() + 1
        for message in messages if len(good) < len(messages) else ():
            if message.error() is not None:
                self._fetched = max(self._fetched, self._end_after(message))
        return bool(messages)

    def _end_after(self, message: Message) -> int:
        """The offset at which the partition ends now, if that is what a message is about.

        Raises:
            SourceChangedError: when it says that records were deleted.
            HeadraceError: when it reports another fault.
        """
        from confluent_kafka import KafkaError

        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            return int(message.offset())
        place = f"{self.partition}@{self._fetched}"
        self._handed_out = _NOWHERE
        if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            raise SourceChangedError(
                f"{place} is not there any more: records were deleted (retention.ms, retention.bytes, or the topic) "
                "after they were found, and before they were read"
            )
        raise error_of(error, place)


_BATCH_RECORDS: Final = 1 << 15
_BATCH_BYTES: Final = 16 << 20
_MOST_CONSUMERS: Final = 16
_SECOND: Final = itemgetter(1)

_TIMESTAMP_TYPES: Final = ("NoTimestampType", "CreateTime", "LogAppendTime")


class KafkaReader(SourceReader):
    """Reads ranges of offsets, each by a consumer that goes on where it has stopped the last time.

    Args:
        settings: how the cluster is reached.
        schema: what records are made of.
        reject: whether there is an output for dead letters.
    """

    def __init__(self, settings: ClientSettings, schema: MessageDeserializationSchema, *, reject: bool) -> None:
        self._settings = settings
        self._decoder = MessageDecoder(schema, reject=reject)
        self._wants_keys = schema.key is not None
        self._metadata = {name: _COLUMNS[name] for name in schema.metadata.values() if name in _COLUMNS}
        self._consumers: OrderedDict[str, PartitionConsumer] = OrderedDict()
        self._clients = KeptClients()

    def open(self, context: ReaderContext) -> None:
        self._clients = context.clients

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        split_id, start, end = piece
        yield from self.read_range(self._settings, "", split_id, (start, end))

    def read_range(
        self, settings: ClientSettings, place: str, partition: str, offsets: tuple[int, int]
    ) -> Iterator[SourceRecords]:
        """Read a range of offsets of a partition.

        Args:
            settings: how its cluster is reached.
            place: what messages to users say before the name of the topic.
            partition: the partition, as ``topic-partition``.
            offsets: the first one, and the one behind the last.
        """
        consumer = self._consumer(settings, place, partition)
        fetched: list[Messages] = []
        records = size = 0
        for messages in consumer.read(*offsets):
            # As columns at once: the memory of these messages serves for the next ones, and is still in the cache
            fetched.append(self._columns(consumer.partition, place, messages))
            records += len(messages)
            size += fetched[-1].values.nbytes
            if records >= _BATCH_RECORDS or size >= _BATCH_BYTES:
                yield self._decoder.decode(_together(fetched))
                fetched, records, size = [], 0, 0
        if fetched:
            yield self._decoder.decode(_together(fetched))

    def close_partition(self, settings: ClientSettings, place: str, partition: str) -> None:
        """Close the connections of a partition that is not read any more; arguments as with :meth:`read_range`."""
        kept = self._clients.take(_key(settings, TopicPartition.parse(partition)), PartitionConsumer)
        for consumer in (self._consumers.pop(place + partition, None), kept):
            if consumer is not None:
                consumer.close()

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.rest()
            self._clients.keep(_key(consumer.settings, consumer.partition), consumer)
        self._consumers.clear()

    def _consumer(self, settings: ClientSettings, place: str, partition: str) -> PartitionConsumer:
        """The consumer of a partition; the one that was unused for longest makes room."""
        found = self._consumers.pop(place + partition, None)
        if found is not None and found.settings != settings:  # the cluster is reached in another way now
            found.close()
            found = None
        if found is None:
            check_library()
            if len(self._consumers) == _MOST_CONSUMERS:
                self._consumers.popitem(last=False)[1].close()
            parsed = TopicPartition.parse(partition)
            kept = self._clients.take(_key(settings, parsed), PartitionConsumer)
            found = kept or PartitionConsumer(settings, parsed)
        self._consumers[place + partition] = found
        return found

    def _columns(self, partition: TopicPartition, place: str, messages: list[Message]) -> Messages:
        kind = type(messages[0])
        return Messages(
            partition.topic,
            partition.partition,
            _offsets(messages),
            pa.array(list(map(kind.value, messages)), pa.binary()),
            pa.array(list(map(kind.key, messages)), pa.binary()) if self._wants_keys else None,
            _timestamps(messages),
            {name: column(messages) for name, column in self._metadata.items()},
            place,
        )


def _key(settings: ClientSettings, partition: TopicPartition) -> Hashable:
    return partition, settings.key


def _together(fetched: list[Messages]) -> Messages:
    if len(fetched) == 1:
        return fetched[0]
    first = fetched[0]
    return replace(
        first,
        offsets=np.concatenate([each.offsets for each in fetched]),
        values=pa.concat_arrays([each.values for each in fetched]),
        keys=None if first.keys is None else pa.concat_arrays([each.keys for each in fetched]),
        timestamps=np.concatenate([each.timestamps for each in fetched]),
        metadata={name: pa.concat_arrays([each.metadata[name] for each in fetched]) for name in first.metadata},
    )


def _offsets(messages: list[Message]) -> npt.NDArray[np.int64]:
    first, last = messages[0].offset(), messages[-1].offset()
    if last - first == len(messages) - 1:  # no gaps, as a rule
        return np.arange(first, last + 1)
    return np.fromiter(map(type(messages[0]).offset, messages), np.int64, len(messages))


def _timestamps(messages: list[Message]) -> npt.NDArray[np.int64]:
    """The brokers' timestamps; there are none in topics of the oldest format."""
    known = np.fromiter(map(_SECOND, map(type(messages[0]).timestamp, messages)), np.int64, len(messages))
    return np.where(known < 0, NO_TIMESTAMP, known)


def _headers(messages: list[Message]) -> pa.Array:
    """The headers; of several with one name, the last."""
    return pa.array([list(dict(each.headers() or ()).items()) for each in messages], METADATA["headers"].storage_type)


def _timestamp_types(messages: list[Message]) -> pa.Array:
    return pa.array([_TIMESTAMP_TYPES[each.timestamp()[0]] for each in messages], pa.string())


def _leader_epochs(messages: list[Message]) -> pa.Array:
    return pa.array([each.leader_epoch() for each in messages], METADATA["leader-epoch"].storage_type)


_COLUMNS: Final[Mapping[str, Callable[[list[Message]], pa.Array]]] = {
    "headers": _headers,
    "timestamp-type": _timestamp_types,
    "leader-epoch": _leader_epochs,
}
"""Metadata that is read on request."""


def kafka_place(settings: ClientSettings) -> TopicsPlace:
    """The place of the topics of a cluster."""

    def monitor(_: Mapping[str, str]) -> TopicMonitor:
        check_library()
        from headrace.connectors.kafka.topic_monitor import KafkaTopicMonitor

        return KafkaTopicMonitor(settings)

    return TopicsPlace("Kafka", settings.servers, monitor)


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
        dead_letter: OutputTag | None = None,
    ) -> None:
        super().__init__(str(plan.subscription), schema, dead_letter, is_bounded=plan.is_bounded)
        self._settings = settings
        self._plan = plan

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Begin a source."""
        return KafkaSourceBuilder()

    @property
    def places(self) -> tuple[TopicsPlace, ...]:
        return (kafka_place(self._settings),)

    @property
    def group(self) -> str | None:
        return self._settings.properties.get("group.id")

    @property
    def datasets(self) -> tuple[LineageDataset, ...]:
        return topic_datasets(kafka_namespace(self._settings.servers), self._plan.subscription.names)

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        check_library()
        from headrace.connectors.kafka.partitioned_log import KafkaPartitionedLog

        return PartitionEnumerator(KafkaPartitionedLog(self._settings), self._plan, context.state)

    def create_reader(self) -> SourceReader:
        return KafkaReader(self._settings, self._schema, reject=self.dead_letter is not None)

    def __repr__(self) -> str:
        return f"KafkaSource({self._plan.subscription} at {self._settings.servers})"


class KafkaSourceBuilder(KafkaClusterBuilder, TopicSourceBuilder, Generic[T_co]):
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
    _kind = SOURCE

    def build(self) -> KafkaSource[T_co]:
        """The source; nothing is connected to yet.

        Raises:
            ConfigurationError: when a setting is missing or malformed.
            InvalidProgramError: when topics or the schema are missing.
        """
        self._check_servers()
        properties = dict(self._properties)
        plan = self._reading_plan(properties)
        check_known(properties)
        self._check_schema()
        return KafkaSource(ClientSettings(properties), plan, **self._given)
