"""One job of many statements between topics of the embedded log, with an operator of another kind in each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, Final

from headrace.log import Consumer
from headrace.table import TableEnvironment
from headrace.table.table_result import TableResult
from tests.table.connectors.session import run, session

ORDERS: Final = "id BIGINT, k STRING, n BIGINT, price DECIMAL(10, 2), at_time TIMESTAMP(3)"
TUMBLE: Final = "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at_time), INTERVAL '10' SECOND))"
SESSION: Final = "TABLE(SESSION(TABLE orders PARTITION BY k, DESCRIPTOR(at_time), INTERVAL '3' SECOND))"
NUMBER: Final = "ROW_NUMBER() OVER (PARTITION BY k, window_start, window_end ORDER BY n, id)"
NUMBERED: Final = "SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {}) AS rn FROM orders"

ROWS_OF_MATCHES: Final = (
    "MEASURES MATCH_NUMBER() AS m, CLASSIFIER() AS v, FINAL SUM(n) - SUM(n) AS s ALL ROWS PER MATCH "
    "AFTER MATCH SKIP PAST LAST ROW PATTERN ((UP | DOWN)+ {- OTHER -}?) WITHIN INTERVAL '1' MINUTE "
    "DEFINE UP AS n > PREV(n), DOWN AS n < LAST(UP.n)"
)
MATCH: Final = (
    "MEASURES A.id AS a, C.id AS c, COUNT(B.n) AS n PATTERN (A B+? C) "
    "DEFINE B AS B.n >= A.n OR B.n > LAST(B.n, 1), C AS C.n < LAST(B.n)"
)

STATEMENTS: Final = {
    "counts": ("k STRING, c BIGINT, s DECIMAL(38, 2)", "SELECT k, COUNT(*), SUM(price) FROM orders GROUP BY k"),
    "cubes": ("k STRING, g BIGINT, c BIGINT", "SELECT k, GROUPING(k), COUNT(DISTINCT n) FROM orders GROUP BY CUBE (k)"),
    "tops": ("k STRING, id BIGINT, rn BIGINT", f"SELECT k, id, rn FROM ({NUMBERED.format('n, id')}) WHERE rn <= 3"),
    "firsts": ("k STRING, id BIGINT", f"SELECT k, id FROM ({NUMBERED.format('at_time')}) WHERE rn = 1"),
    "lasts": ("k STRING, id BIGINT", f"SELECT k, id FROM ({NUMBERED.format('at_time DESC')}) WHERE rn = 1"),
    "overs": (
        "k STRING, id BIGINT, s BIGINT",
        "SELECT k, id, SUM(n) OVER (PARTITION BY k ORDER BY at_time ROWS 3 PRECEDING) FROM orders",
    ),
    "windows": (
        "k STRING, w TIMESTAMP(3), s BIGINT, m STRING",
        f"SELECT k, window_start, SUM(n), MAX(k) FROM {TUMBLE} GROUP BY k, window_start, window_end",
    ),
    "sessions": (
        "k STRING, w TIMESTAMP(3), c BIGINT",
        f"SELECT k, window_start, COUNT(*) FROM {SESSION} GROUP BY k, window_start, window_end",
    ),
    "window_tops": (
        "k STRING, w TIMESTAMP(3), id BIGINT",
        f"SELECT k, window_end, id FROM (SELECT *, {NUMBER} AS rn FROM {TUMBLE}) WHERE rn <= 2",
    ),
    "patterns": (
        "k STRING, a BIGINT, c BIGINT, n BIGINT",
        f"SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY k ORDER BY at_time, id {MATCH})",
    ),
    "preferred_matches": (
        "k STRING, id BIGINT, m BIGINT, v STRING, s BIGINT",
        f"SELECT k, id, m, v, s FROM orders MATCH_RECOGNIZE (PARTITION BY k ORDER BY at_time, id {ROWS_OF_MATCHES})",
    ),
    "common": ("k STRING", "SELECT k FROM orders WHERE n < 5 INTERSECT SELECT k FROM orders WHERE n > 15"),
    "elements": ("k STRING, y BIGINT", "SELECT k, y FROM orders CROSS JOIN UNNEST(ARRAY[id, n]) AS u(y) WHERE y < 30"),
}  # fmt: skip
"""The columns of what each statement writes, and its query; the first column is the key."""

FEW: Final = ["counts", "tops", "overs", "windows", "common"]


def environment(folder: Path, runtime: str, jobs: str = "jobs", **settings: str) -> TableEnvironment:
    """Tables in topics of the embedded log: orders, and for each statement one of changes, and one by key."""
    path = f"'path' = '{folder}/shop.log', 'auto-create.partitions' = '1', 'scan.bounded.mode' = 'latest-offset'"
    known = {"headrace.runtime": runtime, "parallelism.default": "2", "execution.checkpointing.dir": f"{folder}/{jobs}"}
    tables = session(
        f"CREATE TABLE orders ({ORDERS}, WATERMARK FOR at_time AS at_time - INTERVAL '1' SECOND) WITH ('connector' = "
        f"'log', 'topic' = 'orders', 'format' = 'json', {path})",
        **known | settings,
    )
    changes = f"'connector' = 'log', 'format' = 'debezium-json', {path}"
    for name, (columns, _) in STATEMENTS.items():
        tables.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ('topic' = '{name}', {changes})")
    tables.execute_sql(
        "CREATE TABLE totals (k STRING, c BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert-log', "
        f"'topic' = 'totals', 'key.format' = 'raw', 'value.format' = 'json', {path})"
    )
    return tables


def fill(folder: Path) -> None:
    """Writes the orders."""
    chance = Random(7)
    values = ", ".join(
        f"({number}, '{chance.choice('abcdefg')}', {chance.randrange(20)}, {chance.randrange(1000, 9999) / 100:.2f}, "
        f"TIMESTAMP '2024-02-29 12:00:{number // 4:02}.{chance.randrange(1000):03}')"
        for number in range(200)
    )
    run(environment(folder, "local", "filling"), f"INSERT INTO orders VALUES {values}")


def written(folder: Path, name: str) -> dict[Any, list[Any]]:
    """The messages of a topic by the key in them, in order."""
    consumer = Consumer(f"{folder}/shop.log", auto_offset_reset="earliest")
    consumer.subscribe([name])
    found = defaultdict(list)
    for record in consumer.poll(1):
        value = None if record.value is None else record.value.decode()
        key = record.key or (value or "").partition('"k":')[2].partition(",")[0]
        found[key].append(value)
    return dict(found)


def insert(tables: TableEnvironment, names: Iterable[str]) -> TableResult:
    """Starts the job of some statements, and of one that writes by key."""
    statements = tables.create_statement_set()
    for name in names:
        statements.add_insert_sql(f"INSERT INTO {name} {STATEMENTS[name][1]}")
    statements.add_insert_sql("INSERT INTO totals SELECT k, COUNT(*) FROM orders GROUP BY k")
    return statements.execute()


def outcome(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """What the job has written to the topics, by key and in order."""
    return {name: written(folder, name) for name in [*names, "totals"]}
