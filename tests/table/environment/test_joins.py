"""Joins of whole jobs, whose inputs end in different epochs."""

from __future__ import annotations

import pytest

from headrace.client.submission import plan_graph
from headrace.jobmanager.settings import job_settings
from headrace.table import EnvironmentSettings, TableEnvironment
from tests.table.connectors.session import session

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


@pytest.mark.parametrize(("runtime", "first"), [("spark", 1 << 40), ("local", 5_000_000)])
def test_all_input_of_batch_mode_is_one_epoch_where_it_need_not_be_in_memory(runtime: str, first: int) -> None:
    numbers = "CREATE TABLE numbers (k INT) WITH ('connector' = 'datagen', 'number-of-rows' = '9')"
    out = "CREATE TABLE totals (k INT, n BIGINT) WITH ('connector' = 'blackhole')"
    tables = session(numbers, out, is_streaming=False, **{"headrace.runtime": runtime})
    query = "SELECT a.k, COUNT(*) AS n FROM numbers a JOIN numbers b ON a.k = b.k GROUP BY a.k ORDER BY n"
    graph = tables.new_graph()
    planner = tables.planner()
    planner.translated(
        planner.plan(tables.create_statement_set().add_insert_sql(f"INSERT INTO totals {query}")._relations), graph
    )
    configuration = tables.job_configuration()
    assert job_settings(configuration, plan_graph(graph, configuration, "job", 2)).limits.first_records == first
