"""Queries inside queries, in both modes and on two subtasks: what one computes is what the next one reads."""

from __future__ import annotations

import pytest

from headrace.common import RowKind
from headrace.table.logical.errors import PlanningError
from tests.table.connectors.session import session

ROWS = "(VALUES 1, 2, 2, 3, 3, 3) AS t(k)"
NUMBERED = f"SELECT *, ROW_NUMBER() OVER (ORDER BY k) AS n FROM {ROWS}"


MINI_BATCHES = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "5 s",
    "table.exec.mini-batch.size": "2",
}


@pytest.mark.parametrize(("is_streaming", "settings"), [(True, {}), (True, MINI_BATCHES), (False, {})])
@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (f"SELECT MAX(c) FROM (SELECT k, COUNT(*) AS c FROM {ROWS} GROUP BY k)", [(3,)]),
        (f"SELECT COUNT(*) FROM (SELECT k FROM {ROWS} INTERSECT SELECT k + 1 FROM {ROWS})", [(2,)]),
        (f"SELECT k FROM ({NUMBERED}) WHERE NOT (n > 5) AND n IS NOT NULL AND (n <= 1 OR n <= 2)", [(1,), (2,)]),
        (f"SELECT k FROM ({NUMBERED}) WHERE n <= 2 AND (n <= 2 OR k = 3)", [(1,), (2,)]),
        (f"SELECT k FROM ({NUMBERED.replace('BY k', 'BY k DESC')}) WHERE n <= 2 AND n IN (2, 4)", [(3,)]),
        (f"SELECT k FROM (SELECT DISTINCT k, k > 1 AS b FROM {ROWS}) WHERE b AND b IS NOT NULL", [(2,), (3,)]),
        (f"SELECT k FROM (SELECT DISTINCT k, k > 2 AS b FROM {ROWS}) WHERE b OR b IS NULL", [(3,)]),
        (f"SELECT DISTINCT k FROM {ROWS} WHERE k NOT IN (k + 1, k + 1) AND k IN (4 - k, 4 - k)", [(2,)]),
        (f"SELECT k FROM {ROWS} EXCEPT SELECT 3 EXCEPT SELECT 1", [(2,)]),
        (f"SELECT COUNT(*) FROM (SELECT k FROM {ROWS} LIMIT 4)", [(4,)]),
        (f"SELECT COUNT(*) FROM (SELECT k FROM {ROWS} LIMIT 1)", [(1,)]),
        (f"SELECT COUNT(*) FROM (SELECT k FROM {ROWS} LIMIT 3 OFFSET 4)", [(2,)]),
        (f"SELECT COUNT(*) FROM (SELECT k, COUNT(*) FROM {ROWS} GROUP BY k LIMIT 2)", [(2,)]),
        (f"SELECT COUNT(*) FROM {ROWS}, (SELECT k FROM {ROWS} LIMIT 2)", [(12,)]),
    ],
)
def test_queries_read_what_queries_compute(
    query: str, rows: list[tuple[int, ...]], *, is_streaming: bool, settings: dict[str, str]
) -> None:
    tables = session(is_streaming=is_streaming, **settings, **{"parallelism.default": "2"})
    left: list[tuple[int, ...]] = []
    for row in tables.execute_sql(query).collect():
        if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            left.append(tuple(row))
        else:
            left.remove(tuple(row))
    assert sorted(left) == rows


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) FROM (VALUES 5, 6) AS t(k)",
        "SELECT COUNT(*) FROM (VALUES 5, 5) AS t(k) GROUP BY k",
        "SELECT DISTINCT CAST(2 AS BIGINT) FROM (VALUES 5, 6) AS t(k)",
        "SELECT c FROM (SELECT COUNT(*) OVER (ORDER BY k) AS c FROM (VALUES 5, 6) AS t(k)) WHERE c = 2",
        "SELECT k FROM (VALUES 3, 2) AS t(k) ORDER BY k LIMIT 1",
        "SELECT k FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY k) n FROM (VALUES 3, 2) AS t(k)) WHERE n = 1",
    ],
)
def test_what_has_ended_is_shown_once_while_other_tables_go_on(query: str) -> None:
    numbers = "'connector' = 'datagen', 'number-of-rows' = '9', 'fields.n.kind' = 'sequence'"
    tables = session(
        f"CREATE TABLE numbers (n BIGINT) WITH ({numbers}, 'fields.n.start' = '11', 'fields.n.end' = '19')",
        is_streaming=False,
        **{"headrace.epoch.max-records": "2", "headrace.epoch.target-duration": "60s"},
    )
    found = sorted(row[0] for row in tables.execute_sql(f"({query}) UNION ALL SELECT n FROM numbers").collect())
    assert found == [2, *range(11, 20)]


@pytest.mark.parametrize("order", ["ORDER BY k", "ORDER BY -k DESC"])
def test_functions_over_a_second_window_take_constants(order: str) -> None:
    tables = session(is_streaming=False)
    windows = f"SUM(k) OVER (ORDER BY k ROWS 1 PRECEDING), LAG(k, 2) OVER ({order}), NTILE(2) OVER (ORDER BY -k)"
    text = f"SELECT k, {windows} FROM (VALUES 1, 2, 3) AS t(k)"
    assert "NTILE(2) AS" in (plan := tables.explain_sql(text))
    assert "LAG(k, 2) AS" in plan
    found = sorted(tuple(row) for row in tables.execute_sql(text).collect())
    assert found == [(1, 1, None, 2), (2, 3, None, 1), (3, 5, 1, 1)]


@pytest.mark.parametrize(
    ("windows", "shown"),
    [
        ("COUNT(k) OVER w AS n, COUNT(k) OVER w AS m FROM t WINDOW w AS (ORDER BY k)", "COUNT(k) AS w0$o0"),
        ("k AS n, LAG(k, 2) OVER (ORDER BY -k) AS m FROM t ORDER BY n, m LIMIT 1", "LAG(k, 2) AS w0$o0"),
        ("COUNT(k) OVER (PARTITION BY 5 ORDER BY k) AS n, 6 AS m FROM t", "OverAggregate(orderBy=[k ASC]"),
    ],
)
def test_plans_of_windows_have_the_columns_that_are_read(windows: str, shown: str) -> None:
    tables = session("CREATE VIEW t AS SELECT k FROM (VALUES 1, 2, 3) AS t(k)", is_streaming=False)
    plan = tables.explain_sql(f"SELECT k, SUM(n + m) OVER (PARTITION BY n ORDER BY k) FROM (SELECT k, {windows})")
    assert shown in plan


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t ORDER BY v LIMIT 1",
        "SELECT k, ROW_NUMBER() OVER (ORDER BY v) FROM t",
        "SELECT * FROM (SELECT k, RANK() OVER (PARTITION BY k ORDER BY v) AS n FROM t) WHERE n < 2",
    ],
)
def test_values_without_an_order_are_not_sorted_by(text: str) -> None:
    tables = session("CREATE VIEW t AS SELECT k, ARRAY[k] AS v FROM (VALUES 1, 2) AS t(k)", is_streaming=False)
    with pytest.raises(PlanningError, match="rows cannot be sorted by v: values of ARRAY<INT NOT NULL> NOT NULL have"):
        tables.execute_sql(text)
