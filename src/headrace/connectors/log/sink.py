"""``LogSink``: records into topics of the embedded log, each exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.arguments import expect, refused
from headrace.common.output_tag import OutputTag
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.common.type_variables import T_contra
from headrace.connectors.log.committer import LogCommitter, refuse_other_times
from headrace.connectors.log.writer import PublishingWriter, StagingWriter
from headrace.connectors.outgoing_messages import MessageSerializationSchema
from headrace.connectors.sink import DeliveryGuarantee, Sink
from headrace.log.log import Log

if TYPE_CHECKING:
    import os
    from typing import Self

    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.sink import Committer, CommitterContext, SinkWriter, WriterContext


@hides_engine_of_methods
class LogSink(Sink[T_contra]):
    """Writes records into topics of an embedded log.

    With ``EXACTLY_ONCE``, the default, what an epoch has written becomes visible in one commit of the log, all topics
    and partitions together, after the checkpoint of the epoch. With ``AT_LEAST_ONCE`` each task commits what it wrote
    before the checkpoint: records are seen earlier, and again after a failure. The event time of a record is its
    timestamp; where it has none, the time of its epoch is.

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
        self._location = location
        self._schema = schema
        self._guarantee = guarantee
        self._dead_letter = dead_letter

    @staticmethod
    def builder() -> LogSinkBuilder:
        """Begin a sink."""
        return LogSinkBuilder()

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return self._guarantee

    @property
    def dead_letter(self) -> OutputTag | None:
        return self._dead_letter

    @property
    def _stages(self) -> bool:
        return self._guarantee is DeliveryGuarantee.EXACTLY_ONCE

    def validate(self, input_type: TypeInformation) -> None:
        self._schema.validate(input_type)

    def takes_changes(self, input_type: TypeInformation) -> bool:
        return self._schema.takes_changes or super().takes_changes(input_type)

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


@hides_engine_of_methods
class LogSinkBuilder:
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

    def __init__(self) -> None:
        self._location: str | None = None
        self._schema: MessageSerializationSchema | None = None
        self._guarantee = DeliveryGuarantee.EXACTLY_ONCE
        self._dead_letter: OutputTag | None = None

    def set_log(self, location: str | os.PathLike[str]) -> Self:
        """Say where the log is: a path, or the URI of a folder on an object store or HDFS."""
        self._location = str(location)
        return self

    def set_record_serializer(self, record_serializer: MessageSerializationSchema) -> Self:
        """Say what messages are made of records."""
        expect(record_serializer, MessageSerializationSchema, "set_record_serializer")
        self._schema = record_serializer
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Say how often a record arrives, failures or not."""
        expect(delivery_guarantee, DeliveryGuarantee, "set_delivery_guarantee")
        self._guarantee = delivery_guarantee
        return self

    def set_dead_letter(self, output_tag: OutputTag) -> Self:
        """Send what the serializer fails on to a side output of the sink, as ``(where, raw, reason)``, and go on.

        So goes a record that is for a topic that there is not. Else such a record fails the job. The stream of them is
        ``stream.sink_to(sink).get_side_output(output_tag)``.
        """
        expect(output_tag, OutputTag, "set_dead_letter")
        self._dead_letter = output_tag
        return self

    def build(self) -> LogSink[Any]:
        """The sink.

        Raises:
            InvalidProgramError: when something is missing.
        """
        if self._location is None:
            raise refused("a LogSink needs a log: call set_log() with its path")
        if self._schema is None:
            raise refused("a LogSink needs topics and formats: call set_record_serializer()")
        return LogSink(self._location, self._schema, self._guarantee, self._dead_letter)
