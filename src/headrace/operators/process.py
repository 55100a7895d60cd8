"""``ProcessFunction`` on a stream without keys: any number of records for each record, side outputs, no timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.constants import NO_TIMESTAMP
from headrace.common.other_names import names_explained
from headrace.operators.collector import ElementCollector
from headrace.operators.functions import OTHER_NAMES_OF_CONTEXTS, FunctionOperator, method_of
from headrace.operators.timer_service import ReadOnlyTimerService
from headrace.operators.user_code import user_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.base import EpochScope, OperatorContext, Output


@names_explained("ProcessFunction.Context", OTHER_NAMES_OF_CONTEXTS)
class ProcessContext:
    """What ``process_element`` learns about the record at hand."""

    def __init__(self, timer_service: ReadOnlyTimerService) -> None:
        self._timer_service = timer_service
        self._timestamp = NO_TIMESTAMP

    def timestamp(self) -> int | None:
        """The record's event time in milliseconds; None when it has none."""
        return None if self._timestamp == NO_TIMESTAMP else self._timestamp

    def timer_service(self) -> ReadOnlyTimerService:
        """Tells the time; it sets no timers."""
        return self._timer_service


class ProcessOperator(FunctionOperator):
    """Calls ``process_element`` for each record.

    Args:
        function: a ``ProcessFunction``.
        output_type: the type of what it yields.
        side_types: the types of the side outputs that are read, by tag id.
    """

    def __init__(self, function: Any, output_type: TypeInformation, side_types: Mapping[str, TypeInformation]) -> None:
        super().__init__(function)
        self._process = self.maker = method_of(function, "process_element")
        self._collector = ElementCollector(output_type, side_types)

    def open(self, context: OperatorContext, output: Output) -> None:
        self._timers = ReadOnlyTimerService(context.name)
        self._context = ProcessContext(self._timers)
        super().open(context, output)

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
            asked = context._timestamp
            raise user_error(error, self.context, row, function=self._process, timestamp=asked) from error
        collector.flush(batch, self.output)

    def advance_watermark(self, watermark: int) -> None:
        self._timers.watermark = watermark
        super().advance_watermark(watermark)
