"""Statements that are long, wide or deep are planned in a time that grows with their length, or refused clearly."""

from __future__ import annotations

import pytest

from headrace.common.errors import HeadraceError
from headrace.table import TableEnvironment
from tests.table.connectors.session import rows, session

ROWS = "(VALUES (1, 'a'), (2, 'b')) AS t(x, y)"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"SELECT {'(' * 100}x{')' * 100} FROM {ROWS}", [1, 2]),
        (f"SELECT {' + '.join(['x'] * 150)} FROM {ROWS}", [150, 300]),
        (f"SELECT {' || '.join(['y'] * 150)} FROM {ROWS}", ["a" * 150, "b" * 150]),
        (f"SELECT x FROM {ROWS} WHERE x IN ({', '.join(map(str, range(2, 1002)))})", [2]),
        (f"SELECT x FROM {ROWS} WHERE y NOT IN ({', '.join(map(repr, 'bcd' * 300))})", [1]),
        (f"SELECT x FROM {ROWS} WHERE {' OR '.join(f'x = {number}' for number in range(2, 1002))}", [2]),
        (f"SELECT CASE x {' '.join(f'WHEN {n} THEN {n * n}' for n in range(2, 1002))} END FROM {ROWS}", [None, 4]),
        (f"SELECT CHAR_LENGTH('{'x' * 100_000}') FROM {ROWS}", [100_000, 100_000]),
        (f"/* {'x' * 100_000} */ SELECT x FROM {ROWS} -- {'y' * 100_000}", [1, 2]),
        (f"SELECT {', '.join(f'x + {n} AS c{n}' for n in range(500))} FROM {ROWS}", [1, 2]),
        (f"SELECT {', '.join(f'SUM(x + {n}) AS c{n}' for n in range(100))} FROM {ROWS} GROUP BY y", [1, 2]),
        (" UNION ALL ".join(f"SELECT {number}" for number in range(100)), list(range(100))),
        ("SELECT `größe \U0001f600``s` FROM (VALUES (1)) AS t(`größe \U0001f600``s`)", [1]),
    ],
    ids=range(13),
)
def test_long_statements(query: str, expected: list[object]) -> None:
    assert [row[0] for row in rows(session(), query)] == expected


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (f"SELECT {'(' * 50_000}x", "nested more than 150 levels deep at line 1"),
        (f"SELECT {'ABS(' * 200}x{')' * 200} FROM {ROWS}", "nested more than 150 levels deep at line 1"),
        (f"SELECT {' + '.join(['x'] * 5_000)} FROM {ROWS}", "nested too deeply"),
        ("SELECT 'abc", "line 1, column 8"),
        ("SELECT 1 /* abc", "line 1, column 10"),
        ("SELECT \0", "line 1, column 8"),
        ("", "line 1, column 1"),
        ("SELECT " + "x, " * 30_000 + "FROM t", "line 1, column"),
    ],
    ids=range(8),
)
def test_what_is_too_deep_or_no_statement_is_refused(query: str, said: str) -> None:
    with pytest.raises(HeadraceError, match=said) as caught:
        session().execute_sql(query)
    assert len(str(caught.value)) < 2_000


def views(body: str, count: int) -> TableEnvironment:
    """Views over views."""
    tables = session(f"CREATE VIEW v0 AS SELECT * FROM {ROWS}")
    for number in range(count):
        tables.execute_sql(f"CREATE VIEW v{number + 1} AS {body.format(f'v{number}')}")
    return tables


def test_fifty_views_over_views() -> None:
    assert rows(views("SELECT x + 1 AS x, y FROM {}", 50), "SELECT x FROM v50") == [(51,), (52,)]


def test_columns_that_are_used_twice_by_each_view_do_not_double_the_plan_each_time() -> None:
    tables = views("SELECT x + x AS x, y FROM {} WHERE x + x > x OR y = 'b'", 24)
    assert rows(tables, "SELECT x FROM v24 WHERE x > 0") == [(2**24,), (2**25,)]
