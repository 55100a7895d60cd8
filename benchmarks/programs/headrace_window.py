"""Counts and sums of one-minute windows by headrace. Option: ``phases``, to take the time of every part of an epoch."""

from __future__ import annotations

from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, open_environment, read_files, run_job
from benchmarks.programs.phases import Phases
from headrace.common.time import Duration, Time
from headrace.common.watermark_strategy import WatermarkStrategy
from headrace.datastream import aggregates
from headrace.datastream.window import TumblingEventTimeWindows

_CHECKS = (("count", "c", "sum"), ("sum", "s", "sum"), ("last_start", "window_start", "max"))


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input."""
    environment = open_environment(assignment)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner("ts")
    sink = CountingSink(_CHECKS)
    (
        read_files(environment, assignment, strategy)
        .key_by("key")
        .window(TumblingEventTimeWindows.of(Time.seconds(60)))
        .aggregate(aggregates.count().alias("c"), aggregates.sum("value").alias("s"))
        .uid("windows")
        .sink_to(sink)
    )
    times = Phases() if assignment.options.get("phases") else EpochTimes()
    run_job(environment, times)
    return Outcome(tuple(times.epochs), sink.totals, times.summary())
