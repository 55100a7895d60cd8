"""Counts and sums of windows by headrace.

Options: ``windows``, which is ``tumbling``, ``sliding`` or ``session``, and ``phases``, to take the time of every part
of an epoch.
"""

from __future__ import annotations

from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, event_time, open_environment, read_files, run_job
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
    environment = open_environment(assignment)
    sink = CountingSink(_CHECKS)
    (
        read_files(environment, assignment, event_time())
        .key_by("key")
        .window(_ASSIGNERS[assignment.options.get("windows", "tumbling")])
        .aggregate(aggregates.count().alias("c"), aggregates.sum("value").alias("s"))
        .uid("windows")
        .sink_to(sink)
    )
    times = Phases() if assignment.options.get("phases") else EpochTimes()
    run_job(environment, times)
    return Outcome(tuple(times.epochs), sink.totals, times.summary())
