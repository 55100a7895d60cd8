"""Queries inside queries, in both modes and on two subtasks: what one computes is what the next one reads."""

from __future__ import annotations

import pytest

from headrace.common import RowKind
from tests.table.connectors.session import session

ROWS = "(VALUES 1, 2, 2, 3, 3, 3) AS t(k)"


@pytest.mark.parametrize("is_streaming", [True, False])
@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (f"SELECT MAX(c) FROM (SELECT k, COUNT(*) AS c FROM {ROWS} GROUP BY k)", [(3,)]),
        (f"SELECT COUNT(*) FROM (SELECT k FROM {ROWS} INTERSECT SELECT k + 1 FROM {ROWS})", [(2,)]),
        (f"SELECT k FROM {ROWS} EXCEPT SELECT 3 EXCEPT SELECT 1", [(2,)]),
    ],
)
def test_queries_read_what_queries_compute(query: str, rows: list[tuple[int, ...]], *, is_streaming: bool) -> None:
    tables = session(is_streaming=is_streaming, **{"parallelism.default": "2"})
    left: list[tuple[int, ...]] = []
    for row in tables.execute_sql(query).collect():
        if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            left.append(tuple(row))
        else:
            left.remove(tuple(row))
    assert sorted(left) == rows
