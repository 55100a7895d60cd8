"""Several tables of PostgreSQL are read by one source: those whose names match a pattern, in the order of commits."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.common.errors import ConfigurationError, HeadraceError
from headrace.connectors.source import ReadBudget
from tests.connectors.postgres.capture import Capture
from tests.connectors.postgres.server import Database

pytestmark = pytest.mark.integration

COLUMNS = "id INT, card STRING"
UPSERT = {"changelog-mode": "upsert"}
ADDS = "scan.newly-added-table.enabled"
SHARDS = ("orders_1", "orders_2", "orders_3")


def tables(database: Database, *names: str, identity: str = "DEFAULT") -> None:
    for name in names:
        database.execute(
            f"CREATE TABLE {name} (id int PRIMARY KEY, card text)", f"ALTER TABLE {name} REPLICA IDENTITY {identity}"
        )


def capture_of(database: Database, options: dict[str, str], pattern: str = "orders_[0-9]+") -> Capture:
    """A source of all tables that match, which tells of each row which table it is of."""
    return Capture(database, COLUMNS, {"table-name": pattern, "publication.name": "p", **options}, ("table_name",))


def test_tables_come_one_after_the_other_and_their_changes_as_they_were_committed(database: Database) -> None:
    tables(database, *SHARDS, "orders_x", "others")
    for number, name in enumerate((*SHARDS, "orders_x")):
        database.execute(f"INSERT INTO {name} SELECT n, 'c' || n FROM generate_series(1, {number * 3}) n")
    capture = capture_of(database, {**UPSERT, "scan.incremental.snapshot.chunk.size": "2"})
    assert capture.epoch(ReadBudget(8, 10**6, 2)) == 5  # four chunks: no row, two rows and one, the first two
    capture.catch_up(ReadBudget(4, 10**6, 2))
    assert sorted(capture.rows) == [
        *(("+I", n, f"c{n}", name) for n in range(1, 4) for name in ("orders_2", "orders_3")),
        *(("+I", n, f"c{n}", "orders_3") for n in range(4, 7)),
    ]
    with database.connect() as connection, connection.transaction():  # rows move from table to table, and back
        for number in range(4):
            one, other = ("orders_2", "orders_1")[:: 1 - 2 * (number % 2)]
            connection.execute(f"DELETE FROM {one} WHERE id = 1")
            connection.execute(f"INSERT INTO others VALUES ({number})")
            connection.execute(f"INSERT INTO {other} VALUES (1, 'm{number}')")
    moves = [("orders_2", "orders_1"), ("orders_1", "orders_2")] * 2
    assert capture.catch_up() == [
        row
        for number, (one, other) in enumerate(moves)
        for row in (("-D", 1, None, one), ("+I", 1, f"m{number}", other))
    ]
    database.execute("ALTER TABLE orders_1 ADD COLUMN more int", "INSERT INTO orders_1 VALUES (7, 'a', 1)")
    database.execute("INSERT INTO orders_3 VALUES (7, 'b')", "UPDATE orders_1 SET card = 'c' WHERE id = 7")
    assert capture.catch_up() == [
        ("+I", 7, "a", "orders_1"),
        ("+I", 7, "b", "orders_3"),
        ("+U", 7, "c", "orders_1"),
    ]
    slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    assert database.rows(slots) == [(1,)]
    capture.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mode", ["upsert", "all"])
def test_rows_end_as_those_of_the_tables(database: Database, mode: str, seed: int) -> None:
    draw = random.Random(f"{mode} {seed}")
    tables(database, *SHARDS, identity="DEFAULT" if mode == "upsert" else "FULL")
    for name in SHARDS:
        database.execute(f"INSERT INTO {name} SELECT n, '{name}' FROM generate_series(1, 9) n")
    options = {"changelog-mode": mode, "scan.incremental.snapshot.chunk.size": "3", ADDS: str(seed % 2 == 0)}
    capture, names = capture_of(database, options), list(SHARDS)
    for _ in range(30):
        capture.epoch(ReadBudget(draw.choice([1, 5, 7, 1000]), 10**6, 2), fails=(fails := draw.random() < 0.1))
        if draw.random() < 0.5:
            database.transaction(*(statement(draw, names) for _ in range(draw.randrange(1, 6))))
        if seed % 2 == 0 and draw.random() < 0.1:
            names.insert(0, f"orders_0{len(names)}")  # before the others, by its name
            tables(database, names[0], identity="DEFAULT" if mode == "upsert" else "FULL")
            database.execute(f"INSERT INTO {names[0]} SELECT n, 'added' FROM generate_series(1, 9) n")
        if fails or draw.random() < 0.2:
            capture.restart()
    capture.restart()
    capture.catch_up(ReadBudget(7, 10**6, 2))
    capture.close()
    wanted: list[Any] = [
        (*row, name) for name in names for row in database.rows(f"SELECT id, card FROM {name} ORDER BY id")
    ]
    if mode == "all":
        assert sorted(capture.retracted().elements(), key=repr) == sorted(wanted, key=repr)
        return
    found: dict[Any, Any] = {}
    for kind, key, card, name in capture.rows:
        if kind == "-D":
            del found[key, name]
        else:
            assert kind == "+U" or (key, name) not in found
            found[key, name] = (key, card, name)
    assert sorted(found.values(), key=repr) == sorted(wanted, key=repr)


def statement(draw: random.Random, names: list[str]) -> str:
    """One that changes some rows of a table."""
    name, key = draw.choice(names), draw.randrange(12)
    return draw.choice(
        [
            f"INSERT INTO {name} SELECT n, 'n' FROM generate_series({key}, {key + 3}) n ON CONFLICT DO NOTHING",
            f"UPDATE {name} SET card = card || 'x' WHERE id % 3 = {key % 3}",
            f"UPDATE {name} SET id = id + 100 WHERE id = {key} AND {key + 100} NOT IN (SELECT id FROM {name})",
            f"DELETE FROM {name} WHERE id BETWEEN {key} AND {key + 1}",
        ]
    )


def test_the_tables_are_those_that_matched_when_the_job_began(database: Database) -> None:
    tables(database, *SHARDS)
    database.execute("CREATE PUBLICATION p FOR ALL TABLES")
    capture = capture_of(database, UPSERT)
    capture.catch_up()
    tables(database, "orders_4")
    database.execute("INSERT INTO orders_4 VALUES (1, 'no')", "INSERT INTO orders_3 VALUES (1, 'last')")
    database.execute("DROP TABLE orders_3", "INSERT INTO orders_2 VALUES (1, 'a')")
    capture.restart()
    assert capture.catch_up() == [("+I", 1, "last", "orders_3"), ("+I", 1, "a", "orders_2")]
    capture.close()


def test_tables_that_match_at_a_restart_are_read_from_then_on(database: Database) -> None:
    tables(database, "orders_2", "orders_5")
    database.execute("INSERT INTO orders_5 VALUES (1, 'a')")
    capture = capture_of(database, {**UPSERT, ADDS: "true", "scan.incremental.snapshot.chunk.size": "2"})
    assert capture.catch_up() == [("+I", 1, "a", "orders_5")]
    tables(database, "orders_1", "orders_3")
    database.execute("INSERT INTO orders_3 SELECT n, 'n' || n FROM generate_series(1, 5) n")
    database.execute("INSERT INTO orders_2 VALUES (1, 'b')")
    assert capture.catch_up() == [("+I", 1, "b", "orders_2")]
    database.execute("UPDATE orders_2 SET card = 'c'", "DELETE FROM orders_3 WHERE id = 5")
    capture.restart()
    capture.epoch(ReadBudget(4, 10**6, 2))
    database.execute("UPDATE orders_3 SET card = 'm' WHERE id IN (1, 4)", "INSERT INTO orders_1 VALUES (1, 'd')")
    capture.restart()
    tables(database, "orders_4")
    found = capture.catch_up(ReadBudget(4, 10**6, 2))
    upserted: dict[Any, Any] = {}
    for kind, key, card, name in (row for row in capture.rows if row[3] == "orders_3"):
        assert kind in ("+I", "+U")
        upserted[key] = card, name
    assert upserted == {key: (card, "orders_3") for key, card in {1: "m", 2: "n2", 3: "n3", 4: "m"}.items()}
    assert [row for row in found if row[3] == "orders_2"] == [("+U", 1, "c", "orders_2")]
    assert [row for row in found if row[3] == "orders_1"] == [("+I", 1, "d", "orders_1")]
    capture.restart()
    database.execute("INSERT INTO orders_4 VALUES (1, 'e')", "INSERT INTO orders_3 VALUES (6, 'f')")
    assert capture.catch_up() == [("+I", 1, "e", "orders_4"), ("+I", 6, "f", "orders_3")]
    capture.close()


@pytest.mark.parametrize(
    ("options", "pattern", "reason"),
    [({}, "orders", "are no patterns"), ({"scan.startup.mode": "snapshot"}, "orders_.*", "the source ends")],
)
def test_tables_are_added_to_patterns_of_sources_without_end(
    database: Database, options: dict[str, str], pattern: str, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        capture_of(database, {**UPSERT, ADDS: "true", **options}, pattern)


def test_partitions_are_part_of_their_table_and_schemas_match_too(database: Database) -> None:
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, card text) PARTITION BY RANGE (id)",
        "CREATE TABLE orders_1 PARTITION OF orders FOR VALUES FROM (0) TO (10)",
        "CREATE SCHEMA north",
        "CREATE TABLE north.orders (id int PRIMARY KEY, card text)",
        "INSERT INTO orders VALUES (1, 'a')",
        "INSERT INTO north.orders VALUES (1, 'b')",
    )
    options = {**UPSERT, "schema-name": "public|north", "table-name": "orders.*", "publication.name": "p"}
    capture = Capture(database, COLUMNS, options, ("schema_name", "table_name"))
    capture.catch_up()
    assert sorted(capture.rows) == [("+I", 1, "a", "public", "orders"), ("+I", 1, "b", "north", "orders")]
    database.execute("UPDATE orders SET card = 'c'")
    assert capture.catch_up() == [("+U", 1, "c", "public", "orders")]
    capture.close()


def refused(capture: Capture) -> str:
    with pytest.raises(HeadraceError) as told:
        capture.catch_up()
    capture.close()
    return str(told.value)


def test_what_cannot_be_read_is_told_of_its_table(database: Database) -> None:
    with pytest.raises(ConfigurationError, match=r"'table-name' = 'orders_\[' is no regular expression"):
        capture_of(database, UPSERT, "orders_[")
    tables(database, "orders_1", "orders_2")
    assert "there are public.orders_1, public.orders_2" in refused(capture_of(database, UPSERT, "order_.*"))
    database.execute("CREATE TABLE orders_3 (id int PRIMARY KEY)")
    assert "table public.orders_3 has no column 'card'" in refused(capture_of(database, UPSERT))
    database.execute("DROP TABLE orders_3", "CREATE PUBLICATION p FOR TABLE orders_2")
    assert 'ADD TABLE "public"."orders_1", or' in refused(capture_of(database, UPSERT))
    database.execute("ALTER PUBLICATION p ADD TABLE orders_1")
    capture = capture_of(database, UPSERT)
    capture.catch_up()
    database.execute("INSERT INTO orders_1 VALUES (1, 'a')", "INSERT INTO orders_2 VALUES (1, 'b')")
    database.execute("TRUNCATE orders_2")
    assert "table public.orders_2 was truncated" in refused(capture)
    assert [row[3] for row in capture.rows] == ["orders_1", "orders_2"]
