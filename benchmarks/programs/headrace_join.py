"""Records of two streams that are near in time, or in the same window, by headrace.

Option: ``join``, which is ``interval`` or ``window`` for pairs, or ``co-group``. Of interval joins also ``outer``, and
``alone``, which is an outer one in which nobody has a partner; of window joins also ``sliding``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.counting_sink import CountingSink
from benchmarks.programs.headrace_job import EpochTimes, event_time, open_environment, read_files, run_job
from benchmarks.truth import HALF_WINDOW_MILLIS, LEFT_BELOW, NEAR_MILLIS, WINDOW_MILLIS
from headrace.common import Row, Types
from headrace.common.time import Time
from headrace.datastream import CoGroupFunction, DataStream
from headrace.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from headrace.expressions import col, left, right

UID = "join"
_SUM = Types.ROW_NAMED(["s"], [Types.DOUBLE()])
_MINUTES = TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MILLIS))
_INTERVAL_JOINS = {"interval": "inner", "outer": "outer", "alone": "outer"}
_WINDOWS = {
    "window": _MINUTES,
    "sliding": SlidingEventTimeWindows.of(Time.milliseconds(WINDOW_MILLIS), Time.milliseconds(HALF_WINDOW_MILLIS)),
}
_COLUMNS = (left("key"), (left("value") + right("value")).alias("s"))


class SumOfBoth(CoGroupFunction):
    """The values of a key in a minute, added up."""

    def co_group(self, first: Iterable[Row], second: Iterable[Row]) -> Iterator[Row]:
        yield Row(s=sum(record.value for record in chain(first, second)))


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input."""
    times = EpochTimes()
    totals = run_join(assignment, times)
    return Outcome(tuple(times.epochs), totals, times.summary())


def run_join(assignment: Assignment, times: EpochTimes) -> Mapping[str, float]:
    """Run the job over all input; the totals of its results."""
    environment = open_environment(assignment)
    sink = CountingSink((("sum", "s", "sum"),))
    events = read_files(environment, assignment, event_time())
    _joined(*_halves(events, assignment.options["join"]), assignment.options["join"]).uid(UID).sink_to(sink)
    run_job(environment, times)
    return sink.totals


def _halves(events: DataStream, join: str) -> tuple[DataStream, DataStream]:
    """The two streams: by their values, or by their keys where nobody is to have a partner."""
    is_left = (col("key") % 2 == 0) if join == "alone" else (col("value") < LEFT_BELOW)
    return events.filter(is_left), events.filter(~is_left)


def _joined(lefts: DataStream, rights: DataStream, join: str) -> DataStream:
    if join in _INTERVAL_JOINS:
        near = Time.milliseconds(NEAR_MILLIS)
        both = lefts.key_by("key").interval_join(rights.key_by("key"), _INTERVAL_JOINS[join])
        return both.between(Time.milliseconds(-NEAR_MILLIS), near).select(*_COLUMNS)
    if join in _WINDOWS:
        return lefts.join(rights).where("key").equal_to("key").window(_WINDOWS[join]).select(*_COLUMNS)
    groups = lefts.co_group(rights).where("key").equal_to("key").window(_MINUTES)
    return groups.apply(SumOfBoth(), output_type=_SUM)
