"""The end of a stream: hands records to the sink's writer, and its committables to the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import CheckpointError, CommitRefusedError, InfrastructureError, StateError
from headrace.connectors.sink import WriterEpoch, as_in_a_checkpoint
from headrace.operators.base import Operator
from headrace.operators.user_code import NO_RECORD, UserCodeGuard, record_text

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.connectors.sink import Sink, SinkWriter, WriterContext
    from headrace.operators.base import EpochScope

_NOT_OF_THE_RECORDS: Final = (InfrastructureError, CheckpointError, CommitRefusedError, StateError, OSError)
"""All else that a writer raises comes from records that do not fit, or from an encoder, say, of the user."""


class SinkOperator(Operator):
    """Writes to a sink; the writer is made when there is the first record, and told of epochs that have some.

    Args:
        sink: the sink.
        writer_context: what the writer is made with.

    Attributes:
        committables: what is to be committed of the epoch.
    """

    def __init__(self, sink: Sink, writer_context: WriterContext) -> None:
        super().__init__()
        self._sink = sink
        self._writer_context = writer_context
        self._writer: SinkWriter | None = None
        self._is_writing = False
        self.committables: list[Any] = []

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._epoch = WriterEpoch(scope.epoch, scope.processing_time)
        self.committables = []

    def process(self, input_index: int, batch: Batch) -> None:
        with self._calling_writer(_OneOf(batch)):
            self._writer_of_epoch().write(batch)

    def _writer_of_epoch(self) -> SinkWriter:
        if self._writer is None:
            self._writer = self._sink.create_writer(self._writer_context)
        if not self._is_writing:
            self._is_writing = True
            self._writer.begin_epoch(self._epoch)
        return self._writer

    def advance_watermark(self, watermark: int) -> None:
        """Nothing follows a sink."""

    def end_epoch(self) -> None:
        if self._is_writing:
            assert self._writer is not None
            with self._calling_writer():
                committables = self._writer.prepare_commit()
                self.committables = as_in_a_checkpoint(committables) if self._sink.is_durable else list(committables)
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

    def _calling_writer(self, record: Any = NO_RECORD) -> UserCodeGuard:
        return UserCodeGuard(self.context, record, _NOT_OF_THE_RECORDS)


class _OneOf:
    """Stands in messages for the record that failed; which one it was only the writer could tell."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __repr__(self) -> str:
        first = record_text(self._batch.rows[0])
        return first if len(self._batch) == 1 else f"one of {len(self._batch)}, the first is {first}"
