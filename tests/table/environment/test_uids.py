"""The identity of operators: it comes from the plan of their statement, and state is found again by it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Types
from headrace.datastream import StreamExecutionEnvironment
from headrace.log import Consumer
from headrace.table import StreamTableEnvironment, TableEnvironment
from tests.table.connectors.session import run, session
from tests.waiting import PATIENCE

PAYMENTS = "CREATE TABLE payments (card STRING, amount INT) WITH ('connector' = 'datagen')"
TOTALS = "INSERT INTO totals SELECT card, SUM(amount) FROM payments GROUP BY card"
LARGE = "INSERT INTO big SELECT card, COUNT(*) FROM payments WHERE amount > 3 GROUP BY card"


def nodes(tables: TableEnvironment, *inserts: str) -> dict[str | None, Any]:
    """The operators of one job, by uid."""
    statements = tables.create_statement_set()
    for insert in inserts:
        statements.add_insert_sql(insert)
    planner, graph = tables.planner(), tables.new_graph()
    planner.translated(planner.plan(statements._relations), graph)
    return {node.uid: node for node in graph}


def blackholes() -> TableEnvironment:
    columns = "(card STRING, n BIGINT) WITH ('connector' = 'blackhole')"
    return session(PAYMENTS, f"CREATE TABLE totals {columns}", f"CREATE TABLE big {columns}")


def test_uids_do_not_depend_on_other_statements() -> None:
    totals, large = nodes(blackholes(), TOTALS), nodes(blackholes(), LARGE)
    together = nodes(blackholes(), LARGE, TOTALS)
    assert totals.keys() | large.keys() == together.keys()
    assert sum(node.name == "payments" for node in together.values()) == 1
    changed = TOTALS.replace("SUM", "MAX")
    others = {node.name for uid, node in nodes(blackholes(), changed).items() if uid not in totals}
    assert "GroupAggregate" in others
    assert "payments" not in others


def test_what_is_random_is_not_shared() -> None:
    tables = session("CREATE TABLE p (n DOUBLE) WITH ('connector'='blackhole')", PAYMENTS)
    insert = "INSERT INTO p SELECT RAND() FROM payments"
    found = nodes(tables, insert, insert)
    names = [node.name for node in found.values()]
    assert (names.count("Calc"), names.count("payments")) == (2, 1)


def test_uids_over_streams_do_not_depend_on_how_many_tables_there_are() -> None:
    def uids(others: int) -> set[str | None]:
        env = StreamExecutionEnvironment.get_execution_environment()
        tables = StreamTableEnvironment.create(env)
        stream = env.from_collection([("a", 1)], Types.ROW_NAMED(["k", "v"], [str, int])).uid("numbers")
        for number in range(others):
            tables.create_temporary_view(f"v{number}", stream)
        tables.create_temporary_view("numbers", stream)
        tables.to_changelog_stream(tables.sql_query("SELECT k, SUM(v) FROM numbers GROUP BY k"))
        return {node.uid for node in env.transformations.graph if node.name in ("GroupAggregate", "Calc")}

    assert uids(0) == uids(2)
    assert None not in uids(0)


_JOB = """
import json, sys, time
from headrace.log import Consumer
from tests.table.connectors.session import session

path, wanted, first, settings = sys.argv[1], int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
where = f"'connector'='log', 'path'='{path}/log', 'auto-create.partitions'='1', 'format'='json'"
log = f"'path'='{path}/log', 'auto-create.partitions'='1'"
where = f"'connector'='log', {log}, 'format'='json'"
up = f"'connector'='upsert-log', {log}, 'key.format'='json', 'value.format'='json'"
tables = session(
    f"CREATE TABLE payments (card STRING, amount INT) WITH ({where}, 'topic'='payments')",
    f"CREATE TABLE totals (card STRING, n BIGINT, PRIMARY KEY (card) NOT ENFORCED) WITH ({up}, 'topic'='totals')",
    "CREATE TABLE big (card STRING, n BIGINT) WITH ('connector'='print')",
    **settings,
)
statements = tables.create_statement_set()
if first:
    statements.add_insert_sql(first)
statements.add_insert_sql("INSERT INTO totals SELECT card, SUM(amount) FROM payments GROUP BY card")
job = statements.execute().get_job_client()
consumer = Consumer(f"{path}/log", auto_offset_reset="earliest")
consumer.subscribe(["totals"])
seen = 0
while seen < wanted:
    seen += len(consumer.poll(1))
print(job.stop_with_savepoint(False, f"{path}/savepoints").result())
"""


@pytest.mark.slow
def test_a_savepoint_is_restored_in_another_process_beside_another_statement(tmp_path: Path) -> None:
    where = f"'connector'='log', 'path'='{tmp_path}/log', 'auto-create.partitions'='1'"
    made = f"CREATE TABLE payments (card STRING, amount INT) WITH ({where}, 'topic'='payments', 'format'='json')"
    tables = session(made)

    def job(wanted: int, first: str = "", **settings: str) -> str:
        command = [sys.executable, "-c", _JOB, str(tmp_path), str(wanted), first, json.dumps(settings)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    run(tables, "INSERT INTO payments VALUES ('ann', 1), ('bob', 5)")
    savepoint = job(2)
    run(tables, "INSERT INTO payments VALUES ('ann', 10)")
    another = "INSERT INTO big SELECT card, COUNT(*) FROM payments WHERE amount > 3 GROUP BY card HAVING COUNT(*) > 9"
    job(3, another, **{"execution.state-recovery.path": savepoint})
    consumer = Consumer(f"{tmp_path}/log", auto_offset_reset="earliest")
    consumer.subscribe(["totals"])
    values = [json.loads(record.value) for record in consumer.poll(1)]
    assert [(each["card"], each["n"]) for each in values] == [("ann", 1), ("bob", 5), ("ann", 11)]
