"""Windows that are shown at every tenth record, aggregated by a Python function in threads of PyFlink's Java process.

Options besides those of :mod:`benchmarks.programs.flink_job`: ``count``, at how many records a window is shown, and
``records``, how many the input has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyflink.common import Time, Types
from pyflink.datastream import AggregateFunction, StreamExecutionEnvironment
from pyflink.datastream.window import CountTrigger, TumblingEventTimeWindows
from pyflink.table import StreamTableEnvironment

from benchmarks.programs.flink_job import create_events, outcome, prepare, run_twice

if TYPE_CHECKING:
    from benchmarks.outcome import Assignment, Outcome

_SETTINGS = {"python.execution-mode": "thread"}
"""No small batches: with them the table hands on watermarks of the processing time, and every record would be late."""


class CountAndSum(AggregateFunction):
    """Counts and sums the values."""

    def create_accumulator(self):  # noqa: ANN201 - what type checkers know of PyFlink is not installed here
        return 0, 0.0

    def add(self, value, accumulator):  # noqa: ANN001, ANN201
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator):  # noqa: ANN001, ANN201
        return accumulator

    def merge(self, a, b):  # noqa: ANN001, ANN201
        return a[0] + b[0], a[1] + b[1]


def run(assignment: Assignment) -> Outcome:
    """Run the windows."""
    configuration = prepare(assignment, _SETTINGS)
    table = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment(configuration))
    create_events(table, assignment)
    totals = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
    results = (
        table.to_data_stream(table.sql_query("select `key`, `value`, `time` from events"))
        .key_by(lambda row: row[0], key_type=Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(assignment.options["window_millis"])))
        .trigger(CountTrigger.of(assignment.options["count"]))
        .aggregate(CountAndSum(), accumulator_type=totals, output_type=totals)
    )
    table.create_temporary_view("results", results)
    (rows, count), seconds = run_twice(
        table, "select count(*), sum(f0) from results", "c bigint, s double", "select f0, f1 from results"
    )
    return outcome(assignment, seconds, assignment.options["records"], {"rows": rows, "count": count})
