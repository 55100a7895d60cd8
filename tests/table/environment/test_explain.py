"""What ``EXPLAIN`` adds to a plan."""

from __future__ import annotations

import json

import pytest

from headrace.common.errors import UnsupportedOperationError
from headrace.table import ExplainDetail
from tests.table.connectors.session import session

NUMBERS = "CREATE TABLE numbers (k STRING, v INT) WITH ('connector' = 'datagen')"
COUNTS = "SELECT k, COUNT(*) FROM numbers GROUP BY k"


def test_the_execution_plan_has_stages_states_and_uids() -> None:
    tables = session(NUMBERS, "CREATE TABLE c (k STRING, n BIGINT) WITH ('connector' = 'print')")
    for text in (
        tables.explain_sql(COUNTS, ExplainDetail.JSON_EXECUTION_PLAN),
        tables.explain_sql(f"INSERT INTO c {COUNTS}", ExplainDetail.JSON_EXECUTION_PLAN),
    ):
        plan = json.loads(text.partition("== Physical Execution Plan ==")[2])
        found = {node["type"]: node for node in plan["nodes"]}
        aggregate, scan = found["GroupAggregate"], found["numbers"]
        assert (scan["stage"], aggregate["stage"], aggregate["state"]) == (0, 1, ["keyed"])
        assert aggregate["uid"].startswith("GroupAggregate-")
        assert aggregate["contents"] == "GroupAggregate(groupBy=[k], select=[k, COUNT(*) AS EXPR$1])"
        assert scan["contents"].startswith("TableSourceScan(table=[[default_catalog, default_database, numbers")
        assert aggregate["predecessors"][0]["ship_strategy"] == "HASH"


@pytest.mark.parametrize(("strategy", "senders"), [("AUTO", ["Local GlobalWindowAggregate"]), ("ONE_PHASE", [])])
def test_windows_are_summed_up_before_the_shuffle(strategy: str, senders: list[str]) -> None:
    settings = {"table.optimizer.agg-phase-strategy": strategy, "parallelism.default": "2"}
    tables = session(
        "CREATE TABLE bids (k STRING, t TIMESTAMP(3), WATERMARK FOR t AS t) WITH ('connector' = 'datagen')", **settings
    )
    query = "SELECT k, window_end, COUNT(*) FROM TUMBLE(TABLE bids, DESCRIPTOR(t), INTERVAL '1' MINUTE) GROUP BY "
    text = tables.explain_sql(f"{query} k, window_start, window_end", ExplainDetail.JSON_EXECUTION_PLAN)
    plan = json.loads(text.partition("== Physical Execution Plan ==")[2])
    assert [node["type"] for node in plan["nodes"] if node["type"].startswith("Local")] == senders


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "'table.exec.mini-batch.enabled' to 'true'"),
        (
            {
                "table.exec.mini-batch.enabled": "true",
                "table.exec.mini-batch.size": "100",
                "table.exec.mini-batch.allow-latency": "5 s",
                "table.optimizer.agg-phase-strategy": "ONE_PHASE",
            },
            "'table.optimizer.agg-phase-strategy' to 'AUTO'",
        ),
    ],
)
def test_advice(settings: dict[str, str], told: str) -> None:
    tables = session(NUMBERS, **settings, **{"table.exec.state.ttl": "1 d"})
    text = tables.explain_sql(COUNTS, ExplainDetail.PLAN_ADVICE)
    assert "== Optimized Physical Plan With Advice ==\nGroupAggregate(advice=[1], groupBy=[k]" in text
    assert f"({told}" in text.partition("advice[1]: [ADVICE] ")[2]
    assert "No available advice..." in tables.explain_sql("SELECT k FROM numbers", ExplainDetail.PLAN_ADVICE)


@pytest.mark.parametrize(
    ("query", "costs"),
    [
        (
            "SELECT k, COUNT(*), SUM(v) FROM numbers WHERE v > 1 GROUP BY k",
            [
                "5.0E7, {2.5E8 rows, 8.55E9 cpu, 1.6E9 io, 8.0E8 network, 0.0 memory}",
                "5.0E7, {2.0E8 rows, 8.5E9 cpu, 1.6E9 io, 8.0E8 network, 0.0 memory}",
                "5.0E7, {1.5E8 rows, 1.0E8 cpu, 1.6E9 io, 0.0 network, 0.0 memory}",
                "1.0E8, {1.0E8 rows, 1.0E8 cpu, 1.6E9 io, 0.0 network, 0.0 memory}",
            ],
        ),
        (
            "SELECT * FROM numbers AS a JOIN numbers AS b ON a.v = b.v",
            ["3.0E7, {4.000002E8 rows, 3.38000002E10 cpu, 3.2E9 io, 3.2E9 network, 0.0 memory}"],
        ),
        (
            "SELECT * FROM numbers WHERE v = 1 AND k = 'x'",
            ["2250000.0, {1.0225E8 rows, 1.0E8 cpu, 1.6E9 io, 0.0 network, 0.0 memory}"],
        ),
        ("SELECT v FROM numbers UNION ALL VALUES (1), (2)", ["1.00000002E8, "]),
        (
            "SELECT * FROM numbers /*+ OPTIONS('number-of-rows' = '10') */",
            ["10.0, {10.0 rows, 10.0 cpu, 160.0 io, 0.0 network, 0.0 memory}"],
        ),
    ],
)
def test_costs_are_estimated_as_by_flink(query: str, costs: list[str]) -> None:
    plan = session(NUMBERS).explain_sql(query, ExplainDetail.ESTIMATED_COST).split("\n\n")[1]
    found = [line.partition(": rowcount = ")[2].replace("cumulative cost = ", "") for line in plan.splitlines()[1:]]
    assert [line[: len(cost)] for line, cost in zip(found, costs, strict=False)] == costs


def test_advice_on_plans_of_batch_mode_is_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match="batch mode"):
        session("CREATE VIEW w AS SELECT 1 AS n", is_streaming=False).execute_sql("EXPLAIN PLAN_ADVICE SELECT n FROM w")


@pytest.mark.parametrize(
    ("ordinality", "node"), [("", "Uncollect"), (" WITH ORDINALITY", "Uncollect(withOrdinality=[true])")]
)
def test_elements_of_collections_are_shown_over_the_collection(ordinality: str, node: str) -> None:
    tables = session("CREATE TABLE lists (k INT, v AS ARRAY[k, 2]) WITH ('connector' = 'datagen')")
    text = tables.explain_sql(
        f"SELECT k, x FROM lists CROSS JOIN UNNEST(v){ordinality} AS u(x{', o' if ordinality else ''})"
    )
    lines = [line.lstrip(" :+-") for line in text.splitlines()]
    at = lines.index(node)
    assert lines[at - 1].startswith("LogicalProject(x=[$0]")
    assert lines[at + 1 : at + 3] == ["LogicalProject(v=[$cor0.v])", "LogicalValues(tuples=[[{ 0 }]])"]
