"""A table of PostgreSQL is read with its changes: the snapshot, kinds of changes, places at which a job goes on."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest

from headrace.common.errors import ConfigurationError, HeadraceError
from headrace.connectors.source import ReadBudget
from tests.connectors.postgres.capture import Capture
from tests.connectors.postgres.server import Database, Server

pytestmark = pytest.mark.integration

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, card text, note text)"
COLUMNS = "id INT, card STRING"
UPSERT = {"changelog-mode": "upsert"}


def test_rows_that_there_are_come_in_chunks_and_then_changes(database: Database) -> None:
    database.execute(ORDERS, "INSERT INTO orders SELECT n, 'c' || n FROM generate_series(1, 20) n")
    capture = Capture(database, COLUMNS, {**UPSERT, "scan.incremental.snapshot.chunk.size": "3"}, ("op_ts",))
    few = ReadBudget(6, 10**6, 2)
    assert [capture.epoch(few) for _ in range(4)] == [6, 6, 6, 2]
    assert {row[3] for row in capture.rows} == {datetime.fromtimestamp(0, UTC)}
    database.execute(
        "INSERT INTO orders VALUES (21, NULL)",
        "UPDATE orders SET card = 'x' WHERE id = 3",
        "UPDATE orders SET id = 30 WHERE id = 4",
        "DELETE FROM orders WHERE id = 5",
    )
    found = capture.catch_up()
    assert [row[:3] for row in found] == [
        *[("+I", 21, None), ("+U", 3, "x"), ("-D", 4, None), ("+I", 30, "c4"), ("-D", 5, None)]
    ]
    assert all(row[3] > datetime(2020, 1, 1, tzinfo=UTC) for row in found)
    assert set(capture.upserted()) == {*range(1, 4), *range(6, 22), 30}
    capture.close()


def test_whole_rows_before_are_told_where_they_are_known(database: Database) -> None:
    database.execute(ORDERS, "ALTER TABLE orders REPLICA IDENTITY FULL", "INSERT INTO orders VALUES (1, 'a')")
    metadata = ("table_name", "schema_name", "database_name")
    capture = Capture(database, COLUMNS, {}, metadata)
    capture.catch_up()
    database.execute("UPDATE orders SET card = 'b'", "UPDATE orders SET id = 2", "DELETE FROM orders")
    capture.catch_up()
    place = ("orders", "public", database.name)
    assert capture.rows == [
        ("+I", 1, "a", *place),
        ("-U", 1, "a", *place),
        ("+U", 1, "b", *place),
        ("-D", 1, "b", *place),
        ("+I", 2, "b", *place),
        ("-D", 2, "b", *place),
    ]
    capture.close()


@pytest.mark.parametrize("key", ["place", "amount"])
def test_tables_without_a_key_are_cut_by_a_column(database: Database, key: str) -> None:
    database.execute(
        "CREATE TABLE orders (place text, amount float8)",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        "INSERT INTO orders SELECT 'p' || n % 3, n % 4 FROM generate_series(1, 24) n",
        "INSERT INTO orders VALUES (NULL, NULL), (NULL, 2), (NULL, 2)",
    )
    options = {"scan.incremental.snapshot.chunk.size": "2", "scan.incremental.snapshot.chunk.key-column": key}
    capture = Capture(database, "place STRING, amount DOUBLE", options)
    capture.epoch(ReadBudget(4, 10**6, 2))
    database.execute("UPDATE orders SET amount = 9 WHERE place = 'p1'", "DELETE FROM orders WHERE place IS NULL")
    capture.catch_up()
    assert sorted(capture.retracted().elements()) == sorted(database.rows("SELECT * FROM orders"))
    capture.close()


def test_modes_of_the_start(database: Database) -> None:
    database.execute(ORDERS, "INSERT INTO orders VALUES (1, 'a')")
    with pytest.raises(ConfigurationError, match="there is none"):
        Capture(database, COLUMNS, {**UPSERT, "scan.startup.mode": "committed-offset"}).epoch()
    latest = Capture(database, COLUMNS, {**UPSERT, "scan.startup.mode": "latest-offset"})
    latest.epoch()
    database.execute("INSERT INTO orders VALUES (2, 'b')")
    assert latest.catch_up() == [("+I", 2, "b")]
    latest.close()
    database.execute("INSERT INTO orders VALUES (3, 'c')")
    committed = Capture(database, COLUMNS, {**UPSERT, "scan.startup.mode": "committed-offset"})
    assert committed.catch_up() == [("+I", 3, "c")]
    committed.close()


def test_a_snapshot_alone_ends_and_leaves_no_slot(database: Database) -> None:
    database.execute(ORDERS, "INSERT INTO orders SELECT n, 'c' || n FROM generate_series(1, 20) n")
    options = {**UPSERT, "scan.startup.mode": "snapshot", "scan.incremental.snapshot.chunk.size": "3"}
    capture = Capture(database, COLUMNS, options)
    few = ReadBudget(6, 10**6, 2)
    capture.epoch(few)
    database.execute("DELETE FROM orders WHERE id IN (2, 19)", "UPDATE orders SET card = 'x' WHERE id = 3")
    capture.restart()
    while not capture.enumerator.is_finished("", capture.position):
        capture.epoch(few)
    assert capture.upserted() == {row[0]: row for row in database.rows("SELECT id, card FROM orders")}
    assert database.rows("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()") == []
    capture.restart()
    assert capture.enumerator.discover(0) == ("public.orders",)
    capture.close()


def test_a_bounded_table_ends_with_what_was_committed_before(database: Database) -> None:
    database.execute(ORDERS, "INSERT INTO orders VALUES (1, 'a')")
    capture = Capture(database, COLUMNS, {**UPSERT, "scan.bounded.mode": "latest-offset"})
    capture.epoch()
    database.execute("INSERT INTO orders VALUES (2, 'b')")
    while not capture.enumerator.is_finished("", capture.position):
        capture.epoch()
    assert capture.rows == [("+I", 1, "a")]
    capture.close()


def test_large_transactions_are_divided_and_small_ones_are_not(database: Database) -> None:
    database.execute(ORDERS)
    capture = Capture(database, COLUMNS, UPSERT)
    capture.catch_up()
    database.execute("INSERT INTO orders SELECT n, 'c' FROM generate_series(1, 100) n")
    for number in range(101, 111):
        database.execute(f"INSERT INTO orders SELECT n, 'c' FROM generate_series({number} * 10, {number} * 10 + 3) n")
    sizes, few = [], ReadBudget(30, 10**6)
    while sum(sizes) < 140:
        count = capture.epoch(few)
        sizes += [count] if count else []
        if count and len(sizes) in (2, 5):  # once in the middle of the large transaction
            capture.restart()
    ends = list(itertools.accumulate(sizes))
    assert ends[:3] == [30, 60, 90]
    assert all(end >= 100 and end % 4 == 0 for end in ends[3:])
    assert capture.upserted() == {row[0]: row for row in database.rows("SELECT id, card FROM orders")}
    capture.close()


def test_what_is_read_ahead_is_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.connectors.postgres import replication

    monkeypatch.setattr(replication, "_MOST_BYTES", 10_000)
    monkeypatch.setattr(replication, "_BATCH", 1)
    database.execute(ORDERS)
    capture = Capture(database, COLUMNS, UPSERT)
    capture.catch_up()
    database.execute("INSERT INTO orders SELECT n, repeat('c', 100) FROM generate_series(1, 1000) n")
    largest = 0
    while len(capture.rows) < 1000:
        capture.epoch()
        largest = max(largest, capture.enumerator.pending("", capture.position, 0).bytes)
    assert largest <= 10_200
    assert [row[1] for row in capture.rows] == list(range(1, 1001))
    capture.close()


def test_the_server_dies_and_comes_back(server: Server, database: Database) -> None:
    database.execute(ORDERS, "INSERT INTO orders VALUES (1, 'a')")
    capture = Capture(database, COLUMNS, UPSERT)
    capture.catch_up()
    database.execute("INSERT INTO orders VALUES (2, 'b')")
    server.kill()
    server.start()
    database.execute("INSERT INTO orders VALUES (3, 'c')")
    assert capture.catch_up() == [("+I", 2, "b"), ("+I", 3, "c")]
    capture.close()


def test_the_server_need_not_keep_what_a_manifest_holds(database: Database) -> None:
    database.execute(ORDERS)
    capture = Capture(database, COLUMNS, UPSERT)
    capture.catch_up()
    place = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database()"
    before = database.rows(place)
    database.execute("CREATE TABLE others (id int)", "INSERT INTO others SELECT generate_series(1, 1000)")
    capture.catch_up()
    wanted = f"SELECT confirmed_flush_lsn > '{before[0][0]}' FROM pg_replication_slots WHERE"
    database.wait_for(f"{wanted} database = current_database()", [(True,)])
    capture.close()


# --- what cannot be read ---------------------------------------------------------------------------------------------


def refused(capture: Capture) -> str:
    """What is told when a capture goes on."""
    with pytest.raises(HeadraceError) as told:
        capture.catch_up()
    capture.close()
    return str(told.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ALTER TABLE orders DROP COLUMN card", "'card' is not in its changes any more"),
        ("ALTER TABLE orders RENAME COLUMN card TO code", "'card' is not in its changes any more"),
        ("ALTER TABLE orders ALTER COLUMN id TYPE numeric", "'id' is numeric in PostgreSQL"),
        ("TRUNCATE orders", "was truncated"),
        ("ALTER TABLE orders REPLICA IDENTITY NOTHING", "REPLICA IDENTITY FULL"),
    ],
)
def test_what_a_table_becomes_is_told_behind_what_it_was(database: Database, change: str, message: str) -> None:
    database.execute(ORDERS)
    capture = Capture(database, COLUMNS, UPSERT, primary_key=("id",))
    capture.catch_up()
    database.execute("INSERT INTO orders VALUES (1, 'a')", change, "INSERT INTO orders (id) VALUES (2)")
    assert message in refused(capture)
    assert capture.rows == [("+I", 1, "a")]


def test_columns_that_are_added_or_widened_do_no_harm(database: Database) -> None:
    database.execute(ORDERS, "INSERT INTO orders VALUES (1, 'a')")
    capture = Capture(database, COLUMNS, UPSERT)
    capture.catch_up()
    database.transaction(
        "INSERT INTO orders VALUES (2, 'b')",
        "ALTER TABLE orders ADD COLUMN more int, ALTER COLUMN card TYPE varchar(10)",
        "INSERT INTO orders VALUES (3, 'c', 'n', 7)",
    )
    assert capture.catch_up() == [("+I", 2, "b"), ("+I", 3, "c")]
    capture.close()


@pytest.mark.parametrize("is_whole", [True, False])
def test_large_values_that_are_not_changed(database: Database, is_whole: bool) -> None:
    database.execute(ORDERS, *(["ALTER TABLE orders REPLICA IDENTITY FULL"] if is_whole else []))
    database.execute(
        "ALTER TABLE orders ALTER COLUMN note SET STORAGE EXTERNAL",
        "INSERT INTO orders VALUES (1, 'a', repeat('x', 10000))",
    )
    narrow = Capture(database, COLUMNS, UPSERT)
    narrow.catch_up()
    wide = Capture(database, "id INT, note STRING", {**UPSERT, "slot.name": f"{database.name}_wide"})
    wide.catch_up()
    database.execute("UPDATE orders SET card = 'b'")
    assert narrow.catch_up() == [("+U", 1, "b")]
    narrow.close()
    if is_whole:
        assert wide.catch_up() == [("+U", 1, "x" * 10_000)]
        wide.close()
    else:
        assert "TOAST" in refused(wide)


TABLES: list[tuple[str, dict[str, str], str]] = [
    ("CREATE TABLE order_s (id int)", {}, "there is no table public.orders"),
    (ORDERS, {}, 'ALTER TABLE "public"."orders" REPLICA IDENTITY FULL; or'),
    ("CREATE TABLE orders (id int, card text)", UPSERT, "would refuse updates and deletions"),
    ("CREATE TABLE orders (id int PRIMARY KEY)", UPSERT, "has no column 'card'"),
    ("CREATE TABLE orders (id date PRIMARY KEY, card text)", UPSERT, "'id' is date in PostgreSQL"),
    (f"{ORDERS}; CREATE PUBLICATION orders", UPSERT, "does not have table public.orders"),
    (f"{ORDERS}; CREATE PUBLICATION orders FOR ALL TABLES WITH (publish = 'insert')", UPSERT, "leaves out some kinds"),
    (
        "CREATE TABLE orders (id int, card text); ALTER TABLE orders REPLICA IDENTITY FULL",
        {},
        "'scan.incremental.snapshot.chunk.key-column'",
    ),
    (
        f"{ORDERS}; CREATE ROLE reader LOGIN",
        {**UPSERT, "username": "reader"},
        "execute ALTER ROLE ... REPLICATION for the user",
    ),
    (
        f"{ORDERS}; CREATE ROLE publisher LOGIN REPLICATION",
        {**UPSERT, "username": "publisher"},
        'execute CREATE PUBLICATION "orders" FOR TABLE "public"."orders"',
    ),
    (ORDERS, {**UPSERT, "scan.incremental.snapshot.chunk.key-column": "card"}, "is not in the replica identity"),
    (f"{ORDERS}; SELECT pg_create_physical_replication_slot(current_database())", UPSERT, "of plugin None"),
]


@pytest.mark.parametrize(("statements", "options", "message"), TABLES)
def test_tables_that_cannot_be_read_are_refused(
    database: Database, statements: str, options: dict[str, str], message: str
) -> None:
    database.execute(*statements.split("; "))
    assert message in refused(Capture(database, COLUMNS, options))


def test_a_slot_that_others_have_moved_is_noticed(database: Database) -> None:
    database.execute(ORDERS)
    capture = Capture(database, COLUMNS, UPSERT)
    capture.catch_up()
    capture.close()
    database.execute(
        "INSERT INTO orders VALUES (1, 'a')",
        "SELECT pg_replication_slot_advance(current_database(), pg_current_wal_lsn())",
    )
    capture.restart()
    assert "changes were lost" in refused(capture)
    database.drop_slots()
    capture.restart()
    assert "any more, from which the job would go on" in refused(capture)


def test_a_slot_has_one_reader(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.connectors.postgres import tables

    database.execute(ORDERS)
    first = Capture(database, COLUMNS, UPSERT)
    first.catch_up()
    database.execute("INSERT INTO orders VALUES (0, 'z')")
    first.catch_up()
    with monkeypatch.context() as impatient:
        impatient.setattr(tables, "_PATIENCE", 3)
        assert "needs a slot of its own" in refused(Capture(database, COLUMNS, UPSERT))
    younger = Capture(database, COLUMNS, UPSERT)
    younger.manifest, younger.position = first.manifest, first.position
    younger.restart()
    database.execute("INSERT INTO orders VALUES (1, 'a')")
    assert younger.catch_up() == [("+I", 1, "a")]
    younger.close()
    first.close()


def test_two_tables_of_a_job_have_two_slots(database: Database) -> None:
    database.execute(
        ORDERS, "CREATE TABLE others (id int PRIMARY KEY, card text)", "CREATE PUBLICATION p FOR ALL TABLES"
    )
    first, second = (
        Capture(database, COLUMNS, {**UPSERT, "publication.name": "p", "table-name": name})
        for name in ("orders", "others")
    )
    first.catch_up()
    assert "tables public.orders and public.others are read from the same replication slot" in refused(second)
    first.close()
    second.restart()
    second.catch_up()
    second.close()


def test_options_are_checked(database: Database) -> None:
    with pytest.raises(ConfigurationError, match=r"'debezium\.snapshot\.mode': it is 'scan\.startup\.mode'"):
        Capture(database, COLUMNS, {"debezium.snapshot.mode": "never"})
    with pytest.raises(ConfigurationError, match="wal2json"):
        Capture(database, COLUMNS, {"decoding.plugin.name": "wal2json"})
    with pytest.raises(ConfigurationError, match="metadata 'op_t': did you mean op_ts"):
        Capture(database, COLUMNS, {}, ("op_t",))
    with pytest.raises(ConfigurationError, match="nothing that can be read as MAP"):
        Capture(database, "id MAP<STRING, STRING>", {})
