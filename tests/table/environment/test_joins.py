"""Joins of whole jobs, whose inputs end in different epochs."""

from __future__ import annotations

import pytest

from headrace.client.submission import plan_graph
from headrace.common import RowKind
from headrace.jobmanager.settings import job_settings
from headrace.operators import group_aggregate
from headrace.operators.join import bounded_join
from headrace.table import EnvironmentSettings, TableEnvironment
from headrace.table.physical.basic import TableSourceScan
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


@pytest.mark.parametrize("hint", ["MULTI_JOIN(a, b, c)", "BROADCAST(b)", "STATE_TTL('a' = '1d')"])
def test_a_table_that_is_joined_with_itself_is_read_once_whatever_hints_name_it(hint: str) -> None:
    tables = session("CREATE TABLE numbers (k INT) WITH ('connector' = 'datagen', 'number-of-rows' = '9')")
    joined = tables.sql_query(
        f"SELECT /*+ {hint} */ a.k FROM numbers a JOIN numbers b ON a.k = b.k JOIN numbers c ON a.k = c.k"
    )
    (plan,) = tables.planner().plan([joined.relation])
    assert len({node for node in plan.walk() if isinstance(node, TableSourceScan)}) == 1


LEFT = "(VALUES (1, 'a'), (1, 'a'), (2, 'b'), (CAST(NULL AS INT), 'c'), (3, CAST(NULL AS STRING)), (4, 'd')) AS l(k, t)"
RIGHT = (
    "(VALUES (1, 'a', 10), (1, 'b', 11), (2, 'b', 12), (CAST(NULL AS INT), 'c', 13), (4, 'x', 14), (4, 'd', 15)) "
    "AS r(k, t, n)"
)
OF_BATCHES = [
    *(
        f"SELECT l.k, l.t, n FROM {LEFT} {kind} JOIN {RIGHT} ON {condition}"
        for kind in ("", "LEFT", "RIGHT", "FULL")
        for condition in ("l.k = r.k AND l.t = r.t", "l.k = r.k AND n > 10")
    ),
    f"SELECT k, t FROM {LEFT} WHERE EXISTS (SELECT 1 FROM {RIGHT} WHERE r.k = l.k AND r.t <> l.t)",
    f"SELECT k, t FROM {LEFT} WHERE NOT EXISTS (SELECT 1 FROM {RIGHT} WHERE r.k = l.k AND r.t = l.t)",
    f"SELECT l.t, COUNT(*), COUNT(DISTINCT n), SUM(n), MIN(r.t), AVG(n) FROM {LEFT}, {RIGHT} GROUP BY l.t",
    f"SELECT COUNT(*), MAX(n) FROM {LEFT} JOIN {RIGHT} ON l.k = r.k AND l.k > 1",
]


@pytest.mark.parametrize("query", OF_BATCHES)
def test_batches_give_the_same_however_much_is_held(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def result(*, is_streaming: bool = False, **settings: str) -> list[str]:
        left: list[str] = []
        tables = session(is_streaming=is_streaming, **{"parallelism.default": "2", **settings})
        for row in tables.execute_sql(query).collect():
            if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                left.append(str(tuple(row)))
            else:
                left.remove(str(tuple(row)))
        return sorted(left)

    expected = result(is_streaming=True)
    assert result() == expected
    monkeypatch.setattr(bounded_join, "_HELD_BYTES", 1)
    monkeypatch.setattr(group_aggregate, "_HELD_ROWS", 2)
    assert result() == expected
    assert (
        result(
            **{
                "headrace.epoch.max-records": "1",
                "headrace.epoch.target-duration": "60s",
                "headrace.epoch.first-records": "1",
            }
        )
        == expected
    )
