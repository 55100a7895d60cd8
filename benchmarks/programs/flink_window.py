"""Counts and sums of one-minute windows by Flink SQL, with event time, on a cluster inside one Java process.

Runs in the interpreter that has PyFlink, so nothing of this project but its plainest modules can be imported.

Options: ``key_type`` (Flink's word), ``window_millis``, ``lateness_millis`` (by how much records are out of order),
``java_home``, ``classpath`` (what Flink's Parquet format needs besides).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.outcome import Assignment, Epoch, Outcome

if TYPE_CHECKING:
    from pyflink.table import TableResult

_SETTINGS = {
    "parallelism.default": "2",
    "table.local-time-zone": "UTC",
    "execution.checkpointing.interval": "1 s",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "10 s",
    "table.exec.mini-batch.size": "1000000",
}
"""On two cores, as everybody; a checkpoint a second, where headrace makes several. Small batches keep totals from being
updated at every window; the windows themselves are aggregated as they would be without."""


def run(assignment: Assignment) -> Outcome:
    """Compute the totals, which also warms Java up; then run the windows alone and take the time."""
    os.environ["JAVA_HOME"] = assignment.options["java_home"]
    os.environ["HADOOP_CLASSPATH"] = assignment.options["classpath"]
    table = _environment(assignment.work)
    table.execute_sql(_events(assignment.input, assignment.options))
    table.execute_sql(
        "create table nowhere (w timestamp(3), `key` "
        f"{assignment.options['key_type']}, c bigint, s double) with ('connector' = 'blackhole')"
    )
    windows = _windows(assignment.options)
    started = time.monotonic()
    totals = _last_row(
        table.execute_sql(
            "select count(*), sum(c), sum(s), max(timestampdiff(second, timestamp '1970-01-01 00:00:00', w)) "
            f"from ({windows})"
        )
    )
    first = time.monotonic() - started
    started = time.monotonic()
    table.execute_sql(f"insert into nowhere {windows}").wait()
    second = time.monotonic() - started
    rows, count, total, last = totals
    found = {"rows": rows, "count": count, "sum": total, "last_end": last * 1000 + assignment.options["window_millis"]}
    epoch = assignment.records_per_epoch
    assert epoch is not None
    return Outcome(tuple(Epoch(epoch, seconds * epoch / count) for seconds in (first, second)), found)


def _environment(work: Path) -> TableEnvironment:
    configuration = Configuration()
    for key, value in _SETTINGS.items():
        configuration.set_string(key, value)
    configuration.set_string("execution.checkpointing.dir", (work / "checkpoints").as_uri())
    configuration.set_string("io.tmp.dirs", str(work / "tmp"))
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration)
    return TableEnvironment.create(settings.build())


def _events(source: Path, options: Mapping[str, Any]) -> str:
    return (
        f"create table events (`key` {options['key_type']}, ts timestamp(6), `value` double, "
        "`time` as cast(ts as timestamp(3)), "  # event time has no more than milliseconds in Flink
        f"watermark for `time` as `time` - interval '{-(-options['lateness_millis'] // 60_000)}' minute) "
        f"with ('connector' = 'filesystem', 'path' = '{source.as_uri()}', 'format' = 'parquet', "
        "'parquet.utc-timezone' = 'true')"
    )


def _windows(options: Mapping[str, Any]) -> str:
    size = f"interval '{options['window_millis'] // 1000}' second"
    return (
        "select window_start as w, `key`, count(*) as c, sum(`value`) as s "
        f"from table(tumble(table events, descriptor(`time`), {size})) group by window_start, window_end, `key`"
    )


def _last_row(result: TableResult) -> list[float]:
    """The last of a result that is updated again and again."""
    with result.collect() as rows:
        *_, last = rows
    return [float(value) for value in last]
