"""What tests of lookups have: a database, and nothing that was asked for before."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.operators.lookup.lookups import asked


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    asked.clear()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "customers.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE customers (id INTEGER, amount INTEGER, country TEXT, age INTEGER)")
        rows = [(1, 10, "fr", 30), (2, 20, "it", 40), (2, 21, "es", None)]
        connection.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", rows)
    connection.close()
    return path
