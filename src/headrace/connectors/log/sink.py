"""``LogSink``: records into topics of the embedded log, each exactly once; its writers, its committer, its marker."""

import json
import re
import uuid
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.errors import (
    CheckpointError,
    CommitRefusedError,
    InfrastructureError,
    LogError,
    ProducerFencedError,
)
from headrace.common.json_values import from_json, to_json
from headrace.common.messages import TopicPartition
from headrace.common.output_tag import OutputTag
from headrace.common.type_variables import T_contra
from headrace.connectors.datasets import LineageDataset, log_datasets
from headrace.connectors.log.source import LogBuilder
from headrace.connectors.log.topic_monitor import log_place
from headrace.connectors.messages import MessageSerializationSchema, OutgoingMessages, encode_messages
from headrace.connectors.sink import (
    Committer,
    CommitterContext,
    DeliveryGuarantee,
    Json,
    SinkWriter,
    WriterContext,
    WriterEpoch,
)
from headrace.connectors.topic_builders import TopicSink, TopicSinkBuilder
from headrace.connectors.topic_state import TopicsPlace
from headrace.log.accumulator import DefaultPartitioner, ProducerBatch, merged
from headrace.log.commits import ANONYMOUS, Author, LogState, ProducerState
from headrace.log.journal import StagedFor, tag_of
from headrace.log.log import Log
from headrace.log.records import normalised
from headrace.log.transactions import ABANDONED, Staged, discard, publish, stage

_MARKER: Final = "published.json"
"""The marker of a sink, in its folder of the checkpoint directory: which epoch it has published, and to which log."""


_PRODUCER: Final = re.compile("headrace-([0-9a-f]{32})-(.+)")


class LogCommitter(Committer):
    """Makes what an epoch has written visible in one commit, whose author says the job, its generation and the epoch.

    Args:
        log: the log.
        context: the job.

    Raises:
        CheckpointError: when the log is an older copy, or what waited there was abandoned.
        InfrastructureError: when a younger job manager has taken over.
    """

    def __init__(self, log: Log, context: CommitterContext) -> None:
        self._journal = log.journal
        self._producer = producer_of(context.job_id, context.operator_id)
        self._context = context
        self._take_over()

    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        staged = [from_json(Staged, each) for each in committables]
        try:
            publish(self._journal, Author(self._producer, self._context.generation, epoch), staged)
        except ProducerFencedError as error:
            raise InfrastructureError(str(error)) from error
        except LogError as error:
            raise CommitRefusedError(f"{self._journal} does not take the output of epoch {epoch}: {error}") from error
        folder = self._context.folder
        if folder is not None:
            folder.make()
            document = {"producer": self._producer, "log": str(self._journal), "epoch": epoch}
            folder.write(_MARKER, (json.dumps(document).encode(),))

    def finish(self) -> None:
        if self._context.folder is not None:
            self._context.folder.remove(_MARKER)

    def _take_over(self) -> None:
        """Fence older generations of the job; what they have committed stays known."""

        def my_generation(state: LogState) -> Author:
            known = state.producers.get(self._producer)
            _check_known(known, str(self._journal), self._context)
            if known is not None and known.epoch > self._context.generation:
                raise InfrastructureError(
                    f"a younger job manager writes to {self._journal} (generation {known.epoch}, this one is "
                    f"{self._context.generation}): this one has to stop"
                )
            return Author(self._producer, self._context.generation, 0 if known is None else known.sequence)

        self._journal.commit(my_generation)


def producer_of(job_id: str, operator_id: str) -> str:
    """The id under which a sink of a job commits."""
    return f"headrace-{job_id}-{operator_id}"


def job_and_sink(producer: str) -> tuple[str, str] | None:
    """The job and the uid of the sink that commit under an id; None where it is a program's own."""
    found = _PRODUCER.fullmatch(producer)
    return (found[1], found[2]) if found else None


