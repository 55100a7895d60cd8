"""Joins of whole jobs, whose inputs end in different epochs."""

from __future__ import annotations

import pytest

from headrace.table import EnvironmentSettings, TableEnvironment

QUERIES = {
    "SELECT COUNT(*), SUM(c) FROM a, (SELECT COUNT(*) AS c FROM b)": (2000, 2_000_000),
    "SELECT COUNT(*), SUM(a.k) FROM a WHERE k NOT IN (SELECT k FROM b) OR k < 10": (1004, 1_495_530),
    "SELECT COUNT(*), SUM(n) FROM a, LATERAL (SELECT COUNT(*) + 1 AS n FROM b WHERE b.k = a.k)": (1000, 2000),
    "SELECT COUNT(*), SUM(n) FROM a LEFT JOIN LATERAL (SELECT COUNT(*) + 1 AS n FROM b WHERE b.k = a.k) ON TRUE": (
        2000,
        3000,
    ),
    "SELECT COUNT(*), SUM(c) FROM a LEFT JOIN (SELECT COUNT(*) AS c FROM b WHERE FALSE) ON FALSE": (2000, None),
}


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_results_are_the_same_in_both_modes(mode: str) -> None:
    settings = EnvironmentSettings.in_batch_mode() if mode == "batch" else EnvironmentSettings.in_streaming_mode()
    tables = TableEnvironment.create(settings)
    tables.get_config().set("headrace.runtime", "local")
    for name, other, first, last in (("a", "x", 1, 2000), ("b", "y", 6, 1005)):
        tables.execute_sql(
            f"CREATE TABLE {name} (k INT, {other} INT) WITH ('connector' = 'datagen', 'fields.k.kind' = 'sequence', "
            f"'fields.k.start' = '{first}', 'fields.k.end' = '{last}', 'number-of-rows' = '{last - first + 1}')"
        )
    for query, expected in QUERIES.items():
        assert tuple([*tables.execute_sql(query).collect()][-1]) == expected, query
