"""Records of two streams that are near in time, or in the same window, by headrace.

Option: ``join``, which is ``interval`` or ``window`` for pairs, or ``co-group``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, event_time, open_environment, read_files, run_job
from benchmarks.truth import LEFT_BELOW, NEAR_MILLIS, WINDOW_MILLIS
from headrace.common import Row, Types
from headrace.common.time import Time
from headrace.datastream import CoGroupFunction, DataStream
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.expressions import col, left, right

_SUM = Types.ROW_NAMED(["s"], [Types.DOUBLE()])
_COLUMNS = (left("key"), (left("value") + right("value")).alias("s"))


class SumOfBoth(CoGroupFunction):
    """The values of a key in a minute, added up."""

    def co_group(self, first: Iterable[Row], second: Iterable[Row]) -> Iterator[Row]:
        yield Row(s=sum(record.value for record in chain(first, second)))


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input."""
    environment = open_environment(assignment)
    sink = CountingSink((("sum", "s", "sum"),))
    events = read_files(environment, assignment, event_time())
    lefts, rights = events.filter(col("value") < LEFT_BELOW), events.filter(col("value") >= LEFT_BELOW)
    _joined(lefts, rights, assignment.options["join"]).uid("join").sink_to(sink)
    times = EpochTimes()
    run_job(environment, times)
    return Outcome(tuple(times.epochs), sink.totals, times.summary())


def _joined(lefts: DataStream, rights: DataStream, join: str) -> DataStream:
    if join == "interval":
        near = Time.milliseconds(NEAR_MILLIS)
        pairs = lefts.key_by("key").interval_join(rights.key_by("key")).between(Time.milliseconds(-NEAR_MILLIS), near)
        return pairs.select(*_COLUMNS)
    minutes = TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MILLIS))
    if join == "window":
        return lefts.join(rights).where("key").equal_to("key").window(minutes).select(*_COLUMNS)
    groups = lefts.co_group(rights).where("key").equal_to("key").window(minutes)
    return groups.apply(SumOfBoth(), output_type=_SUM)
