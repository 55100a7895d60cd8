"""A Python function with keyed state, called for every record, in headrace."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, open_environment, read_files, run_job
from benchmarks.truth import SAMPLE
from headrace.common import Row, Types
from headrace.common.watermark_strategy import WatermarkStrategy
from headrace.datastream import KeyedProcessFunction, RuntimeContext
from headrace.datastream.state import ValueStateDescriptor

CHECKS = (("count", "count", "sum"), ("highest", "sum", "max"))
RESULT = Types.ROW_NAMED(["key", "count", "sum"], [Types.LONG(), Types.LONG(), Types.DOUBLE()])


class CountAndSum(KeyedProcessFunction):
    """Counts and sums the values of each key; emits them at each record of one key in a thousand."""

    def open(self, runtime_context: RuntimeContext) -> None:
        totals = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
        self.totals = runtime_context.get_state(ValueStateDescriptor("totals", totals))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row] | None:
        count, total = self.totals.value() or (0, 0.0)
        count += 1
        total += value[2]
        self.totals.update((count, total))
        key = value[0]
        return None if key % SAMPLE else iter((Row(key, count, total),))


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input."""
    environment = open_environment(assignment)
    sink = CountingSink(CHECKS)
    (
        read_files(environment, assignment, WatermarkStrategy.no_watermarks())
        .key_by("key")
        .process(CountAndSum(), output_type=RESULT)
        .uid("totals")
        .sink_to(sink)
    )
    times = EpochTimes()
    run_job(environment, times)
    return Outcome(tuple(times.epochs), sink.totals, times.summary())