def refuse_other_times(log: Log, context: CommitterContext) -> None:
    """Refuse a checkpoint that is older than the output, and a log that is older than the checkpoint.

    Raises:
        CheckpointError: naming the epochs of both; or when what waited in the log was abandoned.
    """
    with log.journal.lock:
        log.journal.refresh()
        known = log.journal.state().producers.get(producer_of(context.job_id, context.operator_id))
    _check_known(known, str(log), context)
    if known is not None and known.sequence > context.restored_epoch:
        raise CheckpointError(
            f"the checkpoint directory is at epoch {context.restored_epoch}, but {log} holds output of this job up to "
            f"epoch {known.sequence}: the directory is an old copy, or newer checkpoints were removed, and going on "
            "would write that output again. Put the newest checkpoint directory back; or start a new job, with a "
            "checkpoint directory of its own"
        )


def _check_known(known: ProducerState | None, log: str, context: CommitterContext) -> None:
    """Check that a log takes the output of a sink, and is as new as the sink's marker.

    Args:
        known: what the log knows of the sink.
        log: what users call it.
        context: of the sink; outside of a job there is no marker.

    Raises:
        CheckpointError: when the output was abandoned, or the log is not.
        OSError: when the marker cannot be read.
    """
    if known is not None and known.epoch == ABANDONED:
        raise CheckpointError(
            f"{log} takes no output of this job any more: what waited there for a commit was abandoned, with `headrace "
            "log abandon`, and is lost. Start a new job, with a checkpoint directory of its own"
        )
    if context.folder is None:
        return
    try:
        document = json.loads(context.folder.read(_MARKER))
    except FileNotFoundError:
        return
    if document["producer"] != producer_of(context.job_id, context.operator_id):
        return
    if known is None or known.sequence < document["epoch"]:
        has = f"is at epoch {known.sequence} of this job" if known is not None else "knows nothing of this job"
        raise CheckpointError(
            f"{log} {has}, but its output up to epoch {document['epoch']} was published to {document['log']}, as "
            f"{context.folder.locate(_MARKER)} says: an older copy of the log, or another log, has taken its place. "
            "Put the newest copy back; or, to go on without the output that is lost, remove that file"
        )


_STAGED_TOGETHER: Final = 64 << 20
"""A file is written when there are so many bytes, even if the epoch has more."""


class LogWriter(SinkWriter):
    """Writes records into files of the log that are not visible before they are committed.

    Args:
        log: the log.
        schema: what messages are made of.
        context: which of the writers it is.
        commits: whether it commits those of an epoch itself, before the checkpoint; otherwise a committer does.
    """

    def __init__(self, log: Log, schema: MessageSerializationSchema, context: WriterContext, *, commits: bool) -> None:
        self._journal = log.journal
        self._schema = schema
        self._reject = context.reject
        self._subtask = context.subtask
        self._producer = producer_of(context.job_id, context.operator_id)
        self._epoch = 0
        self._partitioner = DefaultPartitioner(context.subtask)
        self._now = 0
        self._pieces: list[tuple[TopicPartition, pa.RecordBatch]] = []
        self._bytes = 0
        self._staged: list[Staged] = []
        self._author = Author(f"{ANONYMOUS}{uuid.uuid4().hex}") if commits else None

    def begin_epoch(self, epoch: WriterEpoch) -> None:
        self._now, self._epoch = epoch.processing_time, epoch.number
        self._partitioner = DefaultPartitioner(self._subtask + epoch.number)  # the same when the epoch is run again
        self._journal.refresh()

    def write(self, batch: Batch) -> None:
        for messages in encode_messages(self._schema, self._reject, self._check_topic, self._partitions, batch):
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
        if self._author is not None and self._staged:
            self._author = self._author._replace(sequence=self._author.sequence + 1)
            publish(self._journal, self._author, self._staged)
            self._staged = []
        staged, self._staged = self._staged, []
        return [to_json(each) for each in staged]

    def abort(self) -> None:
        discard(self._journal, self._staged)
        self._pieces, self._bytes, self._staged = [], 0, []

    def _stage(self) -> None:
        if self._pieces:
            # A later generation of the job may commit the epoch. What the writer commits itself no one else does:
            # where that fails, the epoch is run again.
            staged_for = StagedFor(tag_of(self._producer), None, self._epoch) if self._author is None else None
            self._staged += stage(self._journal, merged(self._pieces), staged_for)
        self._pieces, self._bytes = [], 0

    def _check_topic(self, messages: OutgoingMessages) -> None:
        """Check that a topic is there: if a record names one that is not, the record is to blame."""
        self._partitions(messages.topic)

    def _partitions(self, topic: str) -> int:
        with self._journal.lock:
            return len(self._journal.state().topic(topic).partitions)


