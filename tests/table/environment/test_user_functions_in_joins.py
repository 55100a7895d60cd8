"""Functions of the user in conditions of joins are opened before they are called, and closed in the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.table.environment.statements import bound_statements
from headrace.table.parse.parser import parse_statement
from headrace.table.parse.source import SqlSource
from headrace.table.physical.broadcast_joins import BroadcastJoin
from headrace.table.physical.joins import HashJoin, Join
from headrace.table.physical.multi_joins import MultiJoin
from headrace.table.physical.node import PhysicalNode
from headrace.table.physical.temporal_joins import TemporalJoin
from headrace.table.physical.window_joins import IntervalJoin, WindowJoin
from headrace.table.udf import FunctionContext, ScalarFunction
from tests.table.connectors.session import session


class Near(ScalarFunction):
    """Compares numbers by a distance that it has only when it is open."""

    events: ClassVar[list[str]] = []

    def open(self, function_context: FunctionContext) -> None:
        self.reach = int(function_context.get_job_parameter("reach", "1"))
        self.events.append("open")

    def eval(self, one: int, other: int) -> bool:
        return abs(one - other) <= self.reach

    def close(self) -> None:
        self.events.append("close")


NUMBERS = [1, 2, 5]
CONDITION = "a.k = b.k AND near(a.n, b.n)"
WINDOWS = "(SELECT * FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' MINUTE)))"
NEIGHBORS = [(1, 1), (1, 2), (2, 1), (2, 2), (5, 5)]
JOINS: list[tuple[type[PhysicalNode], bool, str, list[tuple[int, int]]]] = [
    (Join, True, f"e AS a JOIN e AS b ON {CONDITION}", NEIGHBORS),
    (MultiJoin, True, f"e AS a JOIN e AS b ON {CONDITION} JOIN e AS c ON c.k = a.k AND c.n = b.n", NEIGHBORS),
    (
        IntervalJoin,
        True,
        f"e AS a JOIN e AS b ON {CONDITION} AND a.ts BETWEEN b.ts - INTERVAL '3' SECOND AND b.ts + INTERVAL '3' SECOND",
        NEIGHBORS,
    ),
    (
        WindowJoin,
        True,
        (
            f"{WINDOWS} AS a JOIN {WINDOWS} AS b "
            f"ON a.window_start = b.window_start AND a.window_end = b.window_end AND {CONDITION}"
        ),
        NEIGHBORS,
    ),
    (TemporalJoin, True, f"e AS a JOIN v FOR SYSTEM_TIME AS OF a.ts AS b ON {CONDITION}", [(1, 1), (2, 2), (5, 5)]),
    (HashJoin, False, f"e AS a JOIN e AS b ON {CONDITION}", NEIGHBORS),
    (BroadcastJoin, False, f"p AS a JOIN p AS b ON {CONDITION}", NEIGHBORS),
]


@pytest.mark.parametrize(
    ("kind", "is_streaming", "joined", "expected"), JOINS, ids=[kind.__name__ for kind, *_ in JOINS]
)
def test_they_are_opened_and_closed(
    kind: type[PhysicalNode], is_streaming: bool, joined: str, expected: list[tuple[int, int]], tmp_path: Path
) -> None:
    records = [{"k": 1, "n": number, "ts": f"2024-01-01 00:00:0{number}"} for number in NUMBERS]
    (tmp_path / "rows.json").write_text("\n".join(map(json.dumps, records)))
    pq.write_table(pa.table({"k": pa.array([1, 1, 1], pa.int32()), "n": pa.array(NUMBERS, pa.int32())}), tmp_path / "p")
    timed = "k INT, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    of_files = "WITH ('connector' = 'filesystem', 'format' = '{}', 'path' = '{}')"
    as_json, as_parquet = of_files.format("json", tmp_path / "rows.json"), of_files.format("parquet", tmp_path / "p")
    tables = session(
        f"CREATE TABLE e ({timed}) {as_json}",
        f"CREATE TABLE v ({timed}, PRIMARY KEY (k) NOT ENFORCED) {as_json}",
        f"CREATE TABLE p (k INT, n INT) {as_parquet}",
        is_streaming=is_streaming,
        **{"table.optimizer.multi-join.enabled": str(kind is MultiJoin).lower()},
    )
    tables.create_temporary_function("near", Near())
    query = f"SELECT a.n, b.n FROM {joined}"
    (plan,) = tables.planner().plan(bound_statements(tables, parse_statement(query), SqlSource(query)))
    assert kind in map(type, plan.walk())
    Near.events.clear()
    result = tables.execute_sql(query)
    with result.collect() as found:
        assert sorted(map(tuple, found)) == expected
        result.wait()
    assert Near.events[0] == "open"
    assert Near.events.count("open") == Near.events.count("close")
