"""The tasks' half of a Kafka source: reads ranges of offsets, column by column."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.common.constants import NO_TIMESTAMP
from headrace.common.topic_partition import TopicPartition
from headrace.connectors.incoming_messages import METADATA, MessageDecoder, Messages
from headrace.connectors.kafka.clients.client import check_library
from headrace.connectors.kafka.partition_consumer import PartitionConsumer
from headrace.connectors.kept_clients import KeptClients
from headrace.connectors.source import SourceReader

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    import numpy.typing as npt
    from confluent_kafka import Message

    from headrace.connectors.incoming_messages import MessageDeserializationSchema
    from headrace.connectors.kafka.clients.client import ClientSettings
    from headrace.connectors.source import Json, ReaderContext, SourceRecords

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
        place: what people are told before the name of a topic.
    """

    def __init__(
        self, settings: ClientSettings, schema: MessageDeserializationSchema, *, reject: bool, place: str = ""
    ) -> None:
        self._settings = settings
        self._place = place
        self._decoder = MessageDecoder(schema, reject=reject)
        self._wants_keys = schema.key is not None
        self._metadata = {name: _COLUMNS[name] for name in schema.metadata.values() if name in _COLUMNS}
        self._consumers: OrderedDict[str, PartitionConsumer] = OrderedDict()
        self._clients = KeptClients()

    def open(self, context: ReaderContext) -> None:
        self._clients = context.clients

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        split_id, start, end = piece
        fetched: list[Messages] = []
        records = size = 0
        for messages in self._consumer(split_id).read(start, end):
            # As columns at once: the memory of these messages serves for the next ones, and is still in the cache
            fetched.append(self._columns(TopicPartition.parse(split_id), messages))
            records += len(messages)
            size += fetched[-1].values.nbytes
            if records >= _BATCH_RECORDS or size >= _BATCH_BYTES:
                yield self._decoder.decode(_together(fetched))
                fetched, records, size = [], 0, 0
        if fetched:
            yield self._decoder.decode(_together(fetched))

    def let_go(self, split_id: str) -> None:
        """A partition is not read any more: let go of its connections."""
        consumer = self._consumers.pop(split_id, None) or self._clients.take(self._key(split_id), PartitionConsumer)
        if consumer is not None:
            consumer.close()

    def close(self) -> None:
        for split_id, consumer in self._consumers.items():
            consumer.rest()
            self._clients.keep(self._key(split_id), consumer)
        self._consumers.clear()

    def _consumer(self, split_id: str) -> PartitionConsumer:
        """The consumer of a partition; the one that was not asked for longest makes room."""
        if split_id not in self._consumers:
            check_library()
            if len(self._consumers) == _MOST_CONSUMERS:
                self._consumers.popitem(last=False)[1].close()
            kept = self._clients.take(self._key(split_id), PartitionConsumer)
            self._consumers[split_id] = kept or PartitionConsumer(self._settings, TopicPartition.parse(split_id))
        self._consumers.move_to_end(split_id)
        return self._consumers[split_id]

    def _key(self, split_id: str) -> tuple[Hashable, ...]:
        return split_id, self._settings.key

    def _columns(self, partition: TopicPartition, messages: list[Message]) -> Messages:
        kind = type(messages[0])
        return Messages(
            partition.topic,
            partition.partition,
            _offsets(messages),
            pa.array(list(map(kind.value, messages)), pa.binary()),
            pa.array(list(map(kind.key, messages)), pa.binary()) if self._wants_keys else None,
            _timestamps(messages),
            {name: column(messages) for name, column in self._metadata.items()},
            self._place,
        )


def _together(fetched: list[Messages]) -> Messages:
    """Consecutive messages as one."""
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
    """The headers, of each name the last one."""
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
"""Metadata that is read where somebody asks for it."""
