"""``LogSink``: records into topics of the embedded log, each exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.arguments import refused
from headrace.common.type_variables import T_contra
from headrace.connectors.log.committer import LogCommitter, refuse_other_times
from headrace.connectors.log.location import location_of
from headrace.connectors.log.writer import PublishingWriter, StagingWriter
from headrace.connectors.partitions.topic_sink import TopicSink, TopicSinkBuilder
from headrace.connectors.sink import DeliveryGuarantee
from headrace.log.log import Log

if TYPE_CHECKING:
    import os
    from typing import Self

    from headrace.common.output_tag import OutputTag
    from headrace.connectors.outgoing_messages import MessageSerializationSchema
    from headrace.connectors.sink import Committer, CommitterContext, SinkWriter, WriterContext


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
    def builder() -> LogSinkBuilder:
        """Begin a sink."""
        return LogSinkBuilder()

    @property
    def _stages(self) -> bool:
        return self._guarantee is DeliveryGuarantee.EXACTLY_ONCE

    def create_writer(self, context: WriterContext) -> SinkWriter:
        log = Log.open(self._location, options=context.storage_options)
        return (StagingWriter if self._stages else PublishingWriter)(log, self._schema, context)

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


class LogSinkBuilder(TopicSinkBuilder):
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

    def __init__(self) -> None:
        super().__init__()
        self._location: str | None = None

    def set_log(self, location: str | os.PathLike[str]) -> Self:
        """Say where the log is: a path, or the URI of a folder on an object store or HDFS.

        Raises:
            InvalidTypeError: when it is neither.
            InvalidProgramError: when it is empty.
        """
        self._location = location_of(location)
        return self

    def build(self) -> LogSink[Any]:
        """The sink.

        Raises:
            InvalidProgramError: when something is missing.
        """
        if self._location is None:
            raise refused("a LogSink needs a log: call set_log() with its path")
        return LogSink(self._location, self._needed_schema(), self._guarantee, self._dead_letter)
