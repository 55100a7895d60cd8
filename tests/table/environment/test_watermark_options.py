"""The options of tables, and of the session, for watermarks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import ConfigurationError
from headrace.graph.specs import TimestampsSpec
from headrace.graph.stream_graph import StreamGraph
from headrace.table import PlanReference, TableEnvironment
from headrace.table.environment.statements import bound_statements
from headrace.table.parse.parser import parse_statement
from headrace.table.parse.source import SqlSource
from headrace.table.physical.translation import GraphBuilder
from headrace.time.watermark_strategy import WatermarkAlignment
from tests.table.connectors.session import run, session

SESSION_IDLE = "table.exec.source.idle-timeout"
IDLE = "scan.watermark.idle-timeout"
GROUP, DRIFT = "scan.watermark.alignment.group", "scan.watermark.alignment.max-drift"
QUERY = (
    "SELECT window_start, COUNT(*) FROM TUMBLE(TABLE clicks, DESCRIPTOR(at_time), INTERVAL '10' SECOND) "
    "GROUP BY window_start, window_end"
)


def first(row: Any, key: bytes | None, value: bytes, topic: str, partitions: range) -> int:
    """The first partition."""
    return partitions[0]


def clicks(path: Path, options: Mapping[str, str], *, watermark: str = ", WATERMARK FOR at_time AS at_time") -> str:
    given = "".join(f", '{key}' = '{value}'" for key, value in options.items())
    return (
        f"CREATE TABLE clicks (at_time TIMESTAMP(3){watermark}) WITH ('connector' = 'log', 'topic' = 'clicks', "
        f"'format' = 'json', 'path' = '{path}/shop.log', 'auto-create.partitions' = '2', "
        f"'sink.partitioner' = '{__name__}.first'{given})"
    )


def strategy_of(tables: TableEnvironment, query: str = QUERY) -> tuple[int | None, WatermarkAlignment | None]:
    """The idle timeout and the alignment of the watermarks of a query."""
    (plan,) = tables.planner().plan(bound_statements(tables, parse_statement(query), SqlSource(query)))
    graph = StreamGraph()
    GraphBuilder(graph, False, tables.planner().settings).translate(plan)
    (spec,) = (node.spec for node in graph if isinstance(node.spec, TimestampsSpec))
    return spec.strategy.idle_timeout, spec.strategy.alignment


@pytest.mark.parametrize(
    ("of_table", "of_session", "expected"),
    [
        ({}, {}, (None, None)),
        ({}, {SESSION_IDLE: "2 s"}, (2000, None)),
        ({IDLE: "500 ms"}, {SESSION_IDLE: "2 s"}, (500, None)),
        ({GROUP: "shops", DRIFT: "1 min"}, {}, (None, WatermarkAlignment("shops", 60_000))),
        ({"scan.watermark.emit.strategy": "on-event", "scan.watermark.emit.on-event.gap": "1"}, {}, (None, None)),
    ],
)
def test_options_of_tables_and_of_the_session(
    tmp_path: Path,
    of_table: Mapping[str, str],
    of_session: Mapping[str, str],
    expected: tuple[int | None, WatermarkAlignment | None],
) -> None:
    assert strategy_of(session(clicks(tmp_path, of_table), **of_session)) == expected


def test_hints_have_options_of_watermarks(tmp_path: Path) -> None:
    hinted = QUERY.replace("TABLE clicks", f"(SELECT * FROM clicks /*+ OPTIONS('{IDLE}' = '3 s') */)")
    assert strategy_of(session(clicks(tmp_path, {IDLE: "500 ms"})), hinted) == (3000, None)


def test_a_silent_partition_does_not_hold_windows_back(tmp_path: Path) -> None:
    tables = session(clicks(tmp_path, {IDLE: "50 ms"}))
    run(tables, "INSERT INTO clicks VALUES (TIMESTAMP '2024-01-01 00:00:01'), (TIMESTAMP '2024-01-01 00:00:11')")
    with tables.execute_sql(QUERY).collect() as found:
        assert tuple(next(found)) == (datetime(2024, 1, 1), 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scan.watermark.idle-time": "1 s"}, "clicks.*no option 'scan.watermark.idle-time'.*idle-timeout"),
        ({IDLE: "0"}, "idle-timeout"),
        ({GROUP: "shops"}, "set 'scan.watermark.alignment.max-drift'"),
        ({DRIFT: "1 s"}, "set 'scan.watermark.alignment.group'"),
        ({"scan.watermark.emit.on-event.gap": "5"}, "watermarks follow each row"),
        ({"scan.watermark.emit.strategy": "sometimes"}, "on-periodic"),
    ],
)
def test_wrong_options_are_told(tmp_path: Path, options: Mapping[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        session(clicks(tmp_path, options)).execute_sql(f"EXPLAIN {QUERY}")


def test_a_table_without_a_watermark_takes_none(tmp_path: Path) -> None:
    tables = session(clicks(tmp_path, {IDLE: "1 s"}, watermark=""))
    with pytest.raises(ConfigurationError, match="but no watermark: add WATERMARK FOR"):
        tables.execute_sql("EXPLAIN SELECT * FROM clicks")


def test_compiled_plans_keep_them(tmp_path: Path) -> None:
    sink = "CREATE TABLE counts (at_time TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole')"
    tables = session(clicks(tmp_path, {IDLE: "7 s", GROUP: "shops", DRIFT: "1 min"}), sink)
    text = tables.compile_plan_sql(f"INSERT INTO counts {QUERY}").as_json_string()
    loaded = tables.load_plan(PlanReference.from_json_string(text))
    assert loaded.as_json_string() == text
    assert "7000" in text
    assert "60000" in text
