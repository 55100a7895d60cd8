"""Subqueries that refer to the queries around them, beside SQLite."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

import pytest

from headrace.table.bind.errors import SqlValidationError
from tests.table.connectors.session import rows, session

A: Final = [(1, "x", 1), (2, "y", 5), (3, "z", 1), (4, "x", 2), (5, None, 1), (6, "x", 2), (7, "q", 3), (8, "y", None)]
B: Final = [(10, "x", 1), (11, "y", 2), (12, "x", 3), (13, "z", 9), (14, None, 1), (15, "q", 1), (16, "y", None)]
U: Final = [(1, "x", 2), (2, "q", 3), (3, "y", 5)]
TABLES: Final = {"a": A, "b": B, "u": U}

QUERIES: Final = [
    # two queries further out
    "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND EXISTS (SELECT 1 FROM u WHERE u.v = a.v))",
    "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE k = a.k AND NOT EXISTS (SELECT 1 FROM u WHERE v = a.v))",
    "SELECT id FROM a WHERE a.k IN (SELECT b.k FROM b WHERE b.v <= (SELECT MAX(u.v) FROM u WHERE u.v <> a.v))",
    "SELECT id, (SELECT MAX(b.v) FROM b WHERE b.k = a.k AND b.v < (SELECT MAX(u.v) FROM u WHERE u.k = a.k)) FROM a",
    # below an aggregate
    "SELECT id, (SELECT COUNT(*) FROM b WHERE b.v < a.v) FROM a",
    "SELECT id, (SELECT MAX(b.v) FROM b WHERE b.k = a.k AND b.v < a.v) FROM a",
    "SELECT id, (SELECT MAX(b.v + a.v) FROM b WHERE b.k = a.k) FROM a",
    "SELECT id, (SELECT COUNT(*) FROM b WHERE COALESCE(a.v, 1) = b.v) FROM a",
    "SELECT id FROM a WHERE a.v > (SELECT MIN(b.v) FROM b WHERE b.k = a.k OR b.id > a.id + 13)",
    # as values
    "SELECT id, EXISTS (SELECT 1 FROM b WHERE b.v < a.v) FROM a",
    "SELECT id FROM a WHERE a.v IN (SELECT b.v + a.id - 1 FROM b WHERE b.k = a.k)",
    "SELECT id, a.v IN (SELECT b.v FROM b WHERE b.k = a.k) FROM a",
    "SELECT id, a.v NOT IN (SELECT b.v FROM b WHERE b.k = a.k AND b.v <= a.v) FROM a WHERE a.v IS NOT NULL",
    "SELECT id, CASE WHEN a.v IN (SELECT b.v FROM b WHERE b.k < a.k) THEN 'x' ELSE 'y' END FROM a",
    "SELECT id FROM a WHERE a.v IN (SELECT b.v FROM b WHERE b.k = a.k) OR a.id = 2",
    "SELECT id FROM a WHERE a.v NOT IN (SELECT b.v FROM b WHERE b.k = a.k) OR a.id = 1",
    # over groups
    "SELECT a.v, (SELECT SUM(b.v) FROM b WHERE b.v = a.v), COUNT(*) FROM a GROUP BY a.v",
    "SELECT COUNT(*), (SELECT SUM(b.v) FROM b WHERE b.k = a.k) FROM a GROUP BY a.k",
    "SELECT k FROM a WHERE k IN (SELECT k FROM u) GROUP BY k HAVING COUNT(*) > (SELECT COUNT(*) FROM b WHERE k = a.k)",
    "SELECT a.v, a.k, COUNT(*) FROM a GROUP BY a.v, a.k HAVING a.v IN (SELECT v FROM b WHERE k = a.k AND v <= a.v)",
    "SELECT k FROM a GROUP BY k HAVING k IN (SELECT k FROM b WHERE EXISTS (SELECT 1 FROM u WHERE k = a.k AND v > b.v))",
    "SELECT a.k, SUM((SELECT MAX(b.v) FROM b WHERE b.k = a.k)) FROM a GROUP BY a.k",
    "SELECT a.k, COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)) FROM a GROUP BY a.k",
    # the first rows
    "SELECT id, (SELECT b.id FROM b WHERE b.k = a.k ORDER BY b.v DESC LIMIT 1) FROM a",
    "SELECT id, (SELECT b.id FROM b WHERE b.v >= a.v ORDER BY b.v DESC, b.id LIMIT 1 OFFSET 1) FROM a",
    "SELECT id FROM a WHERE a.v IN (SELECT b.v FROM b WHERE b.k = a.k ORDER BY b.id LIMIT 1)",
    "SELECT id FROM a WHERE EXISTS (SELECT b.v FROM b WHERE b.k = a.k ORDER BY b.v LIMIT 1)",
    "SELECT id FROM a WHERE NOT EXISTS (SELECT b.v FROM b WHERE b.k = a.k ORDER BY b.v LIMIT 1 OFFSET 1)",
    # set operations
    "SELECT id FROM a WHERE EXISTS (SELECT id FROM b WHERE b.k = a.k UNION ALL SELECT id FROM u WHERE u.v < a.v)",
    "SELECT id FROM a WHERE a.v IN (SELECT v FROM b WHERE b.k = a.k INTERSECT SELECT v FROM u WHERE u.v <= a.v)",
    "SELECT id FROM a WHERE EXISTS (SELECT v FROM b WHERE b.k = a.k EXCEPT SELECT v FROM u WHERE u.v > a.v)",
    "SELECT id, (SELECT COUNT(*) FROM (SELECT v FROM b WHERE k = a.k UNION SELECT v FROM u WHERE k = a.k)) FROM a",
    "SELECT id FROM a WHERE a.v NOT IN (SELECT v FROM b WHERE b.k = a.k UNION ALL SELECT v FROM u WHERE v > 2)",
    # in ON
    "SELECT a.id, b.id FROM a JOIN b ON a.k = b.k AND EXISTS (SELECT 1 FROM u WHERE u.k = a.k AND u.v <> b.v)",
    "SELECT a.id, b.id FROM a JOIN b ON a.v IN (SELECT v FROM u) AND a.k = b.k",
    "SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k AND b.v < (SELECT MAX(u.v) FROM u WHERE u.k = b.k)",
    "SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k AND EXISTS (SELECT 1 FROM u WHERE u.k = a.k AND u.v > a.v)",
    "SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k AND a.v NOT IN (SELECT v FROM u)",
    "SELECT id FROM a WHERE a.v IN (SELECT v FROM u) AND a.k NOT IN (SELECT k FROM b WHERE k IS NOT NULL AND v > 2)",
]


def shown(found: list[Any]) -> list[Any]:
    """Rows in an order of their own, with 0 and 1 for truth values."""
    return sorted([tuple(int(each) if isinstance(each, bool) else each for each in row) for row in found], key=str)


@pytest.fixture(scope="module")
def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    for name, values in TABLES.items():
        connection.execute(f"CREATE TABLE {name} (id INTEGER, k TEXT, v INTEGER)")
        connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", values)
    return connection


def view(name: str) -> str:
    """The statement that creates a table's rows."""

    def text(value: Any, kind: str) -> str:
        return f"CAST(NULL AS {kind})" if value is None else repr(value)

    values = ", ".join(f"({number}, {text(k, 'STRING')}, {text(v, 'INT')})" for number, k, v in TABLES[name])
    return f"CREATE VIEW {name} AS SELECT * FROM (VALUES {values}) AS t(id, k, v)"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_those_of_sqlite(database: sqlite3.Connection, query: str) -> None:
    tables = session(*map(view, TABLES), is_streaming=False)
    assert shown(rows(tables, query)) == shown(database.execute(query).fetchall())


