"""Windows that are shown at every tenth record, aggregated by a Python function, in headrace."""

from __future__ import annotations

from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, event_time, open_environment, read_files, run_job
from benchmarks.truth import TRIGGER_COUNT, WINDOW_MILLIS
from headrace.common import Row, Types
from headrace.common.time import Time
from headrace.datastream import AggregateFunction
from headrace.datastream.window import CountTrigger, TumblingEventTimeWindows

_CHECKS = (("count", "count", "sum"),)
_TOTALS = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
_RESULT = Types.ROW_NAMED(["count", "sum"], [Types.LONG(), Types.DOUBLE()])


class CountAndSum(AggregateFunction[Row, tuple[int, float], Row]):
    """Counts and sums the values."""

    def create_accumulator(self) -> tuple[int, float]:
        return 0, 0.0

    def add(self, value: Row, accumulator: tuple[int, float]) -> tuple[int, float]:
        return accumulator[0] + 1, accumulator[1] + value[2]

    def get_result(self, accumulator: tuple[int, float]) -> Row:
        return Row(*accumulator)

    def merge(self, acc_a: tuple[int, float], acc_b: tuple[int, float]) -> tuple[int, float]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input."""
    environment = open_environment(assignment)
    sink = CountingSink(_CHECKS)
    (
        read_files(environment, assignment, event_time())
        .key_by("key")
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MILLIS)))
        .trigger(CountTrigger.of(TRIGGER_COUNT))
        .aggregate(CountAndSum(), accumulator_type=_TOTALS, output_type=_RESULT)
        .uid("totals")
        .sink_to(sink)
    )
    times = EpochTimes()
    run_job(environment, times)
    return Outcome(tuple(times.epochs), sink.totals, times.summary())
