"""Aggregates of values at the ends of their types."""

from __future__ import annotations

from typing import Any

import pytest

from tests.table.connectors.session import rows, session

LONG, INT, DECIMAL = 2**63 - 1, 2**31 - 1, "9" * 38


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("BIGINT", [LONG, LONG], (0, 0)),
        ("BIGINT", [LONG, -LONG - 1], (LONG, LONG)),
        ("BIGINT", [3_000_000_000, 1_000_000_000, 2**53 + 1], (LONG, 4_246_033_505_541_552)),
        ("INT", [INT, -INT - 1], (INT, INT)),
        ("DECIMAL(38, 0)", [DECIMAL, DECIMAL, f"-{DECIMAL}"], (None, None)),
        ("DECIMAL(38, 0)", ["1", "3"], ("1.000000", "1.000000")),
    ],
)
def test_variances_are_those_of_flink(kind: str, values: list[Any], expected: tuple[Any, ...]) -> None:
    listed = ", ".join(f"(CAST('{value}' AS {kind}))" for value in values)
    query = f"SELECT VAR_POP(v), STDDEV_POP(v) FROM (VALUES {listed}) AS t(v)"
    shown = f"SELECT CAST(a AS STRING), CAST(b AS STRING) FROM ({query}) AS t(a, b)"
    assert rows(session(is_streaming=False), shown) == [tuple(None if each is None else str(each) for each in expected)]
