"""TPC-H by DuckDB with two threads over the same files. Option: ``scale``."""

from __future__ import annotations

import duckdb

from benchmarks.outcome import Assignment, Outcome
from benchmarks.tpch import TABLES, timed


def run(assignment: Assignment) -> Outcome:
    """Run all queries."""
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2")
        for name in TABLES:
            files = assignment.input / name / "*.parquet"
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{files}')")
        return timed(lambda text: connection.execute(text).fetchall(), assignment.options["scale"])