FIRST: Final = "LATERAL (SELECT id FROM b WHERE b.k = a.k ORDER BY b.id LIMIT 2) AS t"
BOTH: Final = "LATERAL (SELECT v FROM b WHERE b.k = a.k UNION SELECT v FROM u WHERE u.k = a.k) AS t"


def test_a_subquery_over_groups_refers_to_what_is_grouped() -> None:
    tables = session(*map(view, TABLES))
    with pytest.raises(SqlValidationError, match="'v' is not being grouped"):
        tables.sql_query("SELECT a.k, (SELECT SUM(b.v) FROM b WHERE b.v = a.v) FROM a GROUP BY a.k")


X, Y = [("x", 10), ("x", 12)], [("y", 11), ("y", 16)]
LATERALS: Final = [
    (f"SELECT a.k, t.id FROM (SELECT DISTINCT k FROM a WHERE v > 1) AS a, {FIRST}", [("q", 15), *X, *Y]),
    (f"SELECT a.id, t.id FROM a LEFT JOIN {FIRST} ON TRUE WHERE a.v = 1", [(1, 10), (1, 12), (3, 13), (5, None)]),
    (f"SELECT a.id, t.v FROM a, {BOTH} WHERE a.id = 1", [(1, 1), (1, 2), (1, 3)]),
]


@pytest.mark.parametrize("is_streaming", [True, False])
@pytest.mark.parametrize(("query", "expected"), LATERALS)
def test_lateral_queries_have_first_rows_and_set_operations(
    query: str, expected: list[Any], *, is_streaming: bool
) -> None:
    tables = session(*map(view, TABLES), is_streaming=is_streaming)
    found = tables.execute_sql(query).to_arrow()
    assert shown(list(zip(*(each.to_pylist() for each in found.columns), strict=True))) == shown(expected)
