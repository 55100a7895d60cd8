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
        assert aggregate["predecessors"][0]["ship_strategy"] == "HASH"


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
    tables = session(NUMBERS, **settings)
    text = tables.explain_sql(COUNTS, ExplainDetail.PLAN_ADVICE)
    assert "== Optimized Physical Plan With Advice ==\nGroupAggregate(advice=[1], groupBy=[k]" in text
    assert f"({told}" in text.partition("advice[1]: [ADVICE] ")[2]
    assert "No available advice..." in tables.explain_sql("SELECT k FROM numbers", ExplainDetail.PLAN_ADVICE)


def test_details_that_are_not_there_are_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match="ESTIMATED_COST"):
        session(NUMBERS).execute_sql(f"EXPLAIN ESTIMATED_COST {COUNTS}")
    with pytest.raises(UnsupportedOperationError, match="batch mode"):
        session("CREATE VIEW w AS SELECT 1 AS n", is_streaming=False).execute_sql("EXPLAIN PLAN_ADVICE SELECT n FROM w")
