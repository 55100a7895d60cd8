"""TPC-H in batch mode: each query gives what DuckDB gives over the same files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from benchmarks.tpch import QUERIES, TABLES, definitions, query
from benchmarks.tpch_data import TpcH
from headrace.client import submission
from headrace.graph.stream_graph import StreamGraph
from headrace.plan.job_plan import JobPlan, PlanSettings, has_to_be_read_whole
from headrace.plan.planner import plan_job
from headrace.table import TableEnvironment
from tests.table.connectors.session import rows, session

SCALE = 0.01


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tpch")
    TpcH(SCALE).write(made)
    return made


@pytest.fixture(scope="module")
def known(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name in TABLES:
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{folder / name}/*.parquet')")
        yield connection


@pytest.fixture(scope="module")
def tables(folder: Path) -> TableEnvironment:
    return session(*definitions(folder), is_streaming=False)


QUICK = ("q2", "q7", "q13", "q16", "q17", "q19", "q21", "q22")
"""Queries of every kind: correlated ones, outer joins, alternatives, distinct values."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in QUERIES]
)
def test_queries_give_what_duckdb_gives(name: str, tables: TableEnvironment, known: duckdb.DuckDBPyConnection) -> None:
    text = query(name, SCALE).replace("> 300", "> 270")  # of so few orders none has more
    expected = known.execute(text).fetchall()
    found = rows(tables, text)
    assert len(found) == len(expected) > 0
    for one, other in zip(sorted(found, key=_order), sorted(expected, key=_order), strict=True):
        assert all(map(_are_equal, one, other)), f"{one} is not {other}"


@pytest.mark.parametrize("name", ["q17", "q18", "q21"])
def test_tasks_share_the_reading_of_a_table_that_meets_groups_of_itself(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = session(*definitions(folder), is_streaming=False)
    tables.get_config().set("table.optimizer.join.broadcast-threshold", "-1")
    plans: list[JobPlan] = []

    def plan(graph: StreamGraph, settings: PlanSettings) -> JobPlan:
        plans.append(plan_job(graph, replace(settings, parallelism=2)))
        return plans[-1]

    monkeypatch.setattr(submission, "plan_job", plan)
    rows(tables, query(name, SCALE))
    (job,) = plans
    sources = [each for each in job.operators() if not each.node.inputs]
    assert sources
    assert not any(has_to_be_read_whole(job, source) for source in sources)


def _order(row: tuple[Any, ...]) -> list[str]:
    """Texts and days first, and then numbers, of which the last digits may differ."""
    return [str(value) for value in row if not _is_number(value)] + [
        f"{float(value):030.2f}" for value in row if _is_number(value)
    ]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal)


def _are_equal(one: Any, other: Any) -> bool:
    if _is_number(one) and _is_number(other):
        return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-5)
    return bool(one == other)
