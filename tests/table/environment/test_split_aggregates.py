"""Distinct values of groups in two levels."""

from __future__ import annotations

from random import Random
from typing import Any

from headrace.table import DataTypes, TableEnvironment
from tests.table.connectors.session import session

SPLIT = {
    "table.optimizer.distinct-agg.split.enabled": "true",
    "table.optimizer.distinct-agg.split.bucket-num": "3",
}
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.size": "7",
    "table.exec.mini-batch.allow-latency": "1 s",
}
QUERIES = (
    """SELECT k, COUNT(DISTINCT n), SUM(DISTINCT n), AVG(DISTINCT n), COUNT(*), SUM(d), MAX(n), MIN(s), AVG(n)
    FROM t GROUP BY k""",
    "SELECT COUNT(DISTINCT s), COUNT(DISTINCT d), AVG(d), SUM(n) FROM t",
    "SELECT k, s, COUNT(DISTINCT n) FILTER (WHERE n > 3), MAX(d) FILTER (WHERE n < 9) FROM t GROUP BY CUBE (k, s)",
    """SELECT c, COUNT(DISTINCT n), SUM(m), SUM0(DISTINCT n)
    FROM (SELECT COUNT(*) AS c, n, MAX(n) AS m FROM t GROUP BY k, n) GROUP BY c, n""",
)
TYPE = DataTypes.ROW(
    [
        DataTypes.FIELD("k", DataTypes.STRING()),
        DataTypes.FIELD("n", DataTypes.INT()),
        DataTypes.FIELD("s", DataTypes.STRING()),
        DataTypes.FIELD("d", DataTypes.DECIMAL(10, 2)),
    ]
)


def results(query: str, **settings: str) -> list[tuple[Any, ...]]:
    """The rows that are left after all changes."""
    tables: TableEnvironment = session(**settings)
    random = Random(7)
    rows = [
        (
            random.choice(["a", "b", None]),
            random.choice([None, *range(12)]),
            random.choice([None, "x", "longer than eight", ""]),
            random.choice([None, *range(4)]),
        )
        for _ in range(60)
    ]
    tables.create_temporary_view("t", tables.from_elements(rows, TYPE))
    found = tables.execute_sql(query).to_arrow()
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=repr)


def test_two_levels_give_what_one_gives() -> None:
    for query in QUERIES:
        plain = results(query)
        assert results(query, **SPLIT) == plain, query
        assert results(query, **SPLIT, **MINI_BATCH) == plain, query


def test_functions_that_cannot_be_split_stay_as_they_are() -> None:
    tables = session("CREATE TABLE t (k STRING, n INT) WITH ('connector' = 'datagen')", **SPLIT)
    assert "partialFinalType" in tables.explain_sql("SELECT k, COUNT(DISTINCT n) FROM t GROUP BY k")
    for call in ("COLLECT(n)", "STDDEV_POP(n)", "FIRST_VALUE(n)", "LISTAGG(k, '-')"):
        assert "partialFinalType" not in tables.explain_sql(f"SELECT k, COUNT(DISTINCT n), {call} FROM t GROUP BY k")
