"""State that grows, in headrace: timers of many keys, a long list at one key, a large window of one key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from benchmarks.data import START_MILLIS
from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, open_environment, read_files, run_job
from headrace.common import Row, Types
from headrace.common.time import Time
from headrace.common.watermark_strategy import WatermarkStrategy
from headrace.datastream import KeyedProcessFunction, ProcessWindowFunction, RuntimeContext
from headrace.datastream.state import ListStateDescriptor, ValueStateDescriptor
from headrace.datastream.window import TimeWindow, TumblingEventTimeWindows

if TYPE_CHECKING:
    from headrace.datastream.data_stream import DataStream

_CHECKS = (("count", "count", "sum"), ("sum", "sum", "sum"))
_RESULT = Types.ROW_NAMED(["count", "sum"], [Types.LONG(), Types.DOUBLE()])
_FAR_MILLIS = 1_000_000_000


class Deadlines(KeyedProcessFunction):
    """Remembers the value of each record, which the timer emits that is due; those that are far away emit nothing.

    Args:
        filling_millis: records of the first so many milliseconds set timers, later ones none.
        due_millis: when all of them are due, in milliseconds from the first record on.
        timers: how many timers each record sets.
    """

    def __init__(self, filling_millis: int, due_millis: int, timers: int) -> None:
        self._filled = START_MILLIS + filling_millis
        self._due = START_MILLIS + due_millis
        self._timers = timers

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.DOUBLE()))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> None:
        millis = ctx.timestamp()
        assert millis is not None
        if millis < self._filled:
            self.last.update(value[2])
            ctx.timer_service().register_event_time_timer(self._due)
            for number in range(1, self._timers):
                ctx.timer_service().register_event_time_timer(millis + number * _FAR_MILLIS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        if timestamp == self._due:
            yield Row(1, self.last.value())


class Appending(KeyedProcessFunction):
    """Appends to a list that it reads at the end alone.

    Args:
        filling_millis: the records of the first so many milliseconds append ``each`` elements; the others one.
        each: how many those append.
        records: how many records there are in all.
    """

    def __init__(self, filling_millis: int, each: int, records: int) -> None:
        self._filled = START_MILLIS + filling_millis
        self._each = each
        self._records = records

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", Types.DOUBLE()))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        seen = (self.seen.value() or 0) + 1
        self.seen.update(seen)
        millis = ctx.timestamp()
        assert millis is not None
        self.values.add_all([value[2]] * (self._each if millis < self._filled else 1))
        if seen == self._records:
            values = list(self.values.get())
            yield Row(len(values), sum(values))


class TwoPasses(ProcessWindowFunction[Row, Row, int, TimeWindow]):
    """Goes through all records of a window, and once more."""

    def process(
        self, key: int, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Row]
    ) -> Iterator[Row]:
        yield Row(sum(1 for _ in elements), sum(element[2] for element in elements))


def timers(stream: DataStream, options: Any) -> DataStream:
    """A million timers are due at once, and nine times as many are not."""
    deadlines = Deadlines(options["filling_millis"], options["due_millis"], options["timers"])
    return stream.key_by("key").process(deadlines, output_type=_RESULT)


def long_list(stream: DataStream, options: Any) -> DataStream:
    """A list of two million elements that grows."""
    appending = Appending(options["filling_millis"], options["each"], options["records"])
    return stream.key_by(lambda _: 0, Types.LONG()).process(appending, output_type=_RESULT)


def large_window(stream: DataStream, _: Any) -> DataStream:
    """All records are in one window."""
    return stream.key_by("key").window(TumblingEventTimeWindows.of(Time.hours(1))).process(TwoPasses(), _RESULT)


WORKS: dict[str, Callable[[DataStream, Any], DataStream]] = {
    "timers": timers,
    "list": long_list,
    "window": large_window,
}


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input."""
    environment = open_environment(assignment)
    sink = CountingSink(_CHECKS)
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ts")
    stream = read_files(environment, assignment, times)
    WORKS[assignment.options["state"]](stream, assignment.options).uid("state").sink_to(sink)
    epochs = EpochTimes()
    run_job(environment, epochs)
    return Outcome(tuple(epochs.epochs), sink.totals, epochs.summary())
