"""The tasks' half of a log source: reads ranges of offsets, which are columns already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.common.errors import OffsetOutOfRangeError, SourceChangedError, UnknownTopicError
from headrace.common.topic_partition import TopicPartition
from headrace.connectors.incoming_messages import METADATA, MessageDecoder, Messages
from headrace.connectors.partitions.partitioned_log import topic_made_again
from headrace.connectors.source import SourceReader
from headrace.log.log import Log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headrace.connectors.incoming_messages import MessageDeserializationSchema
    from headrace.connectors.source import Json, ReaderContext, SourceRecords

_HEADERS: Final = "headers"
_TIMESTAMP_TYPE: Final = "timestamp-type"

_CREATED: Final = "CreateTime"
"""What Kafka calls timestamps that are those of whoever sent the records."""


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
                fetched = self._log.fetch(partition, offset, end)
            except (OffsetOutOfRangeError, UnknownTopicError) as error:
                raise SourceChangedError(
                    f"{error}: records were deleted after they were found, and before they were read"
                ) from error
            for batch in fetched.batches:
                yield self._decoder.decode(self._messages(partition, batch))
            offset = fetched.next_offset

    def _check(self, log: Log, partition: TopicPartition, end: int) -> None:
        """See whether a partition is the one that it was, and has records up to an offset."""
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
    """Headers by their names; of those with one name, the last."""
    found = [{pair["key"]: pair["value"] for pair in pairs or ()} for pairs in batch.column("headers").to_pylist()]
    return pa.array([list(each.items()) for each in found], METADATA[_HEADERS].storage_type)


def _timestamp_types(batch: pa.RecordBatch) -> pa.Array:
    return pa.repeat(pa.scalar(_CREATED, METADATA[_TIMESTAMP_TYPE].storage_type), batch.num_rows)


_COLUMNS: Final[Mapping[str, Callable[[pa.RecordBatch], pa.Array]]] = {
    _HEADERS: _headers,
    _TIMESTAMP_TYPE: _timestamp_types,
}
"""Metadata that is read where somebody asks for it."""
