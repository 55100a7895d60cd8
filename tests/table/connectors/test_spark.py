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
