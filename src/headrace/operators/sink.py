"""The end of a stream: hands records to the sink's writer, and its committables to the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.errors import HeadraceError
from headrace.operators.base import EpochScope, Operator
from headrace.operators.user_code import user_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.batch import Batch
    from headrace.connectors.sink import Sink, SinkWriter, WriterContext


class SinkOperator(Operator):
    """Writes to a sink; the writer is made when the epoch has its first record.

    Args:
        sink: the sink.
        writer_context: makes the writer's context for an epoch.
    """

    def __init__(self, sink: Sink, writer_context: Callable[[EpochScope], WriterContext]) -> None:
        super().__init__()
        self._sink = sink
        self._writer_context = writer_context
        self._writer: SinkWriter | None = None
        self.committables: list[Any] = []

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._scope = scope
        self._writer = None
        self.committables = []

    def process(self, input_index: int, batch: Batch) -> None:
        if self._writer is None:
            self._writer = self._sink.create_writer(self._writer_context(self._scope))
        try:
            self._writer.write(batch)
        except (HeadraceError, OSError):
            raise
        except Exception as error:  # an encoder or a bucket assigner of the user
            raise user_error(error, self.context, batch.rows[0]) from error

    def advance_watermark(self, watermark: int) -> None:
        """Nothing follows a sink."""

    def end_epoch(self) -> None:
        if self._writer is not None:
            self.committables = list(self._writer.prepare_commit())
            self._writer = None

    def abort(self) -> None:
        """The epoch failed in this task."""
        if self._writer is not None:
            self._writer.abort()
            self._writer = None
