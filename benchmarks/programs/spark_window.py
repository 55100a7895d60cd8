"""Counts and sums of one-minute windows by Spark's own operator. Options: ``store`` and ``key_type``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from benchmarks.programs.spark_stream import STORES, open_session, read_files, run_to_the_end

if TYPE_CHECKING:
    from benchmarks.outcome import Assignment, Outcome


def run(assignment: Assignment) -> Outcome:
    """Run the query over all input."""
    session = open_session(assignment.work, STORES[assignment.options["store"]])
    results = (
        read_files(session, assignment)
        .withWatermark("ts", "5 seconds")
        .groupBy("key", sql.window("ts", "1 minute"))
        .agg(sql.count("*").alias("c"), sql.sum("value").alias("s"))
    )
    checks = {
        "rows": sql.count(sql.lit(1)),
        "count": sql.sum("c"),
        "sum": sql.sum("s"),
        "last_start": sql.max(sql.unix_millis("window.start")),
    }
    return run_to_the_end(results, "append", checks, assignment.work)
