"""A materialized table whose jobs run on Spark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from headrace.table import TableEnvironment
from tests.table.connectors.session import rows, run, session
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def shop(path: Path, **settings: str) -> TableEnvironment:
    log = f"'path' = '{path}/log', 'auto-create.partitions' = '1'"
    return session(
        f"CREATE CATALOG shop WITH ('type' = 'file', 'path' = '{path}/catalog')",
        "USE CATALOG shop",
        f"""CREATE TABLE IF NOT EXISTS payments (card STRING, amount INT, pt AS PROCTIME())
            WITH ('connector' = 'log', 'topic' = 'payments', 'format' = 'json', {log})""",
        **{"execution.checkpointing.savepoint-dir": f"{path}/savepoints"} | settings,
    )


def test_a_table_is_suspended_and_resumed_and_another_refreshed(spark: Any, tmp_path: Path) -> None:
    on_spark = {"headrace.runtime": "spark", "execution.checkpointing.dir": f"{tmp_path}/checkpoints"}
    tables, local = shop(tmp_path, **on_spark), shop(tmp_path, **{"execution.runtime-mode": "BATCH"})
    bounded = "/*+ OPTIONS('scan.bounded.mode' = 'latest-offset') */"

    def seen() -> list[Any]:
        time.sleep(0.2)
        return rows(local, f"SELECT * FROM totals {bounded}")

    run(local, "INSERT INTO payments VALUES ('a', 1)")
    tables.execute_sql(f"""
        CREATE MATERIALIZED TABLE totals
        WITH ('connector' = 'log', 'topic' = 'totals', 'format' = 'json', 'path' = '{tmp_path}/log',
              'auto-create.partitions' = '1')
        FRESHNESS = INTERVAL '1' SECOND
        AS SELECT card, SUM(amount) OVER (PARTITION BY card ORDER BY pt) AS total FROM payments""")
    wait_for(lambda: len(seen()) == 1)
    tables.execute_sql("ALTER MATERIALIZED TABLE totals SUSPEND")
    run(local, "INSERT INTO payments VALUES ('a', 2)")
    tables.execute_sql("ALTER MATERIALIZED TABLE totals RESUME")
    wait_for(lambda: len(seen()) == 2)
    assert seen() == [("a", 1), ("a", 3)]
    tables.execute_sql(f"""
        CREATE MATERIALIZED TABLE sums
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/sums', 'format' = 'parquet') REFRESH_MODE = FULL
        AS SELECT card, SUM(amount) AS total FROM payments {bounded} GROUP BY card""")
    for _ in range(2):
        tables.execute_sql("ALTER MATERIALIZED TABLE sums REFRESH").wait()
        assert rows(local, "SELECT * FROM sums") == [("a", 3)]
    for name in ("totals", "sums"):
        tables.execute_sql(f"DROP MATERIALIZED TABLE {name}")
    assert tables.list_tables() == ["payments"]
