"""Tables on Spark: windows from files to files, and what Spark reads as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
