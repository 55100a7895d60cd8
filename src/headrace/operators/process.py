"""Process functions of one input or several: with side outputs, and on keyed streams with state and timers.

Event-time timers fire between the records of a batch, exactly where the watermark passes them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP
from headrace.common.other_names import names_explained
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import TypeInformation, Types
from headrace.operators.base import EpochScope, OperatorContext, Output, keys_of
from headrace.operators.collector import ONE_RECORD, ElementCollector, Maker, RowCollector, refuse_one_record
from headrace.operators.functions import (
    BROADCAST_INPUT,
    ONE_INPUT,
    OTHER_NAMES_OF_CONTEXTS,
    TWO_INPUTS,
    FunctionOperator,
    InputHandler,
    has_own,
    method_of,
    results_made_by,
)
from headrace.operators.timer_service import KeyedTimerService, ReadOnlyTimerService, TimeDomain, TimerService
from headrace.operators.user_code import record_text, user_error
from headrace.operators.waiting import MOST_CALLED, OrderedRecords, WaitingBatches
from headrace.state.keys.codecs import NO_KEY
from headrace.state.protocols import KeyedStates
from headrace.state.timers import Timer

Called = tuple[InputHandler, Any, int, int, Any]
"""The function called for a record, the record, its timestamp, the watermark it meets, and its key."""


_KEYED_FUNCTIONS: Final = {
    ONE_INPUT: "KeyedProcessFunction",
    TWO_INPUTS: "KeyedCoProcessFunction",
    BROADCAST_INPUT: "KeyedBroadcastProcessFunction",
}
"""The functions that have timers, by the methods of those that have none."""


@names_explained("ProcessFunction.Context", OTHER_NAMES_OF_CONTEXTS)
class ProcessContext:
    """The context of ``process_element``, about the record at hand."""

    def __init__(self, timer_service: TimerService) -> None:
        self._timer_service = timer_service
        self._timestamp = NO_TIMESTAMP

    def timestamp(self) -> int | None:
        """The record's event time, or in ``on_timer`` the timer's time, in milliseconds; None when it has none."""
        return None if self._timestamp == NO_TIMESTAMP else self._timestamp

    def timer_service(self) -> TimerService:
        """Tells the time, and keeps timers where there are keys."""
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
        function: object,
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
            InputHandler(method_of(function, name), argument, results_made_by(function, name))
            for name, argument in zip(self._methods, self._contexts_of(context, self._timers), strict=True)
        ]

    def _contexts_of(self, context: OperatorContext, timers: ReadOnlyTimerService) -> Sequence[ProcessContext]:
        """The contexts that the method of each input is called with."""
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
        elif batch.ordinals is not None:  # branches of a stream meet again, and each record has its ordinal
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

    def _call_in_turn(self, inputs: Sequence[int], rows: list[Any], timestamps: object, watermarks: object) -> None:
        calls = self._calls
        of_any_input = Batch.of_rows(Types.PICKLED_BYTE_ARRAY(), rows, timestamps, watermarks)
        self._call((calls[number] for number in inputs), of_any_input, lambda element: calls[inputs[element]].made_by)

    def _call_one(self, input_index: int, batch: Batch) -> None:
        call = self._calls[input_index]
        self._call(repeat(call, len(batch)), batch, None if self.maker else lambda _: call.made_by)

    def _call(self, calls: Iterable[InputHandler], batch: Batch, maker_of: Callable[[int], Maker] | None) -> None:
        """Call a method for each record; ``maker_of`` gives its function, where there are several."""
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


@names_explained("KeyedProcessFunction.Context", OTHER_NAMES_OF_CONTEXTS)
class KeyedProcessContext(ProcessContext):
    """The context of ``process_element`` and ``on_timer``; the same object for all calls."""

    def __init__(self, backend: KeyedStates, timer_service: KeyedTimerService) -> None:
        super().__init__(timer_service)
        self._backend = backend
        self._domain = TimeDomain.EVENT_TIME

    def get_current_key(self) -> Any:
        """The key of the record or of the timer."""
        return self._backend.current.key

    def time_domain(self) -> TimeDomain:
        """In ``on_timer``: which kind of timer has fired."""
        return self._domain


class KeyedProcessOperator(FunctionOperator):
    """Calls a method for each record of an input, and ``on_timer`` for each due timer.

    Args:
        function: a ``KeyedProcessFunction``, or one of several inputs.
        output_type: the type of what it yields.
        side_types: the types of the side outputs that are read, by tag id.
        methods: the names of the methods, one for each input.
        is_batch: whether timers in processing time fire when the input has ended, whatever the time.
        is_in_order: whether records come in the order of event time. Then a timer meets the time that it was set for;
            else, as in Flink, the watermark, which depends on how far the input was read, and with what other keys.
    """

    def __init__(
        self,
        function: object,
        output_type: TypeInformation,
        side_types: Mapping[str, TypeInformation],
        methods: Sequence[str] = ONE_INPUT,
        *,
        is_batch: bool = False,
        is_in_order: bool = False,
    ) -> None:
        super().__init__(function)
        self._function = function
        self._methods = methods
        is_only_one = len(methods) == 1 and not has_own(function, "on_timer")
        self.maker = results_made_by(function, methods[0]) if is_only_one else None
        self._collector = RowCollector(output_type, side_types)
        self._is_batch = is_batch
        self._is_in_order = is_in_order
        self._watermark = MIN_WATERMARK
        self._waiting: WaitingBatches[Batch] = WaitingBatches(MOST_CALLED)

    def restore_state(self, context: OperatorContext) -> None:
        self._backend = context.state.keyed
        self._timers = context.state.timers

    def open(self, context: OperatorContext, output: Output) -> None:
        self.restore_state(context)
        self._service = KeyedTimerService(self._timers)
        self._context = self._new_context()
        super().open(context, output)
        function = self._function
        self._calls = [
            InputHandler(getattr(function, name), argument, results_made_by(function, name))
            for name, argument in zip(self._methods, self._contexts(), strict=True)
        ]
        self._only = None if self.maker is None else self._calls[0]
        self._on_timer: Any = getattr(function, "on_timer", None)

    def _new_context(self) -> KeyedProcessContext:
        """The context that the methods for keyed records and for timers are called with."""
        return KeyedProcessContext(self._backend, self._service)

    def _contexts(self) -> Sequence[Any]:
        """The contexts that the method of each input is called with."""
        return [self._context] * len(self._methods)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._waiting.forget()
        self._watermark = self._service.watermark = scope.watermark
        self._service.processing_time = scope.processing_time
        if not self._is_batch:
            self._fire_processing_time(scope.processing_time)
            self._collector.flush(self.output, self.context)

    def process(self, input_index: int, batch: Batch) -> None:
        if len(self._methods) == 1:
            self._call(self._called(input_index, batch))
        # Where branches of a stream meet again, a batch has to be through before the next one.
        elif self._waiting.add(input_index, batch) or batch.ordinals is not None:
            self._call_waiting()

    def process_in_order(self, records: OrderedRecords) -> None:
        """Handle records of all inputs in the order in which they are given."""
        calls = (self._calls[number] for number in records.inputs)
        self._call(zip(calls, records.rows, records.timestamps, records.watermarks, records.entries, strict=True))

    def _call_waiting(self) -> None:
        """Handle what waits, in the order in which it came; the records of each input are made objects together."""
        taken = self._waiting.take()
        inputs = range(len(self._methods))
        called = {number: self._called(number, own) for number in inputs if (own := taken.of(number)) is not None}
        if called:
            self._call(taken.in_turn(called))

    def _called(self, input_index: int, batch: Batch) -> Iterator[Called]:
        return zip(
            repeat(self._calls[input_index], len(batch)),
            batch.rows,
            batch.timestamps.tolist(),
            batch.watermarks.tolist(),
            self._entries(input_index, batch),
            strict=True,
        )

    def _entries(self, input_index: int, batch: Batch) -> Iterable[Any]:
        """The keys of the records of an input."""
        return self._backend.bind(keys_of(batch))

    def _call(self, called: Iterable[Called]) -> None:
        """Call a method for each record; timers that are due before it fire before it."""
        backend, collector = self._backend, self._collector
        timers, service = self._timers.event, self._service
        rows, row_timestamps, row_watermarks = collector.rows, collector.timestamps, collector.watermarks
        marks = collector.marks
        current, last = self._watermark, self._only
        call, row, timestamp = None, None, NO_TIMESTAMP
        try:
            for call, row, timestamp, watermark, entry in called:
                if watermark != current:
                    if timers.next_due <= watermark:
                        self._fire_event_time(current, watermark)
                        last = self._only
                    current = service.watermark = backend.event_time = watermark
                backend.current = entry
                if call is not last:
                    last = call
                    marks.append((len(rows), call.made_by))
                process, context, _ = call
                context._timestamp = timestamp
                results = process(row, context)
                if results is not None:
                    if type(results) in ONE_RECORD:
                        refuse_one_record(results)
                    for result in results:  # RowCollector.collect, without a call for each record
                        if type(result) is tuple and len(result) == 2 and type(result[0]) is OutputTag:
                            collector.collect_side(result[0], result[1], timestamp, watermark)
                        else:
                            rows.append(result)
                            row_timestamps.append(timestamp)
                            row_watermarks.append(watermark)
        except BaseException as error:
            made_by = None if call is None else call.made_by
            raise user_error(error, self.context, row, function=made_by, timestamp=timestamp) from error
        finally:
            backend.current = NO_KEY
        self._watermark = current
        collector.flush(self.output, self.context)

    def advance_watermark(self, watermark: int) -> None:
        self._call_waiting()
        if watermark > self._watermark:
            if self._timers.event.next_due <= watermark:
                self._fire_event_time(self._watermark, watermark)
                self._collector.flush(self.output, self.context)
            if self._is_batch and watermark == MAX_WATERMARK:
                self._end_clock()
            self._watermark = self._service.watermark = self._backend.event_time = watermark
        super().advance_watermark(watermark)

    def _fire_event_time(self, reached: int, watermark: int) -> None:
        """Fire what the advance to ``watermark`` makes due; what it emits still meets the watermark before."""
        self._service.watermark = watermark
        self._fire(TimeDomain.EVENT_TIME, self._timers.event.pop_due(watermark), reached)

    def _fire_processing_time(self, now: int) -> None:
        self._fire(TimeDomain.PROCESSING_TIME, self._timers.processing.pop_due(now), self._watermark)

    def _end_clock(self) -> None:
        """In batch mode the clock stands still until the input has ended; then all timers of it fire."""
        self._service.watermark, self._service.clock_has_ended = MAX_WATERMARK, True
        self._fire_processing_time(MAX_WATERMARK)
        self._collector.flush(self.output, self.context)

    def _fire(self, domain: TimeDomain, due: Iterable[Timer], watermark: int) -> None:
        """Call ``on_timer`` for each; what a timer of processing time emits has no event time, as in Flink."""
        context, backend, collect = self._context, self._backend, self._collector.collect
        has_event_time = domain is TimeDomain.EVENT_TIME
        on_timer = self._on_timer
        if self.maker is None:
            self._collector.marks.append((len(self._collector.rows), on_timer))
        timer = None
        context._domain = domain
        try:
            for timer in due:
                time, backend.current, _ = timer
                context._timestamp = time
                if has_event_time:  # what it meets does not depend on how far the watermark has come at once
                    backend.event_time = max(watermark, time)
                    if self._is_in_order:
                        self._service.watermark = backend.event_time
                results = on_timer(time, context)
                if results is not None:
                    collect(results, time if has_event_time else NO_TIMESTAMP, watermark)
        except BaseException as error:
            text = "" if timer is None else _timer_text(domain, timer)
            raise user_error(error, self.context, function=on_timer, timer=text) from error
        finally:
            backend.current = NO_KEY


def _timer_text(domain: TimeDomain, timer: Timer) -> str:
    kind = "event" if domain is TimeDomain.EVENT_TIME else "processing"
    return f"{timer.time} in {kind} time, of key {record_text(timer.entry.key)}"


class StateBootstrapOperator(KeyedProcessOperator):
    """Calls a method for each record. Timers stay: they fire in the job that begins with them."""

    def _fire(self, domain: TimeDomain, due: Iterable[Timer], watermark: int) -> None:
        """Nothing: timers that are due are not read, and so are still there."""
