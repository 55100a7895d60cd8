"""Tables of one PostgreSQL that lead to tables of another."""

from __future__ import annotations

import random
import time

import psycopg

from headrace.table import TableEnvironment
from tests.connectors.postgres.server import Database
from tests.table.connectors.session import session

QUERY = (
    "SELECT c.country, count(*), sum(o.price) FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.country "
    "ORDER BY c.country"
)
UPSERT = "ON CONFLICT (id) DO UPDATE SET price = excluded.price"


def fill(source: Database, sink: Database) -> None:
    """Create the tables, with some rows."""
    source.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, customer int, price numeric(8, 2))",
        "CREATE TABLE customers (id int PRIMARY KEY, country text)",
        "ALTER TABLE customers REPLICA IDENTITY FULL",
        "INSERT INTO orders SELECT n, n % 50, n FROM generate_series(1, 500) n",
        "INSERT INTO customers SELECT n, 'c' || n % 7 FROM generate_series(0, 49) n",
    )
    sink.execute(
        "CREATE TABLE totals (country text PRIMARY KEY, n bigint, total numeric)",
        "CREATE TABLE copies (id int PRIMARY KEY, customer int, price numeric(8, 2))",
    )


def write(source: Database, chance: random.Random) -> None:
    """Execute a transaction, which may be large."""
    key = chance.randrange(1_000)
    statement = chance.choice(
        [
            f"INSERT INTO orders SELECT n, n % 50, {key} FROM generate_series({key}, {key + 30}) n {UPSERT}",
            f"UPDATE orders SET price = price + 1 WHERE id BETWEEN {key} AND {key + 300}",
            f"UPDATE orders SET id = -id WHERE id BETWEEN {key} AND {key + 5} AND -id NOT IN (SELECT id FROM orders)",
            f"DELETE FROM orders WHERE id BETWEEN {key} AND {key + 10}",
            f"UPDATE customers SET country = 'c{key % 9}' WHERE id % 10 = {key % 10}",
            f"DELETE FROM customers WHERE id = {key % 60}",
            f"INSERT INTO customers VALUES ({key % 60}, 'new') ON CONFLICT DO NOTHING",
        ]
    )
    source.execute(statement)


def wait_until_equal(source: Database, sink: Database, seconds: float) -> None:
    """Wait until the tables have what the query gives, and the rows that the table has."""
    wanted = (source.rows(QUERY), source.rows("SELECT * FROM orders ORDER BY id"))
    end = time.monotonic() + seconds
    while True:
        try:
            found = (
                sink.rows("SELECT * FROM totals ORDER BY country"),
                sink.rows("SELECT * FROM copies ORDER BY id"),
            )
        except psycopg.OperationalError:
            found = None
        if found == wanted:
            return
        assert time.monotonic() < end, f"{found} instead of {wanted}"
        time.sleep(0.2)


def environment(source: Database, sink: Database, checkpoints: str, runtime: str) -> TableEnvironment:
    """The tables."""
    settings = {
        "headrace.runtime": runtime,
        "parallelism.default": "2",
        "execution.checkpointing.dir": checkpoints,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "200 ms",
        "headrace.epoch.max-records": "100",
        "headrace.epoch.target-duration": "60s",
    }
    return session(
        _captured(source, "orders", "id INT, customer INT, price DECIMAL(8, 2)", "upsert"),
        _captured(source, "customers", "id INT, country STRING", "all"),
        f"CREATE TABLE totals (country STRING, n BIGINT, total DECIMAL(38, 2), {_written(sink, 'country', 'totals')}",
        f"CREATE TABLE copies (id INT, customer INT, price DECIMAL(8, 2), {_written(sink, 'id', 'copies')}",
        **settings,
    )


def _captured(source: Database, name: str, columns: str, mode: str) -> str:
    given = {
        **source.options,
        "connector": "postgres-cdc",
        "table-name": name,
        "slot.name": name,
        "changelog-mode": mode,
        "scan.incremental.snapshot.chunk.size": "20",
        "connect.timeout": "2 s",
    }
    options = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    return f"CREATE TABLE {name} ({columns}, PRIMARY KEY (id) NOT ENFORCED) WITH ({options})"


def _written(sink: Database, key: str, name: str) -> str:
    return (
        f"PRIMARY KEY ({key}) NOT ENFORCED) WITH ('connector' = 'jdbc', 'url' = '{sink.url}', 'table-name' = '{name}')"
    )
