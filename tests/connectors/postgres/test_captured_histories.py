"""Whatever is written while a table is read, and whenever the job starts again, its rows end as those of the table."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.connectors.source import ReadBudget
from tests.connectors.postgres.capture import Capture
from tests.connectors.postgres.server import Database

pytestmark = pytest.mark.integration

COLUMNS = "id INT, card STRING, amount INT"
TABLES = {
    "upsert": ("id int PRIMARY KEY", "DEFAULT", {"changelog-mode": "upsert"}),
    "all": ("id int PRIMARY KEY", "FULL", {}),
    "keyless": ("id int", "FULL", {"scan.incremental.snapshot.chunk.key-column": "id"}),
}


def statement(draw: random.Random) -> str:
    """One that changes some rows."""
    key, other, more = draw.randrange(60), draw.randrange(60), draw.randrange(8)
    card = draw.choice(["NULL", "'a'", "'ü'", "repeat('x', 50)"])
    return draw.choice(
        [
            f"INSERT INTO orders SELECT n, {card}, {other} FROM generate_series({key}, {key + more}) n {{}}",
            f"UPDATE orders SET amount = amount + 1, card = {card} WHERE id % 7 = {key % 7}",
            f"UPDATE orders SET id = {key + 60} WHERE id = {key} AND {key + 60} NOT IN (SELECT id FROM orders)",
            f"DELETE FROM orders WHERE id BETWEEN {key} AND {key + more // 2}",
        ]
    )


def write(database: Database, draw: random.Random, on_conflict: str) -> None:
    """A transaction, which may be taken back, or end after another one that began later."""
    statements = [statement(draw).format(on_conflict) for _ in range(draw.randrange(1, 6))]
    kind = draw.random()
    if kind < 0.6:
        database.transaction(*statements)
    elif kind < 0.8:
        database.transaction(statements[0], "SAVEPOINT s", *statements[1:], "ROLLBACK TO SAVEPOINT s", *statements[:1])
    else:
        with database.connect() as first, first.transaction():
            first.execute("INSERT INTO orders VALUES (1000, 'late', 1)")
            database.transaction("DELETE FROM orders WHERE id = 1000", *statements[:1])
            first.execute("DELETE FROM orders WHERE id = 1000")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("table", TABLES)
def test_rows_end_as_those_of_the_table(database: Database, table: str, seed: int) -> None:
    draw = random.Random(f"{table} {seed}")
    key, identity, options = TABLES[table]
    on_conflict = "ON CONFLICT DO NOTHING" if "PRIMARY" in key else ""
    database.execute(
        f"CREATE TABLE orders ({key}, card text, amount int)",
        f"ALTER TABLE orders REPLICA IDENTITY {identity}",
        "INSERT INTO orders SELECT n, 'c' || n, n FROM generate_series(1, 40) n",
    )
    capture = Capture(database, COLUMNS, {**options, "scan.incremental.snapshot.chunk.size": "3"})
    for _ in range(40):
        budget = ReadBudget(draw.choice([1, 5, 7, 1000]), draw.choice([1_000, 10**6]), 2)
        capture.epoch(budget, fails=(fails := draw.random() < 0.1))
        if draw.random() < 0.4:
            write(database, draw, on_conflict)
        if fails or draw.random() < 0.2:
            capture.restart()
    capture.catch_up(ReadBudget(7, 10**6, 2))
    capture.close()
    found: list[Any] = database.rows("SELECT id, card, amount FROM orders")
    if table == "upsert":
        assert sorted(map(repr, capture.upserted().values())) == sorted(map(repr, found))
    else:
        assert sorted(map(repr, capture.retracted().elements())) == sorted(map(repr, found))
