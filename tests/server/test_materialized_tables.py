"""Materialized tables whose jobs a dispatcher runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Configuration
from headrace.common.errors import InvalidProgramError
from headrace.table import EnvironmentSettings, TableEnvironment
from headrace.table.environment.dispatcher_schedules import DispatcherSchedules
from tests.server.clusters import SETTINGS, Cluster
from tests.table.connectors.session import rows, run, session
from tests.waiting import wait_for


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "storage")
    yield made
    made.service.stop()


def shop(path: Path, cluster: Cluster, mode: str = "STREAMING") -> TableEnvironment:
    log = f"'path' = '{path}/log', 'auto-create.partitions' = '1'"
    return session(
        f"CREATE CATALOG shop WITH ('type' = 'file', 'path' = '{path}/catalog')",
        "USE CATALOG shop",
        f"""CREATE TABLE IF NOT EXISTS payments (card STRING, amount INT, pt AS PROCTIME())
            WITH ('connector' = 'log', 'topic' = 'payments', 'format' = 'json', {log})""",
        **{
            "execution.runtime-mode": mode,
            "execution.checkpointing.savepoint-dir": f"{path}/savepoints",
            "materialized-table.dispatcher": cluster.service.address,
        },
    )


def seen(tables: TableEnvironment) -> list[Any]:
    return rows(tables, "SELECT * FROM totals /*+ OPTIONS('scan.bounded.mode' = 'latest-offset') */")


@pytest.mark.slow
def test_a_streaming_job_and_a_refresh_are_jobs_of_the_dispatcher(tmp_path: Path, cluster: Cluster) -> None:
    tables, reader = shop(tmp_path, cluster), shop(tmp_path, cluster, "BATCH")
    tables.get_config().set("execution.checkpointing.dir", f"{tmp_path}/checkpoints")
    run(reader, "INSERT INTO payments VALUES ('a', 1)")
    tables.execute_sql(f"""
        CREATE MATERIALIZED TABLE totals
        WITH ('connector' = 'log', 'topic' = 'totals', 'format' = 'json', 'path' = '{tmp_path}/log',
              'auto-create.partitions' = '1')
        FRESHNESS = INTERVAL '1' SECOND
        AS SELECT card, SUM(amount) OVER (PARTITION BY card ORDER BY pt) AS total FROM payments""")
    wait_for(lambda: len(seen(reader)) == 1)
    with pytest.raises(InvalidProgramError, match="is being refreshed already"):
        tables.execute_sql("ALTER MATERIALIZED TABLE totals RESUME")
    tables.execute_sql("ALTER MATERIALIZED TABLE totals SUSPEND")
    run(reader, "INSERT INTO payments VALUES ('a', 2)")
    tables.execute_sql("ALTER MATERIALIZED TABLE totals RESUME")
    wait_for(lambda: len(seen(reader)) == 2)
    assert seen(reader) == [("a", 1), ("a", 3)]
    tables.execute_sql("DROP MATERIALIZED TABLE totals")
    tables.execute_sql(f"""
        CREATE MATERIALIZED TABLE totals
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/totals', 'format' = 'json') REFRESH_MODE = FULL
        AS SELECT card, SUM(amount) AS total
        FROM payments /*+ OPTIONS('scan.bounded.mode' = 'latest-offset') */ GROUP BY card""")
    ((job, _),) = rows(tables, "ALTER MATERIALIZED TABLE totals REFRESH")
    cluster.wait_for(job, "FINISHED")
    assert rows(reader, "SELECT * FROM totals") == [("a", 3)]
    assert "Materialized_table_`shop`.`default`.`totals`" in cluster.rest.get("jobs", job)["name"]


@pytest.mark.slow
def test_a_dispatcher_refreshes_a_table_without_its_program(tmp_path: Path, cluster: Cluster) -> None:
    store = {"table.catalog-store.kind": "file", "table.catalog-store.file.path": str(tmp_path / "store")}
    configuration = Configuration.from_dict(
        SETTINGS
        | {
            "high-availability.storageDir": str(tmp_path / "storage"),
            "headrace.cluster.catalog-store": f"{tmp_path}/store",
        }
    )
    schedules = DispatcherSchedules(configuration, cluster.service.address, lambda: cluster.service.dispatcher.leads)
    schedules.start()
    left = {"materialized-table.dispatcher": cluster.service.address, "materialized-table.scheduler": "dispatcher"}
    of_jobs = {"headrace.runtime": "local", "parallelism.default": "1"}
    settings = EnvironmentSettings(is_streaming=False, configuration=Configuration.from_dict(store | left | of_jobs))
    tables = TableEnvironment.create(settings)
    tables.execute_sql(f"CREATE CATALOG shop WITH ('type' = 'file', 'path' = '{tmp_path}/catalog')")
    tables.execute_sql("USE CATALOG shop")
    for name in ("sales", "sums"):
        where = f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/{name}', 'format' = 'json')"
        if name == "sales":
            tables.execute_sql(f"CREATE TABLE sales (amount INT) {where}")
            run(tables, "INSERT INTO sales VALUES (1), (2)")
        else:
            tables.execute_sql(
                f"CREATE MATERIALIZED TABLE sums {where} FRESHNESS = INTERVAL '1' SECOND REFRESH_MODE = FULL "
                "AS SELECT SUM(amount) AS total FROM sales"
            )
    tables.keep_refreshing()  # there is nothing to wait for
    wait_for(lambda: (tmp_path / "sums").is_dir() and rows(tables, "SELECT * FROM sums") == [(3,)])
    run(tables, "INSERT INTO sales VALUES (4)")
    wait_for(lambda: rows(tables, "SELECT * FROM sums") == [(7,)])
    schedules.stop()
