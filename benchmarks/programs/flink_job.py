"""What the programs of Flink have in common: its settings, the input as a table, two runs of which the second counts.

Runs in the interpreter that has PyFlink, so nothing of this project but its plainest modules can be imported.

Options: ``key_type`` (Flink's word), ``window_millis``, ``lateness_millis`` (by how much records are out of order),
``java_home``, ``classpath`` (what Flink's Parquet format needs besides).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyflink
from pyflink.common import Configuration

from benchmarks.outcome import Assignment, Epoch, Outcome

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

_SETTINGS = {
    "parallelism.default": "2",
    "python.executable": sys.executable,
    "restart-strategy.type": "none",  # what fails is told
    "table.local-time-zone": "UTC",
    "execution.checkpointing.interval": "1 s",
}
"""On two cores, as everybody; a checkpoint a second, where headrace makes several."""


def prepare(assignment: Assignment, settings: Mapping[str, str]) -> Configuration:
    """Tell Flink's Java what it has to know, and give the settings that all have in common and a program's own."""
    os.environ["JAVA_HOME"] = assignment.options["java_home"]
    os.environ["HADOOP_CLASSPATH"] = assignment.options["classpath"]
    packages = str(Path(pyflink.__file__).parents[1])  # the Python inside Java does not know virtual environments
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [packages, os.environ.get("PYTHONPATH")]))
    configuration = Configuration()
    for key, value in (_SETTINGS | settings).items():
        configuration.set_string(key, value)
    configuration.set_string("execution.checkpointing.dir", (assignment.work / "checkpoints").as_uri())
    configuration.set_string("io.tmp.dirs", str(assignment.work / "tmp"))
    return configuration


def create_events(table: TableEnvironment, assignment: Assignment) -> None:
    """Make the table ``events`` of the input."""
    table.execute_sql(_events(assignment.input, assignment.options))


def run_twice(table: TableEnvironment, totals: str, columns: str, results: str) -> tuple[list[float], list[float]]:
    """Compute the totals, which also warms Java up; then the results alone, which are dropped.

    Args:
        table: where the queries run.
        totals: the query of the totals.
        columns: of the results.
        results: their query.

    Returns:
        The totals, and how many seconds each of the runs took.
    """
    table.execute_sql(f"create table nowhere ({columns}) with ('connector' = 'blackhole')")
    started = time.monotonic()
    with table.execute_sql(totals).collect() as rows:
        *_, last = rows  # a result that is updated again and again
    between = time.monotonic()
    table.execute_sql(f"insert into nowhere {results}").wait()
    return [float(value) for value in last], [between - started, time.monotonic() - between]


def outcome(assignment: Assignment, seconds: Sequence[float], records: float, totals: Mapping[str, float]) -> Outcome:
    """What runs took is told as the share of an epoch's records in all of theirs."""
    epoch = assignment.records_per_epoch
    assert epoch is not None
    return Outcome(tuple(Epoch(epoch, each * epoch / records) for each in seconds), totals)


def _events(source: Path, options: Mapping[str, Any]) -> str:
    return (
        f"create table events (`key` {options['key_type']}, ts timestamp(6), `value` double, "
        "`time` as cast(ts as timestamp(3)), "  # event time has no more than milliseconds in Flink
        f"watermark for `time` as `time` - interval '{-(-options['lateness_millis'] // 60_000)}' minute) "
        f"with ('connector' = 'filesystem', 'path' = '{source.as_uri()}', 'format' = 'parquet', "
        "'parquet.utc-timezone' = 'true')"
    )
