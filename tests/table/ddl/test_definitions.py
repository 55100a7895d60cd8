"""Statements on the catalogs, and what is shown of them."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.table.bind import BindContext, SqlValidationError
from headrace.table.catalog.manager import CatalogManager
from headrace.table.ddl import execute_ddl
from headrace.table.parse import SqlSource, parse_script


def execute(script: str, catalogs: CatalogManager | None = None) -> list[list[Any]]:
    """The rows that the last statement answers."""
    catalogs = catalogs or CatalogManager()
    rows: list[list[Any]] = []
    for statement in parse_script(script):
        result = execute_ddl(BindContext(SqlSource(script), catalogs), statement)
        assert result is not None
        rows = [list(row) for row in result.rows]
    return rows


BIDS = """
CREATE TABLE bids (
    id INT COMMENT 'which', price DECIMAL(10, 2), at_ts TIMESTAMP(3), doubled AS price * 2,
    kafka_offset BIGINT METADATA FROM 'offset' VIRTUAL, seen AS PROCTIME(),
    WATERMARK FOR at_ts AS at_ts - INTERVAL '2' SECOND, PRIMARY KEY (id) NOT ENFORCED
) COMMENT 'bids' PARTITIONED BY (id) WITH ('connector' = 'blackhole');
"""


def test_what_is_shown_creates_the_same() -> None:
    catalogs = CatalogManager()
    shown = execute(f"{BIDS} SHOW CREATE TABLE bids;", catalogs)[0][0]
    again = CatalogManager()
    assert execute(f"{shown}; SHOW CREATE TABLE bids;", again) == [[shown]]
    assert execute("DESCRIBE bids;", again) == execute("DESCRIBE bids;", catalogs)


def test_views_keep_what_they_meant() -> None:
    """Their text has whole names, so that it means the same in another database, and when tables get columns."""
    script = f"""{BIDS}
    CREATE VIEW cheap (a, b) AS SELECT * FROM (SELECT id, upper('x') FROM bids b WHERE price < 1) LIMIT 3;
    CREATE DATABASE other; USE other; SHOW CREATE VIEW default_database.cheap;"""
    ((shown,),) = execute(script)
    assert "FROM `default_catalog`.`default_database`.`bids` AS `b`" in shown
    assert "UPPER('x')" in shown
    assert "`b`.`price` < 1" in shown
    windows = "SELECT id FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_ts), INTERVAL '1' MINUTE))"
    ((shown,),) = execute(f"{BIDS} CREATE VIEW windows AS {windows}; SHOW CREATE VIEW windows;")
    assert "TUMBLE((SELECT `bids`.`id`, `bids`.`price`" in shown
    assert "FROM `default_catalog`.`default_database`.`bids` AS `bids`)" in shown


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ("ADD (size INT FIRST, note STRING AFTER id)", ["size", "id", "note", "price"]),
        ("MODIFY (price STRING FIRST)", ["price", "id"]),
        ("DROP doubled", ["id", "price"]),
        ("RENAME id TO key", ["key", "price"]),
    ],
)
def test_columns_are_altered(change: str, names: list[str]) -> None:
    table = "CREATE TABLE t (id INT, price INT, doubled INT);"
    shown = [row[0] for row in execute(f"{table} ALTER TABLE t {change}; DESCRIBE t;")]
    assert shown[: len(names)] == names


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("DROP price", "column 'price' is referenced by column 'doubled'"),
        ("DROP at_ts", "column 'at_ts' is referenced by the watermark"),
        ("RENAME price TO cost", "column 'price' is referenced by column 'doubled'"),
        ("ADD (id INT)", "a column named 'id' already exists"),
        ("ADD WATERMARK FOR at_ts AS at_ts", "there is a watermark already"),
        ("MODIFY (cost INT)", "column 'cost' does not exist"),
        ("MODIFY (at_ts STRING)", "column 'at_ts' is the row time, which is of type TIMESTAMP"),
        ("RESET ('connector')", "RESET cannot change 'connector'"),
    ],
)
def test_changes_that_would_break_a_table_are_refused(change: str, reason: str) -> None:
    with pytest.raises(SqlValidationError, match=reason):
        execute(f"{BIDS} ALTER TABLE bids {change};")


def test_a_table_is_like_another_one() -> None:
    like = "CREATE TABLE more (note STRING) LIKE bids (EXCLUDING CONSTRAINTS EXCLUDING PARTITIONS OVERWRITING OPTIONS);"
    shown = execute(f"{BIDS} {like} DESCRIBE more;")
    assert [row[0] for row in shown] == ["id", "price", "at_ts", "doubled", "kafka_offset", "seen", "note"]
    assert [row[3] for row in shown] == [None] * 7
    anew = "(doubled AS price * 3, kafka_offset BIGINT METADATA) LIKE bids (OVERWRITING GENERATED OVERWRITING METADATA)"
    shown = execute(f"{BIDS} CREATE TABLE more {anew}; DESCRIBE more;")
    assert [row[0] for row in shown] == ["id", "price", "at_ts", "doubled", "kafka_offset", "seen"]
    assert [row[4] for row in shown][3:5] == ["AS `price` * 3", "METADATA"]


def test_databases_and_catalogs_come_and_go() -> None:
    script = """
    CREATE CATALOG c WITH ('type' = 'generic_in_memory'); USE CATALOG c; CREATE DATABASE d; USE d;
    CREATE TABLE t (a INT); USE CATALOG default_catalog; DROP CATALOG c; SHOW CATALOGS;"""
    assert execute(script) == [["default_catalog"]]


@pytest.mark.parametrize(
    ("created", "dropped", "advice"),
    [
        ("TEMPORARY VIEW", "TABLE", "Write DROP TEMPORARY VIEW."),
        ("VIEW", "TABLE", "Write DROP VIEW."),
        ("TABLE", "VIEW", "Write DROP TABLE."),
    ],
)
def test_what_is_dropped_is_called_what_it_is(created: str, dropped: str, advice: str) -> None:
    body = "(a INT)" if created == "TABLE" else "AS SELECT 1 AS a"
    with pytest.raises(SqlValidationError, match=rf"'\S+\.v' is not a {dropped.lower()}[^$]*{advice}"):
        execute(f"CREATE {created} v {body}; DROP {dropped} v;")
