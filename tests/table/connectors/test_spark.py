"""Tables on Spark: windows from files to files, and what Spark reads as a table."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from headrace.table.connectors.table_source import TableSource
from headrace.table.logical.relations import Scan
from headrace.table.physical.conversion import ConversionContext
from headrace.table.physical.conversion import table_source as source_of_scan
from tests.table.connectors.session import rows, run, session

pytestmark = pytest.mark.spark


def test_windows_from_files_to_files(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = [f"c{number % 2},{number},2024-02-29 12:00:{number:02}" for number in range(30)]
    (tmp_path / "in" / "payments.csv").write_text("\n".join(lines))
    settings = {
        "headrace.runtime": "spark",
        "parallelism.default": "2",
        "execution.checkpointing.dir": str(tmp_path / "ck"),
    }
    tables = session(
        "CREATE TABLE payments (card STRING, amount BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
        f"WITH ('connector'='filesystem', 'path'='{tmp_path}/in', 'format'='csv')",
        "CREATE TABLE totals (card STRING, w TIMESTAMP(3), total BIGINT) PARTITIONED BY (card) "
        f"WITH ('connector'='filesystem', 'path'='{tmp_path}/out', 'format'='parquet')",
        **settings,
    )
    run(
        tables,
        "INSERT INTO totals SELECT card, window_start, SUM(amount) FROM "
        "TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY card, window_start, window_end",
    )
    local = session(
        "CREATE TABLE totals (card STRING, w TIMESTAMP(3), total BIGINT) PARTITIONED BY (card) "
        f"WITH ('connector'='filesystem', 'path'='{tmp_path}/out', 'format'='parquet')",
    )
    found = sorted((card, w.second, total) for card, w, total in rows(local, "SELECT * FROM totals"))
    assert found == [("c0", 0, 20), ("c0", 10, 70), ("c0", 20, 120), ("c1", 0, 25), ("c1", 10, 75), ("c1", 20, 125)]


def test_what_spark_reads_is_a_table(spark: Any, tmp_path: Path) -> None:
    spark.range(3).selectExpr("id", "concat('n', id) as name").createOrReplaceTempView("numbers_of_spark")
    settings = {"headrace.runtime": "spark", "execution.checkpointing.dir": str(tmp_path / "ck")}
    tables = session(
        "CREATE TABLE t (name STRING, id INT) WITH ('connector'='spark', 'table'='numbers_of_spark')", **settings
    )
    assert sorted(rows(tables, "SELECT * FROM t WHERE id > 0")) == [("n1", 1), ("n2", 2)]


def test_joins_are_put_in_order_by_what_spark_knows(spark: Any, tmp_path: Path) -> None:
    for name, rows_of in (("big_of_spark", 5000), ("few_of_spark", 5)):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        made = spark.range(rows_of).selectExpr("id % 500 AS k", "CAST('2024-01-01' AS DATE) AS day")
        made.write.mode("overwrite").option("path", f"{tmp_path}/{name}").saveAsTable(name)
    try:
        spark.sql("ANALYZE TABLE big_of_spark COMPUTE STATISTICS FOR ALL COLUMNS")
        tables = session(
            *(
                f"CREATE TABLE {name} (k BIGINT, `day` DATE) WITH ('connector'='spark', 'table'='{name}_of_spark')"
                for name in ("big", "few")
            ),
            is_streaming=False,
            **{"headrace.runtime": "spark"},
        )
        known = table_source(tables, "big").statistics
        assert known is not None
        assert (known.rows, known.column("k").lowest, known.column("k").highest) == (5000, 0, 499)
        assert (known.column("k").nulls, known.column("day").lowest) == (0, date(2024, 1, 1))
        assert 400 < (known.column("k").distinct or 0) < 600
        small = table_source(tables, "few").statistics  # nobody has counted it: its size tells
        assert small is not None
        assert 0 < small.rows < 5000
        query = "SELECT l.k FROM big AS l JOIN big AS m ON l.k = m.k JOIN few AS s ON l.k = s.k"
        plan = tables.explain_sql(query).partition("== Optimized Physical Plan ==")[2]
        assert plan.index("few]") < plan.rindex("big]")
    finally:
        for name in ("big_of_spark", "few_of_spark"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def table_source(tables: Any, name: str) -> TableSource:
    """The source of a table, as plans of batch mode have it."""
    (scan,) = (node for node in tables.from_path(name).relation.walk() if isinstance(node, Scan))
    return source_of_scan(scan, ConversionContext(True, tables.planner().settings))


def test_rows_of_spark_and_of_files_are_looked_up(spark: Any, tmp_path: Path) -> None:
    spark.range(3).selectExpr("id", "concat('n', id) as name").createOrReplaceTempView("names_of_spark")
    (tmp_path / "ages.csv").write_text("1,30\n2,40\n")
    settings = {"headrace.runtime": "spark", "execution.checkpointing.dir": str(tmp_path / "ck")}
    tables = session(
        "CREATE TABLE names (name STRING, id INT) WITH ('connector'='spark', 'table'='names_of_spark')",
        "CREATE TABLE ages (id INT, age INT) "
        f"WITH ('connector'='filesystem', 'path'='{tmp_path}/ages.csv', 'format'='csv')",
        "CREATE VIEW ids AS SELECT id, PROCTIME() AS pt FROM (VALUES (0), (1), (2), (7)) AS t(id)",
        **settings,
    )
    found = rows(
        tables,
        "SELECT i.id, n.name, a.age FROM ids i JOIN names FOR SYSTEM_TIME AS OF i.pt AS n ON i.id = n.id "
        "LEFT JOIN ages FOR SYSTEM_TIME AS OF i.pt AS a ON i.id = a.id",
    )
    assert sorted(found, key=str) == [(0, "n0", None), (1, "n1", 30), (2, "n2", 40)]
