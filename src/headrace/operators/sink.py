"""The end of a stream: hands records to the sink's writer, and its committables to the task."""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from headrace.common.batch import Batch
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.sink import (
    NOT_OF_THE_RECORDS,
    Sink,
    SinkWriter,
    StatefulSinkWriter,
    SupportsWriterState,
    WriterContext,
    WriterEpoch,
    as_json,
    writer_state_type,
)
from headrace.connectors.sink_checks import checked_list, checked_time, checked_writer
from headrace.metrics.registry import SEND_ERRORS
from headrace.operators.base import EpochScope, Operator, OperatorContext, Output
from headrace.operators.user_code import NO_RECORD, UserCodeGuard, record_text, text_of
from headrace.state.descriptors import ListStateDescriptor
from headrace.state.interfaces import ListState

_WRITER_STATE: Final = "writer-state"


class SinkOperator(Operator):
    """Writes to a sink.

    The writer is made when there is the first record, and called in epochs that have some; one that has state or takes
    watermarks is made at once, and takes part in every epoch.

    Args:
        sink: the sink.
        writer_context: what the writer is made with.
        dead_letter: the side output for records that cannot be written, by its id, and its type; None where the sink
            has none.

    Attributes:
        committables: what is to be committed of the epoch.
    """

    def __init__(
        self, sink: Sink, writer_context: WriterContext, dead_letter: tuple[str, TypeInformation] | None = None
    ) -> None:
        super().__init__()
        self._sink = sink
        self._dead_letter = dead_letter
        self._rejected: list[tuple[str, str, str]] | None = None
        self._writer_context = writer_context
        if dead_letter is not None:
            self._writer_context = replace(writer_context, reject=self._reject)
        self._state: ListState | None = None
        self._state_type = writer_state_type(sink)
        self._takes_watermarks = sink.takes_watermarks
        self._writer: SinkWriter | None = None
        self._is_writing = False
        self._has_input_ended = False
        self.committables: list[Any] = []

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        self.restore_state(context)

    def restore_state(self, context: OperatorContext) -> None:
        if self._state_type is not None:
            descriptor = ListStateDescriptor(_WRITER_STATE, self._state_type)
            descriptor.keep_for_operator("the state of the writers", context.renamed_fields)
            self._state = context.state.operator_state_store.list_state(descriptor)

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._watermark = scope.watermark
        self._epoch = WriterEpoch(scope.epoch, scope.processing_time, scope.watermark)
        self.committables = []
        if self._state is not None or self._takes_watermarks:
            with self._calling_writer():
                self._writer_of_epoch()

    def process(self, input_index: int, batch: Batch) -> None:
        self._rejected = []
        with self._calling_writer(_OneOf(batch)):
            self._writer_of_epoch().write(batch)
        rejected, self._rejected = self._rejected, None
        if rejected and self._dead_letter is not None:
            tag_id, type_ = self._dead_letter
            times = np.full(len(rejected), NO_TIMESTAMP, dtype=np.int64)
            self.count(SEND_ERRORS, len(rejected))
            self.output.emit_side(tag_id, Batch(type_, times, times, rows=rejected))
        if self._takes_watermarks:
            self._tell_watermark(batch.last_watermark)

    def advance_watermark(self, watermark: int) -> None:
        if self._takes_watermarks:
            self._tell_watermark(watermark)
        super().advance_watermark(watermark)

    def wake_up_time(self) -> int | None:
        if not isinstance(self._writer, StatefulSinkWriter):
            return None
        with self._calling_writer():
            return checked_time(self._writer, "wake_up_time", self._writer.wake_up_time())

    def finish(self) -> None:
        self._has_input_ended = True

    def end_epoch(self) -> None:
        if self._is_writing:
            assert self._writer is not None
            with self._calling_writer():
                self._writer.flush(self._has_input_ended)
                given = checked_list(self._writer, "prepare_commit", self._writer.prepare_commit(), "JSON values")
                self.committables = list(map(as_json, given)) if self._sink.is_durable else given
                if self._state is not None and isinstance(self._writer, StatefulSinkWriter):
                    elements = self._writer.snapshot_state(self._epoch.number)
                    self._state.update(checked_list(self._writer, "snapshot_state", elements, "elements of the state"))
            self._is_writing = False

    def abort(self) -> None:
        """The epoch failed in this task."""
        if self._is_writing:
            assert self._writer is not None
            self._is_writing = False
            with self._calling_writer():
                self._writer.abort()

    def close(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with self._calling_writer():
                writer.close()

    def _writer_of_epoch(self) -> SinkWriter:
        if self._writer is None:
            kept, sink = None if self._state is None else list(self._state.get()), self._sink
            if kept and isinstance(sink, SupportsWriterState):
                restored = sink.restore_writer(self._writer_context, kept)
                self._writer = checked_writer(sink, "restore_writer", restored)
            else:
                self._writer = checked_writer(sink, "create_writer", sink.create_writer(self._writer_context))
        if not self._is_writing:
            self._is_writing = True
            self._writer.begin_epoch(self._epoch)
        return self._writer

    def _tell_watermark(self, watermark: int) -> None:
        if watermark > self._watermark:
            self._watermark = watermark
            with self._calling_writer():
                self._writer_of_epoch().write_watermark(watermark)

    def _reject(self, record: object, error: Exception) -> None:
        if self._rejected is None:
            raise InvalidProgramError(
                f"the writer of {type(self._sink).__name__} rejects a record when no batch is written: it has to "
                "encode records in write()"
            ) from error
        reason = f"{type(error).__name__}: {text_of(error)}"
        self._rejected.append((self.context.name, record_text(record), reason))

    def _calling_writer(self, record: object = NO_RECORD) -> UserCodeGuard:
        return UserCodeGuard(self.context, record, NOT_OF_THE_RECORDS)


@dataclass(frozen=True, slots=True, repr=False)
class _OneOf:
    """Stands in messages for the record that failed; which one it was only the writer could tell."""

    batch: Batch

    def __repr__(self) -> str:
        first = record_text(self.batch.rows[0])
        return first if len(self.batch) == 1 else f"one of {len(self.batch)}, the first is {first}"
