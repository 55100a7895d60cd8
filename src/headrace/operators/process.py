"""``ProcessFunction`` on a stream without keys: any number of records for each record, side outputs, no timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.constants import MIN_WATERMARK, NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError
from headrace.operators.base import EpochScope, Operator, OperatorContext, Output
from headrace.operators.collector import ElementCollector
from headrace.operators.functions import close_function, method_of, open_function
from headrace.operators.runtime_context import RuntimeContext
from headrace.operators.user_code import calling_user_code, user_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation


class ReadOnlyTimerService:
    """Tells the time; a stream without keys has no timers."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.watermark = MIN_WATERMARK
        self.processing_time = 0

    def current_watermark(self) -> int:
        """The event time that the operator has reached, in milliseconds."""
        return self.watermark

    def current_processing_time(self) -> int:
        """The clock's reading for this epoch, in milliseconds."""
        return self.processing_time

    def register_event_time_timer(self, timestamp: int) -> None:
        """Always refused.

        Raises:
            InvalidProgramError: timers belong to keys.
        """
        raise self._no_timers("register_event_time_timer")

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Always refused; see :meth:`register_event_time_timer`."""
        raise self._no_timers("register_processing_time_timer")

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Always refused; see :meth:`register_event_time_timer`."""
        raise self._no_timers("delete_event_time_timer")

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Always refused; see :meth:`register_event_time_timer`."""
        raise self._no_timers("delete_processing_time_timer")

    def _no_timers(self, method: str) -> InvalidProgramError:
        return InvalidProgramError(
            f"{method} in {self._name!r}: timers exist only on a keyed stream; call key_by(...) first and use a "
            "KeyedProcessFunction"
        )


class ProcessContext:
    """What ``process_element`` learns about the record at hand."""

    def __init__(self, timer_service: ReadOnlyTimerService) -> None:
        self._timer_service = timer_service
        self._timestamp = NO_TIMESTAMP

    def timestamp(self) -> int | None:
        """The record's event time in milliseconds; None when it has none."""
        return None if self._timestamp == NO_TIMESTAMP else self._timestamp

    def timer_service(self) -> ReadOnlyTimerService:
        """Tells the time."""
        return self._timer_service


class ProcessOperator(Operator):
    """Calls ``process_element`` for each record.

    Args:
        function: a ``ProcessFunction``.
        output_type: the type of what it yields.
        side_types: the types of the side outputs that are read, by tag id.
    """

    def __init__(self, function: Any, output_type: TypeInformation, side_types: Mapping[str, TypeInformation]) -> None:
        super().__init__()
        self._function = function
        self._process = method_of(function, "process_element")
        self._collector = ElementCollector(output_type, side_types)

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        self._timers = ReadOnlyTimerService(context.name)
        self._context = ProcessContext(self._timers)
        with calling_user_code(context):
            open_function(self._function, RuntimeContext(context))

    def close(self) -> None:
        with calling_user_code(self.context):
            close_function(self._function)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._timers.processing_time = scope.processing_time
        self._timers.watermark = scope.watermark

    def begin_channel(self, watermark: int) -> None:
        self._timers.watermark = watermark

    def process(self, input_index: int, batch: Batch) -> None:
        context, timers, collector = self._context, self._timers, self._collector
        timestamps, watermarks = batch.timestamps.tolist(), batch.watermarks.tolist()
        row = None
        try:
            for element, (row, timestamp, watermark) in enumerate(zip(batch.rows, timestamps, watermarks, strict=True)):
                context._timestamp = timestamp
                timers.watermark = watermark
                collector.collect(self._process(row, context), element)
        except BaseException as error:
            raise user_error(error, self.context, row) from error
        collector.flush(batch, self.output)

    def advance_watermark(self, watermark: int) -> None:
        self._timers.watermark = watermark
        super().advance_watermark(watermark)
