"""Counts and sums of one-minute windows by Spark's own operator.

Options: ``store`` (``hdfs`` or ``rocksdb``), ``key_type``, and ``source``: ``files``, or ``rate`` for records that Spark
makes itself, which costs it less than looking for files.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from benchmarks.data import START_MILLIS
from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.spark_stream import STORES, open_session, read_files, run_to_the_end


def run(assignment: Assignment) -> Outcome:
    """Run the query over all input."""
    session = open_session(assignment.work, STORES[assignment.options["store"]])
    results = (
        _records(session, assignment)
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


def _records(session: SparkSession, assignment: Assignment) -> DataFrame:
    return read_files(session, assignment)
