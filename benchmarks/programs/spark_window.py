"""Counts and sums of windows by Spark's own operators.

Options: ``store``, ``key_type``, and ``windows``, which is ``tumbling``, ``sliding`` or ``session``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from benchmarks.programs.spark_stream import STORES, open_session, read_files, run_to_the_end
from benchmarks.truth import GAP_MILLIS, SLIDE_MILLIS, WINDOW_MILLIS

if TYPE_CHECKING:
    from pyspark.sql import Column

    from benchmarks.outcome import Assignment, Outcome

_MINUTE = f"{WINDOW_MILLIS} milliseconds"


def windows(kind: str) -> Column:
    """The column by which records are grouped; its name is ``window``."""
    if kind == "session":
        return sql.session_window("ts", f"{GAP_MILLIS} milliseconds").alias("window")
    slide = f"{SLIDE_MILLIS} milliseconds" if kind == "sliding" else _MINUTE
    return sql.window("ts", _MINUTE, slide).alias("window")


def run(assignment: Assignment) -> Outcome:
    """Run the query over all input."""
    session = open_session(assignment.work, STORES[assignment.options["store"]])
    results = (
        read_files(session, assignment)
        .withWatermark("ts", "5 seconds")
        .groupBy("key", windows(assignment.options.get("windows", "tumbling")))
        .agg(sql.count("*").alias("c"), sql.sum("value").alias("s"))
    )
    checks = {
        "rows": sql.count(sql.lit(1)),
        "count": sql.sum("c"),
        "sum": sql.sum("s"),
        "last_end": sql.max(sql.unix_millis("window.end")),
    }
    return run_to_the_end(results, "append", checks, assignment.work)
