"""Pairs of records of two streams that are near in time, or in the same window, by Spark's stream-stream join.

Options: ``store``, and ``join``, which is ``interval`` or ``window``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from benchmarks.outcome import Epoch
from benchmarks.programs.spark_stream import STORES, open_session, read_files, run_to_the_end
from benchmarks.truth import LEFT_BELOW, NEAR_MILLIS, WINDOW_MILLIS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from benchmarks.outcome import Assignment, Outcome


def side(session: SparkSession, assignment: Assignment, prefix: str, condition: Column) -> DataFrame:
    """One of the two streams; the names of its columns begin with ``prefix``."""
    records = read_files(session, assignment).where(condition)
    named = records.select(*(sql.col(name).alias(f"{prefix}_{name}") for name in ("key", "ts", "value")))
    return named.withWatermark(f"{prefix}_ts", "5 seconds")


def condition(kind: str) -> Column:
    """Which records match."""
    same_key = sql.col("l_key") == sql.col("r_key")
    if kind == "interval":
        near = f"interval {NEAR_MILLIS} milliseconds"
        return same_key & sql.expr(f"r_ts >= l_ts - {near} and r_ts <= l_ts + {near}")
    return same_key & (sql.col("l_window") == sql.col("r_window"))


def run(assignment: Assignment) -> Outcome:
    """Run the query over all input."""
    session = open_session(assignment.work, STORES[assignment.options["store"]])
    lefts = side(session, assignment, "l", sql.col("value") < LEFT_BELOW)
    rights = side(session, assignment, "r", sql.col("value") >= LEFT_BELOW)
    kind = assignment.options["join"]
    if kind == "window":
        minute = f"{WINDOW_MILLIS} milliseconds"
        lefts = lefts.withColumn("l_window", sql.window("l_ts", minute))
        rights = rights.withColumn("r_window", sql.window("r_ts", minute))
    pairs = lefts.join(rights, condition(kind)).select("l_key", (sql.col("l_value") + sql.col("r_value")).alias("s"))
    checks = {"rows": sql.count(sql.lit(1)), "sum": sql.sum("s")}
    outcome = run_to_the_end(pairs, "append", checks, assignment.work)
    # Spark reads the files for each of the two streams, and counts their records twice.
    return replace(outcome, epochs=tuple(Epoch(each.records // 2, each.seconds) for each in outcome.epochs))
