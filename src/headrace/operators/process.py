"""``ProcessFunction``, ``CoProcessFunction`` on streams without keys: side outputs, no state of keys, no timers."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from headrace.common.batch import Batch
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.other_names import names_explained
from headrace.common.typeinfo import Types
from headrace.operators.collector import ElementCollector
from headrace.operators.functions import (
    BROADCAST_INPUT,
    ONE_INPUT,
    OTHER_NAMES_OF_CONTEXTS,
    TWO_INPUTS,
    Call,
    FunctionOperator,
    method_of,
    results_made_by,
)
from headrace.operators.timer_service import ReadOnlyTimerService
from headrace.operators.user_code import user_error
from headrace.operators.waiting_batches import MOST_CALLED, WaitingBatches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.base import EpochScope, OperatorContext, Output
    from headrace.operators.collector import Maker
    from headrace.operators.event_time_order.waiting_records import OrderedRecords

_KEYED_FUNCTIONS: Final = {
    ONE_INPUT: "KeyedProcessFunction",
    TWO_INPUTS: "KeyedCoProcessFunction",
    BROADCAST_INPUT: "KeyedBroadcastProcessFunction",
}
"""What to use instead where timers are wanted, by the methods of a function."""


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
    """Calls a method for each record of an input.

    Args:
        function: a ``ProcessFunction``, or one of several inputs.
        output_type: the type of what it yields.
        side_types: the types of the side outputs that are read, by tag id.
        methods: the names of the methods, one for each input.
    """

    def __init__(
        self,
        function: Any,
        output_type: TypeInformation,
        side_types: Mapping[str, TypeInformation],
        methods: tuple[str, ...] = ONE_INPUT,
    ) -> None:
        super().__init__(function)
        self._function = function
        self._methods = methods
        self.maker = results_made_by(function, methods[0]) if len(methods) == 1 else None
        self._collector = ElementCollector(output_type, side_types)
        self._waiting = WaitingBatches[Batch](MOST_CALLED)
        keyed = _KEYED_FUNCTIONS[methods]
        self._no_timers = f"timers exist only on a keyed stream; call key_by(...) first and use a {keyed}"

    def open(self, context: OperatorContext, output: Output) -> None:
        self._timers = ReadOnlyTimerService(context.name, self._no_timers)
        super().open(context, output)
        function = self._function
        self._calls = [
            Call(method_of(function, name), asked, results_made_by(function, name))
            for name, asked in zip(self._methods, self._contexts_of(context, self._timers), strict=True)
        ]

    def _contexts_of(self, context: OperatorContext, timers: ReadOnlyTimerService) -> Sequence[ProcessContext]:
        """What the method of each input is called with."""
        return [ProcessContext(timers)] * len(self._methods)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._waiting.forget()
        self._timers.processing_time = scope.processing_time
        self._timers.watermark = scope.watermark

    def begin_channel(self, watermark: int) -> None:
        self._timers.watermark = watermark

    def process(self, input_index: int, batch: Batch) -> None:
        if len(self._methods) == 1:
            self._call_one(input_index, batch)
        elif batch.ordinals is not None:  # branches of a stream meet again, which is told of each record
            self._call_waiting()
            self._call_one(input_index, batch)
        elif self._waiting.add(input_index, batch):
            self._call_waiting()

    def process_in_order(self, records: OrderedRecords) -> None:
        """Handle records of all inputs in the order in which they are given."""
        self._call_in_turn(records.inputs, records.rows, records.timestamps, records.watermarks)

    def _call_waiting(self) -> None:
        """Handle what waits, in the order in which it came; the records of each input are made objects together."""
        taken = self._waiting.take()
        parts = {number: own for number in range(len(self._methods)) if (own := taken.of(number)) is not None}
        if len(parts) == 1:
            self._call_one(*parts.popitem())
        elif parts:
            rows = {number: iter(own.rows) for number, own in parts.items()}
            inputs = taken.sides.tolist()
            self._call_in_turn(inputs, [*taken.in_turn(rows)], taken.timestamps, taken.watermarks)

    def _call_in_turn(self, inputs: Sequence[int], rows: list[Any], timestamps: Any, watermarks: Any) -> None:
        calls = self._calls
        of_any_input = Batch.of_rows(Types.PICKLED_BYTE_ARRAY(), rows, timestamps, watermarks)
        self._call((calls[number] for number in inputs), of_any_input, lambda element: calls[inputs[element]].made_by)

    def _call_one(self, input_index: int, batch: Batch) -> None:
        call = self._calls[input_index]
        self._call(repeat(call, len(batch)), batch, None if self.maker else lambda _: call.made_by)

    def _call(self, calls: Iterable[Call], batch: Batch, maker_of: Callable[[int], Maker] | None) -> None:
        """Call a method for each record; ``maker_of`` says which one, where there are several."""
        timers, collector = self._timers, self._collector
        timestamps, watermarks = batch.timestamps.tolist(), batch.watermarks.tolist()
        call, row, timestamp = None, None, NO_TIMESTAMP
        try:
            for element, (call, row, timestamp, watermark) in enumerate(
                zip(calls, batch.rows, timestamps, watermarks, strict=True)
            ):
                process, context, _ = call
                context._timestamp = timestamp
                timers.watermark = watermark
                collector.collect(process(row, context), element)
        except BaseException as error:
            made_by = None if call is None else call.made_by
            raise user_error(error, self.context, row, function=made_by, timestamp=timestamp) from error
        collector.flush(batch, self.output, self.context, maker_of)

    def advance_watermark(self, watermark: int) -> None:
        self._call_waiting()
        self._timers.watermark = watermark
        super().advance_watermark(watermark)
