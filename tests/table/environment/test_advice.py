"""Advice on plans: what each analyzer says, of which operator, and where the statement has it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.table import ExplainDetail
from tests.table.connectors.session import run, session

EVENTS = "(k STRING, v INT, n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')"
PLAIN = "(k STRING, v INT, ts TIMESTAMP(3)) WITH ('connector' = 'datagen')"
TABLES = (f"CREATE TABLE a {EVENTS}", f"CREATE TABLE b {EVENTS}", f"CREATE TABLE p {PLAIN}", f"CREATE TABLE q {PLAIN}")


def advice(query: str, *tables: str, **settings: str) -> list[str]:
    """The advice on a query, each in a line."""
    text = session(*(tables or TABLES), **settings).explain_sql(query, ExplainDetail.PLAN_ADVICE)
    return re.findall(r"advice\[\d+\]: (.*)", text)


def of(word: str, found: list[str]) -> list[str]:
    return [each for each in found if word in each]


def test_state_that_grows_is_told_with_its_place() -> None:
    query = "SELECT a.k, COUNT(*)\nFROM a JOIN b ON a.k = b.k\nGROUP BY a.k"
    found = of("for ever", advice(query))
    assert [each.partition(" keeps")[0] for each in found] == [
        "[ADVICE] GroupAggregate at line 3, column 1",
        "[ADVICE] Join at line 2, column 8",
    ]
    assert "SET 'table.exec.state.ttl' = '1 d'" in found[0]
    assert "STATE_TTL('table' = '1 d')" in found[1]
    assert of("for ever", advice(query, **{"table.exec.state.ttl": "1 h"})) == []
    hinted = query.replace("SELECT", "SELECT /*+ STATE_TTL('a' = '1 d', 'b' = '2 d') */")
    assert len(of("for ever", advice(hinted))) < len(found)
    assert of("for ever", advice("SELECT COUNT(*) FROM a")) == []


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) r FROM a) WHERE r < 3", "a rank"),
        ("SELECT a.k FROM a LEFT JOIN b ON a.k = b.k JOIN p ON p.k = a.k", "all rows of its inputs"),
        ("SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY v) FROM a", "all rows of each partition"),
    ],
)
def test_operators_that_keep_rows(query: str, kept: str) -> None:
    assert of(kept, of("for ever", advice(query)))


def test_joins_that_could_be_interval_joins() -> None:
    query = "SELECT a.k, b.v FROM a JOIN b ON a.k = b.k"
    (found,) = of("interval join", advice(query))
    assert "AND b.ts BETWEEN a.ts - INTERVAL '1' HOUR AND a.ts + INTERVAL '1' HOUR" in found
    bounded = f"{query} AND b.ts BETWEEN a.ts - INTERVAL '1' HOUR AND a.ts + INTERVAL '1' HOUR"
    assert of("interval join", advice(bounded)) == []
    assert of("interval join", advice("SELECT a.k FROM a JOIN p ON a.k = p.k")) == []
    changing = "SELECT a.k FROM (SELECT k, MAX(v) v FROM a GROUP BY k) a JOIN b ON a.k = b.k"
    assert of("interval join", advice(changing)) == []


def test_inputs_of_a_join_with_itself_are_called_by_their_aliases() -> None:
    (found,) = of("interval join", advice("SELECT x.v FROM a AS x JOIN (SELECT * FROM a) y ON x.k = y.k"))
    assert "AND y.ts BETWEEN x.ts - INTERVAL '1' HOUR AND x.ts + INTERVAL '1' HOUR" in found
    (found,) = of("interval join", advice("SELECT x.v FROM a AS x, a AS y WHERE x.k = y.k"))
    assert "AND y.ts BETWEEN x.ts - " in found
    several = "SELECT x.v FROM a x JOIN a y ON x.k = y.k UNION ALL SELECT z.v FROM a z JOIN a y ON z.v = y.v"
    assert "AND right_input.ts BETWEEN left_input.ts - " in of("interval join", advice(several))[0]


@pytest.mark.parametrize(
    ("query", "instead"),
    [
        (
            "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) r FROM p) WHERE r = 1",
            "a deduplication",
        ),
        ("SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts) FROM p", "an OVER aggregate in event time"),
        ("SELECT a.k FROM a JOIN p ON a.k = p.k AND p.ts > a.ts", "an interval join"),
    ],
)
def test_times_without_a_watermark(query: str, instead: str) -> None:
    (found,) = of("has no watermark", advice(query))
    assert "the time 'ts' of table default_catalog.default_database.p at line 1, column" in found
    assert "add WATERMARK FOR ts AS ts - INTERVAL '5' SECOND to its definition" in found
    assert instead in found
    assert of("has no watermark", advice(query.replace(" p", " b").replace("p.", "b."))) == []


def test_skew_that_statistics_show(tmp_path: Path) -> None:
    table = (
        f"CREATE TABLE f (k INT, c INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet')"
    )
    values = ", ".join(f"({'CAST(NULL AS INT)' if n % 2 else n}, {n % 3})" for n in range(20))
    run(session(table), f"INSERT INTO f VALUES {values}")
    tables = (*TABLES, table)
    (nulls,) = of("is NULL in 50%", advice("SELECT f.k, a.v FROM f LEFT JOIN a ON f.k = a.v", *tables))
    assert "Join at line 1, column 24 distributes rows by 'k'" in nulls
    few = "SELECT c, COUNT(*) FROM f GROUP BY c"
    (found,) = of("has 3 values at most", advice(few, *tables, **{"parallelism.default": "4"}))
    assert "of its 4 subtasks" in found
    assert of("values at most", advice(few, *tables, **{"parallelism.default": "3"})) == []
