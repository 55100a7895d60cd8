"""The totals of Nexmark's queries by DuckDB, which runs the same text but for what it calls by other names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

if TYPE_CHECKING:
    from benchmarks.sql import SqlWork

_NAMES = {
    "`": '"',
    "REGEXP_EXTRACT(": "extracted(",
    "AVG(price)": "SUM(price) // COUNT(*)",
    "AVG(top_price)": "SUM(top_price) // COUNT(*)",
    "FROM timed_bid": "FROM bid",
}

_MACROS = (
    "CREATE MACRO date_format(t, f) AS strftime(t, CASE f WHEN 'HH:mm' THEN '%H:%M' ELSE '%Y-%m-%d' END)",
    "CREATE MACRO split_index(t, separator, place) AS split_part(t, separator, place + 1)",
    "CREATE MACRO extracted(t, r, number) AS CASE WHEN regexp_matches(t, r) THEN regexp_extract(t, r, number) END",
)

_WINDOW_CALL = re.compile(r"TABLE\((TUMBLE|HOP)\(TABLE (\w+), [^)]*\), [^)]*\)\)")
"""A call of a window table function, which the view of the same windows stands in for."""

_TABLES = ("bid", "person", "auction")
_WINDOWS = tuple(
    f"CREATE VIEW {kind}_{table} AS SELECT *, time_bucket(INTERVAL '{step} seconds', \"dateTime\") - back * "
    f"INTERVAL '{step} seconds' AS window_start, window_start + INTERVAL '10 seconds' AS window_end "
    f"FROM {table}, (SELECT UNNEST(range({10 // step})) AS back)"
    for table in _TABLES
    for kind, step in (("TUMBLE", 10), ("HOP", 2))
)

_SESSIONS = """
    SELECT bidder, COUNT(*) AS bid_count, MAX("dateTime") + INTERVAL '10' SECOND AS endtime FROM (
        SELECT bidder, "dateTime", SUM(is_first) OVER (PARTITION BY bidder ORDER BY "dateTime" RANGE UNBOUNDED
            PRECEDING) AS session FROM (
            SELECT bidder, "dateTime", CAST("dateTime" - LAG("dateTime") OVER (PARTITION BY bidder ORDER BY "dateTime")
                <= INTERVAL '10' SECOND AS INT) IS DISTINCT FROM 1 AS is_first FROM bid))
    GROUP BY bidder, session"""

_INSTEAD = {
    "SESSION(": _SESSIONS,
    "side_input": "SELECT auction, bidder, price, 2.0 * (auction % 10000) AS weight FROM bid",
}
"""What DuckDB runs in place of queries with these words."""


def nexmark_totals(work: SqlWork, folder: Path) -> Mapping[str, float]:
    """The totals of a query over the files of a folder."""
    instead = (text for sign, text in _INSTEAD.items() if sign in work.query)
    query = next(instead, work.checked or work.query)
    totals = f"SELECT {', '.join(work.totals.values())} FROM ({query})"
    return work.named(_row(_renamed(totals), tuple(map(_renamed, work.tables[1:])), folder))


@cache
def _row(totals: str, views: tuple[str, ...], folder: Path) -> tuple[Any, ...]:
    with duckdb.connect() as database:
        events = f"CREATE VIEW events AS FROM read_parquet('{folder}/*.parquet')"
        for statement in (*_MACROS, events, *views, *_WINDOWS):
            database.execute(statement)
        row = database.execute(totals).fetchone()
    assert row is not None
    return row


def _renamed(statement: str) -> str:
    statement = _WINDOW_CALL.sub(r"\1_\2", statement)
    for name, own in _NAMES.items():
        statement = statement.replace(name, own)
    return statement
