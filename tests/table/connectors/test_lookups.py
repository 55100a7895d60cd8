"""Lookup joins with tables that are read as a whole, with databases, and with Python functions."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import ConfigurationError, HeadraceError, UnsupportedOperationError
from headrace.table.logical.errors import PlanningError
from tests.table.connectors.session import rows, run, session

HERE = "tests.table.connectors.test_lookups"
ORDERS = (
    "CREATE VIEW orders AS SELECT id, k, v, PROCTIME() AS pt FROM (VALUES "
    "(1, 'a', 1), (2, 'z', 2), (3, CAST(NULL AS STRING), 3), (4, 'b', 3), (5, 'a', 2)) AS t(id, k, v)"
)
PEOPLE = [("a", "Ann", 1), ("a", "Abe", 2), ("b", "Bob", 3), (None, "Nil", 4)]
JOIN = "JOIN dim FOR SYSTEM_TIME AS OF o.pt AS d ON o.k = d.k"
COLUMNS = "k STRING, name STRING, n INT"

asked: list[Any] = []
place = {"database": ""}
failures = defaultdict(int)


def connect() -> sqlite3.Connection:
    """A connection to the database of the test at hand."""
    connection = sqlite3.connect(place["database"])
    connection.set_trace_callback(lambda text: asked.append(text) if text.startswith("SELECT") else None)
    return connection


def person(key: str) -> Any:
    """Rows of a key in all forms; none for a missing one."""
    asked.append(key)
    return {"a": [("a", "Ann", 1), {"k": "a", "name": "Abe"}], "b": ("b", "Bob", 3)}.get(key)


async def person_later(key: str) -> Any:
    """The same, awaited."""
    return person(key)


def person_of_two(key: tuple[str, int]) -> Any:
    """Rows of a key of two columns."""
    asked.append(key)
    return [row for row in PEOPLE if (row[0], row[2]) == key]


def fails_twice(key: str) -> Any:
    """Fails, and later finds nothing, before there is a row."""
    failures[key] += 1
    if failures[key] == 1:
        raise OSError("away")
    return None if failures[key] == 2 else (key, "late", failures[key])


@pytest.fixture(autouse=True)
def _nothing_asked() -> None:
    asked.clear()
    failures.clear()


def database(folder: Path) -> str:
    """The options of a table of a database."""
    place["database"] = str(folder / "people.db")
    with sqlite3.connect(place["database"]) as connection:
        connection.execute("CREATE TABLE people (k TEXT, name TEXT, n INTEGER)")
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", PEOPLE)
    return f"'connector' = 'database', 'connect' = '{HERE}.connect', 'table-name' = 'people'"


def files(folder: Path) -> str:
    """The options of a table of files."""
    options = f"'connector' = 'filesystem', 'path' = '{folder}/people', 'format' = 'parquet'"
    values = ", ".join(f"({'CAST(NULL AS STRING)' if k is None else repr(k)}, '{name}', {n})" for k, name, n in PEOPLE)
    run(session(f"CREATE TABLE people ({COLUMNS}) WITH ({options})"), f"INSERT INTO people VALUES {values}")
    return options


def dimension(options: str, columns: str = COLUMNS, **settings: str) -> Any:
    """A session with orders, and a table to look up."""
    return session(ORDERS, f"CREATE TABLE dim ({columns}) WITH ({options})", **settings)


@pytest.mark.parametrize("kind", [files, database])
def test_rows_of_tables(tmp_path: Path, kind: Any) -> None:
    tables = dimension(kind(tmp_path))
    pairs = [(1, "Ann"), (1, "Abe"), (4, "Bob"), (5, "Ann"), (5, "Abe")]
    assert rows(tables, f"SELECT o.id, d.name FROM orders o {JOIN}") == pairs
    kept = [*pairs[:2], (2, None), (3, None), *pairs[2:]]
    assert rows(tables, f"SELECT o.id, d.name FROM orders o LEFT {JOIN}") == kept
    two = f"SELECT o.id, d.name FROM orders o LEFT {JOIN} AND o.v = d.n"
    assert rows(tables, two) == [(1, "Ann"), (2, None), (3, None), (4, "Bob"), (5, "Abe")]
    computed = f"SELECT o.id, d.n * 2 FROM orders o LEFT {JOIN} AND d.n > 1 AND o.v < 3"
    assert rows(tables, computed) == [(1, 4), (2, None), (3, None), (4, None), (5, 4)]
    constant = f"SELECT o.id, d.name FROM orders o {JOIN} AND d.n = 2"
    assert rows(tables, constant) == [(1, "Abe"), (5, "Abe")]


def test_what_a_database_is_asked(tmp_path: Path) -> None:
    options, query = database(tmp_path), f"SELECT o.id, d.name FROM orders o {JOIN} WHERE o.id > 3"
    for cache in ("NONE", "PARTIAL", "FULL"):
        assert len(rows(dimension(f"{options}, 'lookup.cache' = '{cache}'"), query)) == 3
    by_key = "SELECT k, k, name, n FROM people WHERE k IN ('b', 'a')"
    assert asked == [by_key, by_key, "SELECT k, name, n FROM people"]


@pytest.mark.parametrize("function", ["person", "person_later"])
def test_rows_that_a_function_returns(function: str) -> None:
    options = f"'connector' = 'function', 'function' = '{HERE}.{function}', 'lookup.cache' = 'PARTIAL'"
    tables = dimension(options, f"{COLUMNS}, PRIMARY KEY (k) NOT ENFORCED")
    found = rows(tables, f"SELECT o.id, d.name, d.n FROM orders o LEFT {JOIN}")
    ann = [("Ann", 1), ("Abe", None)]
    assert found == [
        (1, *ann[0]),
        (1, *ann[1]),
        (2, None, None),
        (3, None, None),
        (4, "Bob", 3),
        (5, *ann[0]),
        (5, *ann[1]),
    ]
    assert asked == ["a", "z", "b"]
    text = tables.explain_sql(f"SELECT o.id, d.name FROM orders o {JOIN}")
    assert ("async=[ORDERED, KEY_ORDERED: false, 180000ms, 100]" in text) == (function == "person_later")


def test_a_function_is_called_with_the_primary_key() -> None:
    one = f"'connector' = 'function', 'function' = '{HERE}.person'"
    tables = dimension(one, f"{COLUMNS}, PRIMARY KEY (k) NOT ENFORCED")
    query = f"SELECT o.id, d.name FROM orders o {JOIN} AND o.v = d.n"
    assert rows(tables, query) == [(1, "Ann"), (4, "Bob")]  # the other equality is checked afterwards
    two = f"'connector' = 'function', 'function' = '{HERE}.person_of_two'"
    tables = dimension(two, f"{COLUMNS}, PRIMARY KEY (k, n) NOT ENFORCED")
    asked.clear()
    assert rows(tables, query) == [(1, "Ann"), (4, "Bob"), (5, "Abe")]
    assert asked == [("a", 1), ("z", 2), ("b", 3), ("a", 2)]
    with pytest.raises(ConfigurationError, match=r"primary key \(k, n\): compare n"):
        rows(tables, f"SELECT o.id FROM orders o {JOIN}")


def test_what_fails_or_is_missing_is_asked_for_again() -> None:
    options = f"'connector' = 'function', 'function' = '{HERE}.fails_twice'"
    tables = dimension(options, f"{COLUMNS}, PRIMARY KEY (k) NOT ENFORCED")
    hint = (
        "/*+ LOOKUP('table' = 'd', 'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', "
        "'fixed-delay' = '1 ms', 'max-attempts' = '3') */"
    )
    found = rows(tables, f"SELECT {hint} o.id, d.name, d.n FROM orders o {JOIN} WHERE o.id < 3")
    assert found == [(1, "late", 3), (2, "late", 3)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("'lookup.cache' = 'PARTIAL'", "cannot look up single keys"),
        ("'lookup.full-cache.reload-strategy' = 'TIMED'", "needs 'lookup.full-cache.timed-reload.iso-time'"),
        (
            "'lookup.full-cache.reload-strategy' = 'TIMED', 'lookup.full-cache.periodic-reload.interval' = '1 h'",
            "no effect with 'lookup.full-cache.reload-strategy' = 'TIMED'",
        ),
    ],
)
def test_options_that_have_no_effect_are_refused(tmp_path: Path, options: str, text: str) -> None:
    tables = dimension(f"{files(tmp_path)}, {options}")
    with pytest.raises(ConfigurationError, match=text):
        rows(tables, f"SELECT o.id FROM orders o {JOIN}")


@pytest.mark.parametrize(
    ("query", "error", "text"),
    [
        ("SELECT * FROM dim", UnsupportedOperationError, "cannot be scanned, only looked up"),
        ("SELECT o.id FROM orders o JOIN dim FOR SYSTEM_TIME AS OF o.pt AS d ON o.k > d.k", PlanningError, "equality"),
        (f"SELECT /*+ LOOKUP('table' = 'x') */ o.id FROM orders o {JOIN}", HeadraceError, "names 'x'"),
        (f"SELECT /*+ LOOKUP('table' = 'd', 'capacity' = '0') */ o.id FROM orders o {JOIN}", PlanningError, "capacity"),
        (
            f"SELECT /*+ LOOKUP('table' = 'd', 'max-attempts' = '2') */ o.id FROM orders o {JOIN}",
            PlanningError,
            "needs 'retry-predicate'",
        ),
    ],
)
def test_mistakes_are_told(query: str, error: Any, text: str) -> None:
    options = f"'connector' = 'function', 'function' = '{HERE}.person'"
    tables = dimension(options, f"{COLUMNS}, PRIMARY KEY (k) NOT ENFORCED")
    with pytest.raises(error, match=text):
        rows(tables, query)