class LogSink(TopicSink[T_contra]):
    """Writes records into topics of an embedded log.

    With ``EXACTLY_ONCE``, the default, what an epoch has written becomes visible in one commit of the log, all topics
    and partitions together, after the checkpoint of the epoch. With ``AT_LEAST_ONCE`` each task commits what it wrote
    before the checkpoint: records are seen earlier, and again after a failure. The event time of a record is its
    timestamp; where it has none, the time of its epoch is. A record for a topic that there is not cannot be written.

    Records that wait for their commit are files in the log, which keeps them until their epoch, or a later one, is
    committed: a job that was stopped before that may go on whenever it likes. That an older copy of the log has taken
    its place is noticed when a job goes on, and stops it.

    Examples:
        >>> from headrace.common import SimpleStringSchema
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors.base import MessageSerializationSchema
        >>> from headrace.datastream.connectors.log import LogSink
        >>> from headrace.log import Consumer, Log
        >>> Log.open("shop.log", create=True).create_topic("orders")
        >>> schema = MessageSerializationSchema("orders", SimpleStringSchema())
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> sink = LogSink.builder().set_log("shop.log").set_record_serializer(schema).build()
        >>> _ = env.from_collection(["tea", "cake"]).sink_to(sink)
        >>> _ = env.execute("orders")
        >>> consumer = Consumer("shop.log", auto_offset_reset="earliest")
        >>> consumer.subscribe(["orders"])
        >>> [record.value for record in consumer.poll(1)]
        [b'tea', b'cake']
    """

    def __init__(
        self,
        location: str,
        schema: MessageSerializationSchema,
        guarantee: DeliveryGuarantee,
        dead_letter: OutputTag | None = None,
    ) -> None:
        super().__init__(schema, guarantee, dead_letter)
        self._location = location

    @staticmethod
    def builder() -> "LogSinkBuilder":
        """Begin a sink."""
        return LogSinkBuilder()

    @property
    def places(self) -> tuple[TopicsPlace, ...]:
        return (log_place(self._location),)

    @property
    def datasets(self) -> tuple[LineageDataset, ...]:
        topics = (self._schema.topic,) if isinstance(self._schema.topic, str) else ()
        return log_datasets(self._location, topics)

    @property
    def _stages(self) -> bool:
        return self.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE

    def create_writer(self, context: WriterContext) -> SinkWriter:
        log = Log.open(self._location, options=context.storage_options)
        return LogWriter(log, self._schema.of_subtask(context.subtask), context, commits=not self._stages)

    def create_committer(self, context: CommitterContext) -> Committer | None:
        return LogCommitter(self._open(context), context) if self._stages else None

    def check_output(self, context: CommitterContext) -> None:
        log = self._open(context)
        if isinstance(self._schema.topic, str):
            log.partitions_of(self._schema.topic)  # an error at the start, if there is no such topic
        if self._stages:
            refuse_other_times(log, context)

    def _open(self, context: CommitterContext) -> Log:
        return Log.open(self._location, options=context.storage_options)

    def __repr__(self) -> str:
        return f"LogSink({self._location!r})"


class LogSinkBuilder(LogBuilder, TopicSinkBuilder):
    """Puts a :class:`LogSink` together.

    Examples:
        >>> from headrace.common import SimpleStringSchema
        >>> from headrace.datastream.connectors.base import DeliveryGuarantee, MessageSerializationSchema
        >>> from headrace.datastream.connectors.log import LogSink
        >>> sink = (
        ...     LogSink.builder()
        ...     .set_log("shop.log")
        ...     .set_record_serializer(MessageSerializationSchema("orders", SimpleStringSchema()))
        ...     .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        ...     .build()
        ... )
    """

    _name = "LogSink"
    _usual_guarantee = DeliveryGuarantee.EXACTLY_ONCE

    def build(self) -> LogSink:
        """The sink.

        Raises:
            InvalidProgramError: when something is missing.
        """
        self._check_location()
        self._needed_schema()
        return LogSink(**self._given)
