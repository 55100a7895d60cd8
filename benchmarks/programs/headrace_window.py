"""Counts and sums of windows by headrace.

Options: ``windows``, which is ``tumbling``, ``sliding`` or ``session``; ``phases``, to take the time of every part of
an epoch; ``whole``, to run it several times and take the time of each run.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, event_time, open_environment, read_files, run_job, whole_runs
from benchmarks.programs.phases import Phases
from benchmarks.truth import GAP_MILLIS, SLIDE_MILLIS, WINDOW_MILLIS
from headrace.common.time import Time
from headrace.datastream import aggregates
from headrace.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

_CHECKS = (("count", "c", "sum"), ("sum", "s", "sum"), ("last_end", "window_end", "max"))
_MINUTE = Time.milliseconds(WINDOW_MILLIS)
_ASSIGNERS = {
    "tumbling": TumblingEventTimeWindows.of(_MINUTE),
    "sliding": SlidingEventTimeWindows.of(_MINUTE, Time.milliseconds(SLIDE_MILLIS)),
    "session": EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MILLIS)),
}


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input."""
    sink = CountingSink(_CHECKS)
    if assignment.options.get("whole"):
        found = whole_runs(assignment, lambda times: _run(assignment, sink, times), {})
        return replace(found, totals={name: sink.totals[name] / len(found.epochs) for name in ("rows", "count", "sum")})
    times = Phases() if assignment.options.get("phases") else EpochTimes()
    _run(assignment, sink, times)
    return Outcome(tuple(times.epochs), sink.totals, times.summary())


def _run(assignment: Assignment, sink: CountingSink, times: EpochTimes) -> None:
    environment = open_environment(assignment)
    (
        read_files(environment, assignment, event_time())
        .key_by("key")
        .window(_ASSIGNERS[assignment.options.get("windows", "tumbling")])
        .aggregate(aggregates.count().alias("c"), aggregates.sum("value").alias("s"))
        .uid("windows")
        .sink_to(sink)
    )
    run_job(environment, times)
