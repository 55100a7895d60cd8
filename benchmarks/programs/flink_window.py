"""Counts and sums of one-minute windows by Flink SQL, with event time, on a cluster inside one Java process.

The options are those of :mod:`benchmarks.programs.flink_job`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.programs.flink_job import create_events, outcome, prepare, run_twice

if TYPE_CHECKING:
    from benchmarks.outcome import Assignment, Outcome

_SETTINGS = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "10 s",
    "table.exec.mini-batch.size": "1000000",
}
"""Small batches keep totals from being updated at every window; the windows themselves are aggregated as they would be
without."""


def run(assignment: Assignment) -> Outcome:
    """Run the windows."""
    configuration = prepare(assignment, _SETTINGS)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    table = TableEnvironment.create(settings)
    create_events(table, assignment)
    windows = _windows(assignment.options)
    (rows, count, total, last), seconds = run_twice(
        table,
        "select count(*), sum(c), sum(s), max(timestampdiff(second, timestamp '1970-01-01 00:00:00', w)) "
        f"from ({windows})",
        f"w timestamp(3), `key` {assignment.options['key_type']}, c bigint, s double",
        windows,
    )
    return outcome(assignment, seconds, count, {"rows": rows, "count": count, "sum": total, "last_end": last * 1000})


def _windows(options: Mapping[str, Any]) -> str:
    size = f"interval '{options['window_millis'] // 1000}' second"
    return (
        "select window_end as w, `key`, count(*) as c, sum(`value`) as s "
        f"from table(tumble(table events, descriptor(`time`), {size})) group by window_start, window_end, `key`"
    )
