"""The median of all records of a window, found by a Python function, in headrace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, event_time, open_environment, read_files, run_job
from benchmarks.truth import WINDOW_MILLIS
from headrace.common import Row, Types
from headrace.common.time import Time
from headrace.datastream import ProcessWindowFunction
from headrace.datastream.window import TimeWindow, TumblingEventTimeWindows

_CHECKS = (("count", "count", "sum"), ("sum", "median", "sum"), ("last_end", "end", "max"))
_RESULT = Types.ROW_NAMED(["key", "end", "count", "median"], [Types.LONG(), Types.LONG(), Types.LONG(), Types.DOUBLE()])


class Median(ProcessWindowFunction[Row, Row, int, TimeWindow]):
    """The upper median of the values."""

    def process(
        self, key: int, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Row]
    ) -> Iterator[Row]:
        values = sorted(element[2] for element in elements)
        yield Row(key, context.window().end, len(values), values[len(values) // 2])


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input."""
    environment = open_environment(assignment)
    sink = CountingSink(_CHECKS)
    (
        read_files(environment, assignment, event_time())
        .key_by("key")
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MILLIS)))
        .process(Median(), _RESULT)
        .uid("medians")
        .sink_to(sink)
    )
    times = EpochTimes()
    run_job(environment, times)
    return Outcome(tuple(times.epochs), sink.totals, times.summary())
