"""The tasks' half of a log sink: records become files of the log that nobody sees yet."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.connectors.log.committer import producer_of
from headrace.connectors.outgoing_messages import MessageEncoder
from headrace.connectors.sink import SinkWriter
from headrace.log.accumulator import Partitioner, ProducerBatch, merged
from headrace.log.commits import Author
from headrace.log.records import normalised
from headrace.log.staging import discard, publish, stage
from headrace.log.state import ANONYMOUS
from headrace.log.store import StagedFor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.batch import Batch
    from headrace.common.topic_partition import TopicPartition
    from headrace.connectors.outgoing_messages import MessageSerializationSchema, OutgoingMessages
    from headrace.connectors.sink import Json, WriterContext, WriterEpoch
    from headrace.log.log import Log
    from headrace.log.staging import Staged

_STAGED_TOGETHER: Final = 64 << 20
"""With so many bytes a file is written, even if the epoch has more."""


class StagingWriter(SinkWriter):
    """Writes records into files of the log that nobody sees before they are committed.

    Args:
        log: the log.
        schema: what messages are made of.
        context: which of the writers it is.
    """

    def __init__(self, log: Log, schema: MessageSerializationSchema, context: WriterContext) -> None:
        self._journal = log.journal
        self._encoder = MessageEncoder(schema, context.reject, self._check_topic, self._partitions)
        self._subtask = context.subtask
        self._producer = producer_of(context.job_id, context.operator_id)
        self._epoch = 0
        self._partitioner = Partitioner(context.subtask)
        self._now = 0
        self._pieces: list[tuple[TopicPartition, pa.RecordBatch]] = []
        self._bytes = 0
        self._staged: list[Staged] = []

    def begin_epoch(self, epoch: WriterEpoch) -> None:
        self._now, self._epoch = epoch.processing_time, epoch.number
        self._partitioner = Partitioner(self._subtask + epoch.number)  # the same when the epoch is run again
        self._journal.refresh()

    def write(self, batch: Batch) -> None:
        for messages in self._encoder.encode(batch):
            columns = {"value": messages.values, "timestamp": pa.array(messages.timestamps_or(self._now))}
            if messages.keys is not None:
                columns["key"] = messages.keys
            if messages.headers is not None:
                columns["headers"] = messages.headers
            records = normalised(pa.record_batch(columns), self._now)
            sent = ProducerBatch(messages.topic, records, messages.partitions)
            self._pieces += sent.pieces(self._partitions(messages.topic), self._partitioner)
            self._bytes += messages.size
        if self._bytes >= _STAGED_TOGETHER:
            self._stage()

    def prepare_commit(self) -> Sequence[Json]:
        self._stage()
        staged, self._staged = self._staged, []
        return [each.to_json() for each in staged]

    def abort(self) -> None:
        discard(self._journal, self._staged)
        self._pieces, self._bytes, self._staged = [], 0, []

    def _stage(self) -> None:
        if self._pieces:
            self._staged += stage(self._journal, merged(self._pieces), self._staged_for())
        self._pieces, self._bytes = [], 0

    def _staged_for(self) -> StagedFor | None:
        """The commit of the epoch; a later generation of the job may do it."""
        return StagedFor(self._producer, None, self._epoch)

    def _check_topic(self, messages: OutgoingMessages) -> None:
        """See whether a topic is there: one that a record names, and that is not, is the fault of the record."""
        self._partitions(messages.topic)

    def _partitions(self, topic: str) -> int:
        with self._journal.lock:
            return len(self._journal.state().topic(topic).partitions)


class PublishingWriter(StagingWriter):
    """Writes records, and commits those of an epoch before its checkpoint.

    Args:
        log: the log.
        schema: what messages are made of.
        context: which of the writers it is.
    """

    def __init__(self, log: Log, schema: MessageSerializationSchema, context: WriterContext) -> None:
        super().__init__(log, schema, context)
        self._author = Author(f"{ANONYMOUS}{uuid.uuid4().hex}")

    def prepare_commit(self) -> Sequence[Json]:
        self._stage()
        if self._staged:
            self._author = Author(self._author.producer, 0, self._author.sequence + 1)
            publish(self._journal, self._author, self._staged)
            self._staged = []
        return ()

    def _staged_for(self) -> None:
        """Of no commit but the next one: where that fails, the epoch is run again."""
