"""Queries that are drawn at random: the table that they end in is DuckDB's, however their input is cut."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
from hypothesis import strategies as st

from tests.invariance.driver import Cut, Job, deaths, examples, run
from tests.invariance.random_queries import Query, random_query
from tests.invariance.table_inputs import COLUMNS, left_of, plain, query, table_environment


def in_duckdb(drawn: Query) -> Counter[tuple[Any, ...]]:
    """What DuckDB makes of the rows that are left in the tables."""
    with duckdb.connect() as database:
        for table in drawn.tables:
            columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
            database.execute(f"CREATE TABLE {table.name}_rows ({columns})")
            if table.final:
                marks = ", ".join("?" * len(COLUMNS))
                database.executemany(f"INSERT INTO {table.name}_rows VALUES ({marks})", table.final)
            database.execute(
                f"CREATE VIEW {table.name} AS SELECT *, epoch_ms(ts) AS rt, epoch_ms(ts) AS p FROM {table.name}_rows"
            )
        for statement in drawn.statements():
            database.execute(statement.duck)
        rows = database.execute("SELECT * FROM answer").fetchall()
    return Counter(tuple(map(plain, row)) for row in rows)


def build(drawn: Query, job: Job) -> None:
    tables = table_environment(job, drawn.tables)
    for statement in drawn.statements():
        tables.execute_sql(statement.flink)
    query(job, tables, "out", "SELECT * FROM answer")


def check(drawn: Query, cut: Cut, *, is_batch: bool) -> None:
    left = left_of(run(lambda job: build(drawn, job), cut, is_batch=is_batch)["out"])
    assert not left.unknown, "rows are taken back that were not there"
    expected = in_duckdb(drawn)
    assert left.rows == expected, f"there and not in DuckDB: {left.rows - expected}, missing: {expected - left.rows}"


@examples(20, 3000, drawn=st.randoms(use_true_random=False).map(random_query), cut=deaths)
def test_queries_end_in_the_table_that_duckdb_finds(drawn: tuple[Query, bool], cut: Cut) -> None:
    """Cut, killed, restored at another parallelism and by another backend, in both modes."""
    check(drawn[0], cut, is_batch=drawn[1])
