"""Pairs of records of two streams that are near in time, or in the same window, by headrace.

Option: ``join``, which is ``interval`` or ``window``.
"""

from __future__ import annotations

from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, event_time, open_environment, read_files, run_job
from benchmarks.truth import LEFT_BELOW, NEAR_MILLIS, WINDOW_MILLIS
from headrace.common.time import Time
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.expressions import col, left, right

_COLUMNS = (left("key"), (left("value") + right("value")).alias("s"))


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input."""
    environment = open_environment(assignment)
    sink = CountingSink((("sum", "s", "sum"),))
    events = read_files(environment, assignment, event_time())
    lefts, rights = events.filter(col("value") < LEFT_BELOW), events.filter(col("value") >= LEFT_BELOW)
    if assignment.options["join"] == "interval":
        near = Time.milliseconds(NEAR_MILLIS)
        pairs = lefts.key_by("key").interval_join(rights.key_by("key")).between(Time.milliseconds(-NEAR_MILLIS), near)
        joined = pairs.select(*_COLUMNS)
    else:
        minutes = TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MILLIS))
        joined = lefts.join(rights).where("key").equal_to("key").window(minutes).select(*_COLUMNS)
    joined.uid("join").sink_to(sink)
    times = EpochTimes()
    run_job(environment, times)
    return Outcome(tuple(times.epochs), sink.totals, times.summary())
