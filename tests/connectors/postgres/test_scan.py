"""Tables of PostgreSQL are read as they are, as a whole or in parts."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import ConfigurationError, HeadraceError
from headrace.connectors.postgres.scan import ScannedTable
from headrace.connectors.source import EnumeratorContext, ReadBudget
from headrace.storage.folder import posix_folder
from headrace.table import TableEnvironment
from tests.connectors.postgres.server import Database
from tests.table.connectors.session import rows, session

pytestmark = pytest.mark.integration

ORDERS = "CREATE TABLE orders (id numeric(8, 1), card text, note text)"


def parts(count: int, lower: int, upper: int, column: str = "id") -> str:
    bounds = f"'scan.partition.lower-bound' = '{lower}', 'scan.partition.upper-bound' = '{upper}'"
    return f", 'scan.partition.column' = '{column}', 'scan.partition.num' = '{count}', {bounds}"


def tables(database: Database, options: str = "", **settings: str) -> TableEnvironment:
    where = f"'connector' = 'jdbc', 'url' = '{database.url}', 'table-name' = 'orders'{options}"
    return session(
        f"CREATE TABLE orders (id DECIMAL(8, 1), card STRING, note STRING) WITH ({where})",
        is_streaming=False,
        **settings,
    )


@pytest.fixture
def orders(database: Database) -> Database:
    database.execute(ORDERS, "INSERT INTO orders SELECT n, 'c' || n FROM generate_series(1, 20) n")
    database.execute("INSERT INTO orders VALUES (10.5, 'a', 'a \"b\",\nc'), (NULL, NULL, NULL), (-3, '', NULL)")
    return database


def seen(found: list[Any]) -> list[Any]:
    return sorted(found, key=repr)


def test_all_rows_are_read(orders: Database) -> None:
    wanted = seen(orders.rows("SELECT id, card, note FROM orders"))
    assert seen(rows(tables(orders), "SELECT * FROM orders")) == wanted
    assert seen(rows(tables(orders, ", 'scan.fetch-size' = '3'"), "SELECT * FROM orders")) == wanted
    streaming = tables(orders, **{"execution.runtime-mode": "STREAMING"})
    assert seen(rows(streaming, "SELECT * FROM orders")) == wanted
    found = tables(orders)
    assert "table=[[default_catalog, default_database, orders, project=[id]" in found.explain_sql(
        "SELECT id + 1 FROM orders"
    )
    assert rows(found, "SELECT COUNT(*), SUM(id) FROM orders") == [(23, Decimal("217.5"))]
    assert len(rows(found, "SELECT id FROM orders LIMIT 4")) == 4
    orders.execute("TRUNCATE orders")
    assert rows(found, "SELECT * FROM orders") == []


@pytest.mark.parametrize("count", [1, 3, 7, 50])
def test_a_table_is_read_in_parts(orders: Database, count: int) -> None:
    found = rows(tables(orders, parts(count, 2, 19), **{"parallelism.default": "2"}), "SELECT id FROM orders")
    assert sorted(id for (id,) in found) == sorted(
        [*(Decimal(n) for n in range(2, 20)), Decimal("10.5")]
    )  # what has a fraction lies between two parts, and rows outside of the bounds are left out


def test_parts_are_read_at_the_same_time(orders: Database) -> None:
    from headrace.table.connectors.factory import TableContext
    from headrace.table.connectors.jdbc import JdbcTables
    from tests.connectors.postgres.capture import row_type

    kind = row_type("id DECIMAL(8, 1)").logical_type
    options = {"url": orders.url, "table-name": "public.orders", **dict(_pairs(parts(5, 1, 20)))}
    context = TableContext(("c", "d", "orders"), kind, options=options)  # type: ignore[arg-type]
    source = JdbcTables("jdbc").create_source(context).create_source(())
    enumerator = source.create_enumerator(EnumeratorContext(2, posix_folder(Path("/nowhere"))))
    (split,) = enumerator.discover(0)
    position, pieces = enumerator.initial_position(split), []
    while (share := enumerator.plan(split, position, ReadBudget(10, 100, 2), 0)) is not None:
        pieces.append(share.pieces)
        position = share.end
    assert pieces == [(0, 1), (2, 3), (4,)]
    assert enumerator.is_finished(split, position)
    assert repr(source).startswith("PostgresScan(public.orders at ")


def _pairs(text: str) -> list[list[str]]:
    return [[part.strip().strip("'") for part in pair.split("=")] for pair in text.strip(", ").split(", ")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (", 'scan.partition.column' = 'id'", "'scan.partition.column' needs 'scan.partition.num' and"),
        (parts(2, 9, 1), "'scan.partition.lower-bound' = 9 is above"),
        (parts(2, 1, 9, "card"), "'card' is text, and tables are cut by numbers"),
        (parts(2, 1, 9, "cart"), "has no column 'cart': did you mean card?"),
        (", 'scan.auto-commit' = 'false'", "a part of a table is one query"),
    ],
)
def test_wrong_options_are_told(orders: Database, options: str, message: str) -> None:
    with pytest.raises(HeadraceError) as told:
        rows(tables(orders, options), "SELECT * FROM orders")
    assert message in str(told.value)


def test_a_table_that_is_another_one_is_told(database: Database) -> None:
    with pytest.raises(HeadraceError, match=r"there is no table public\.orders"):
        rows(tables(database), "SELECT * FROM orders")
    database.execute("CREATE TABLE orders (id date, card text, note text)")
    with pytest.raises(
        HeadraceError, match=r"table public\.orders: column 'id' is date in PostgreSQL.*: declare it as DATE or STRING"
    ):
        rows(tables(database), "SELECT * FROM orders")
    with pytest.raises(ConfigurationError, match="is not one of PostgreSQL"):
        session("CREATE TABLE o (id INT) WITH ('connector' = 'jdbc', 'url' = 'x', 'table-name' = 'o')").explain_sql(
            "SELECT * FROM o"
        )


TYPED = """CREATE TABLE "or%ders" (id int, "we ""ird" varchar(9), code char(4), day date, at timestamp,
 rough timestamp(6), amount numeric(8, 2), wide numeric, part real, whole float8, ok boolean)"""
TYPES = (
    'id INT, `we "ird` STRING, code STRING, `day` DATE, `at` TIMESTAMP(6), rough TIMESTAMP(3), amount DECIMAL(8, 2), '
    "wide DECIMAL(8, 2), part FLOAT, whole DOUBLE, ok BOOLEAN"
)
CONDITIONS = {
    "id > 2 AND id <= 4": """WHERE "id" > 2::bigint AND "id" <= 4::bigint""",
    "3 > id OR id IS NULL": """WHERE ("id" < 3::bigint OR "id" IS NULL)""",
    "`we \"ird` = 'it''s'": """WHERE "we ""ird" = 'it''s'::text""",
    "`we \"ird` <> 'b'": """WHERE "we ""ird" COLLATE "C" <> 'b'::text""",
    "`we \"ird` = '\\; DROP'": """WHERE "we ""ird" =  E'\\\\; DROP'::text""",
    "`we \"ird` > 'a'": "",  # as the collation says
    "code = 'b'": "",  # it is padded
    "`day` >= DATE '2024-02-29'": """WHERE "day" >= '2024-02-29'::date::date""",
    "`at` < TIMESTAMP '2024-03-01 00:00:00.000001'": (
        """WHERE "at" < '2024-03-01 00:00:00.000001'::timestamp::timestamp"""
    ),
    "rough <= TIMESTAMP '2024-03-01 00:00:00'": "",  # it is cut
    "amount > 1.5": """WHERE "amount" > 1.50::numeric""",
    "wide = 1.23": "",  # it is rounded
    "part = CAST(0.1 AS FLOAT)": """WHERE "part" = 0.10000000149011612::real""",
    "whole < -1E0": """WHERE "whole" <  -1.0::double precision""",
    "ok IS NOT NULL AND id <> 1": """WHERE "id" <> 1::bigint AND "ok" IS NOT NULL""",
    "id = 1 OR UPPER(code) = 'B'": "",
}


@pytest.mark.parametrize("parts_of", ["", parts(2, 1, 5)])
def test_the_database_checks_conditions_of_which_it_thinks_as_the_program_does(
    database: Database, parts_of: str
) -> None:
    first = "(1, 'it''s', 'b', '2024-02-28', '2024-02-29', '2024-03-01 00:00:00.0004', 1.50, 1.234, 0.1, 'NaN', true)"
    second = "(2, 'b', 'a', '2024-02-29', '2024-03-01', '2024-03-02', 2, 1.2, 0.5, -1.5, false)"
    third = "(3, E'\\\\; DROP', 'b', '2024-03-01', '2024-03-01 00:00:00.000001', NULL, -1, 7, 'NaN', 5, NULL)"
    database.execute(TYPED, f'INSERT INTO "or%ders" VALUES {first}, {second}, {third}')
    database.execute("INSERT INTO \"or%ders\" (id, code) VALUES (4, 'B')")
    where = f"'connector' = 'jdbc', 'url' = '{database.url}', 'table-name' = 'or%ders'{parts_of}"
    found = session(
        f"CREATE TABLE o ({TYPES}) WITH ({where})",
        f"CREATE TABLE n ({TYPES}) WITH ({where}, 'filter.handling.policy' = 'never')",
        is_streaming=False,
    )
    asked: list[str] = []
    query = ScannedTable.query

    def spied(table: ScannedTable, part: int, connection: Any) -> str:
        asked.append(query(table, part, connection))
        return asked[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ScannedTable, "query", spied)
        for condition, wanted in CONDITIONS.items():
            asked.clear()
            kept, _ = (rows(found, f"SELECT id FROM {name} WHERE {condition}") for name in "on")
            assert seen(kept) == seen(rows(found, f"SELECT id FROM n WHERE {condition}")), condition
            sent = asked[0].partition(' FROM "public"."or%ders"')[2].strip()
            bounds = 'WHERE "id" >= 1 AND "id" < 3' if parts_of else ""
            both = " AND ".join(filter(None, [bounds, wanted.removeprefix("WHERE ") if bounds else wanted]))
            assert sent == both, condition
    shown = found.explain_sql("SELECT id FROM o WHERE id > 2 AND code = 'b'")
    assert "o, filter=[and(>(id, 2), =(code, _UTF-16LE'b':VARCHAR(2147483647)" in shown
    assert "filter" not in found.explain_sql("SELECT id FROM n WHERE id > 2")
