"""TPC-H by Spark SQL over the same files. Option: ``scale``."""

from __future__ import annotations

from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.spark_stream import open_session
from benchmarks.tpch import TABLES, timed


def run(assignment: Assignment) -> Outcome:
    """Run all queries."""
    session = open_session(assignment.work, {})
    for name in TABLES:
        session.read.parquet(str(assignment.input / name)).createOrReplaceTempView(name)
    outcome = timed(lambda text: session.sql(text).collect(), assignment.options["scale"])
    session.stop()
    return outcome
