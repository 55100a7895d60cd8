"""Tables of PostgreSQL in SQL: changes go through joins and aggregates into another table."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest

from headrace.common.errors import ConfigurationError
from headrace.common.types import RowKind
from headrace.table.logical.errors import PlanningError
from tests.connectors.postgres.server import Database, Server
from tests.table.connectors.session import rows, run, session

pytestmark = pytest.mark.integration

QUERY = """
    SELECT c.country, COUNT(*) AS n, SUM(o.price) AS total FROM orders o JOIN customers c ON o.customer = c.id
    GROUP BY c.country
"""


@pytest.fixture(scope="module")
def database(server: Server) -> Iterator[Database]:
    made = server.database()
    made.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, customer int, price numeric(8, 2))",
        "CREATE TABLE customers (id int PRIMARY KEY, country text)",
        "CREATE TABLE totals (country text PRIMARY KEY, n bigint, total numeric)",
        "INSERT INTO orders SELECT n, n % 7, n * 1.5 FROM generate_series(1, 200) n",
        "INSERT INTO customers SELECT n, 'c' || n % 3 FROM generate_series(0, 6) n",
    )
    yield made
    made.drop_slots()


def captured(database: Database, name: str, columns: str, mode: str, more: str = "", slot: str | None = None) -> str:
    given = {
        **database.options,
        "connector": "postgres-cdc",
        "table-name": name,
        "slot.name": slot or f"{name}_{mode}",
        "changelog-mode": mode,
        "scan.bounded.mode": "latest-offset",
    }
    options = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    return f"CREATE TABLE {name} ({columns}, PRIMARY KEY (id) NOT ENFORCED) WITH ({options}{more})"


def total(database: Database) -> str:
    return (
        "CREATE TABLE totals (country STRING, n BIGINT, total DECIMAL(38, 2), PRIMARY KEY (country) NOT ENFORCED) WITH "
        f"('connector' = 'jdbc', 'url' = '{database.url}', 'table-name' = 'totals')"
    )


@pytest.mark.parametrize("mode", ["upsert", "all"])
def test_a_query_gives_what_it_gives_in_the_database(database: Database, mode: str) -> None:
    if mode == "all":
        database.execute("ALTER TABLE orders REPLICA IDENTITY FULL", "ALTER TABLE customers REPLICA IDENTITY FULL")
    tables = session(
        captured(database, "orders", "id INT, customer INT, price DECIMAL(8, 2)", mode),
        captured(database, "customers", "id INT, country STRING", mode),
        total(database),
    )
    run(tables, f"INSERT INTO totals {QUERY}")
    assert database.rows("SELECT * FROM totals ORDER BY 1") == database.rows(f"{QUERY} ORDER BY 1")
    # The slot is still there, and the next run goes on where it is
    database.transaction("UPDATE customers SET country = 'new' WHERE id IN (0, 4)", "DELETE FROM orders WHERE id < 20")
    later = ", 'scan.startup.mode' = 'committed-offset'"
    tables = session(captured(database, "customers", "id INT, country STRING", mode, later))
    with tables.execute_sql("SELECT * FROM customers").collect() as found:
        changed = {tuple(row) for row in found if row.get_row_kind() is not RowKind.UPDATE_BEFORE}
    assert changed == {(0, "new"), (4, "new")}
    database.execute("UPDATE customers SET country = 'c' || id % 3", "DELETE FROM totals")


def test_metadata_and_computed_columns_stand_beside_others(database: Database) -> None:
    columns = (
        "seen TIMESTAMP_LTZ(3) METADATA FROM 'op_ts' VIRTUAL, id INT, t STRING METADATA FROM 'table_name' VIRTUAL, "
    )
    columns += "country STRING, u AS UPPER(country)"
    tables = session(captured(database, "customers", columns, "upsert", ", 'scan.startup.mode' = 'snapshot'"))
    found = rows(tables, "SELECT EXTRACT(EPOCH FROM seen), id, t, u FROM customers WHERE id < 2")
    assert sorted(found) == [(0, 0, "customers", "C0"), (0, 1, "customers", "C1")]


def test_a_materialized_table_begins_with_what_comes_and_at_no_time(database: Database) -> None:
    tables = session(captured(database, "customers", "id INT, country STRING", "upsert", slot="begins"))
    assert len(rows(tables, "SELECT * FROM customers")) == 7
    database.execute("SELECT pg_drop_replication_slot('begins')")
    tables.get_config().set("materialized-table.start-position", "now 1")
    assert rows(tables, "SELECT * FROM customers") == []
    tables.get_config().set("materialized-table.start-position", "1")
    with pytest.raises(PlanningError, match=r"postgres-cdc\(customers\), cannot begin at a time: .* FROM_NOW can"):
        tables.execute_sql("SELECT * FROM customers")


def test_wrong_tables_are_told_when_a_statement_is_planned(database: Database) -> None:
    without_key = captured(database, "orders", "id INT", "upsert").replace(", PRIMARY KEY (id) NOT ENFORCED", "")
    with pytest.raises(ConfigurationError, match="needs a PRIMARY KEY"):
        session(without_key).explain_sql("SELECT * FROM orders")
    misspelled = captured(database, "orders", "id INT", "all", ", 'slot.nam' = 'x'")
    with pytest.raises(ConfigurationError, match="no option"):
        session(misspelled).explain_sql("SELECT * FROM orders")
    with pytest.raises(ConfigurationError, match="written in one transaction"):
        session(total(database).replace("'totals')", "'totals', 'sink.max-retries' = '3')")).explain_sql(
            "INSERT INTO totals VALUES ('a', 1, 2)"
        )


@pytest.mark.parametrize("options", ["", ", 'lookup.cache' = 'FULL'", ", 'lookup.connections' = '2'"])
def test_rows_are_looked_up(database: Database, options: str) -> None:
    database.execute(
        'DROP TABLE IF EXISTS "Codes"',
        'CREATE TABLE "Codes" ("Id" int PRIMARY KEY, "order" text, price numeric(8, 2))',
        "INSERT INTO \"Codes\" VALUES (1, 'one', 1.5), (2, NULL, 2)",
    )
    table = f"'connector' = 'jdbc', 'url' = '{database.url}', 'table-name' = 'Codes'{options}"
    tables = session(
        f"CREATE TABLE codes (`Id` INT, `order` STRING, price DECIMAL(8, 2)) WITH ({table})",
        "CREATE VIEW asked AS SELECT n, PROCTIME() AS pt FROM (VALUES (1), (2), (3)) AS t(n)",
    )
    query = "SELECT n, c.`order`, c.price FROM asked LEFT JOIN codes FOR SYSTEM_TIME AS OF pt AS c ON n = c.`Id`"
    assert rows(tables, query) == [(1, "one", Decimal("1.50")), (2, None, Decimal("2.00")), (3, None, None)]
    assert sorted(rows(tables, "SELECT `Id`, price FROM codes")) == [(1, Decimal("1.50")), (2, Decimal("2.00"))]
