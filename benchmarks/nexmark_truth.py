"""The totals of Nexmark's queries by DuckDB, which runs the same text but for what it calls by other names."""

from __future__ import annotations

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
    "FROM timed_bid": "FROM bid",
}

_MACROS = (
    "CREATE MACRO date_format(t, f) AS strftime(t, CASE f WHEN 'HH:mm' THEN '%H:%M' ELSE '%Y-%m-%d' END)",
    "CREATE MACRO split_index(t, separator, place) AS split_part(t, separator, place + 1)",
    "CREATE MACRO extracted(t, r, number) AS CASE WHEN regexp_matches(t, r) THEN regexp_extract(t, r, number) END",
)

_SESSIONS = """
    SELECT bidder, COUNT(*) AS bid_count, MAX("dateTime") + INTERVAL '10' SECOND AS endtime FROM (
        SELECT bidder, "dateTime", SUM(is_first) OVER (PARTITION BY bidder ORDER BY "dateTime" RANGE UNBOUNDED
            PRECEDING) AS session FROM (
            SELECT bidder, "dateTime", CAST("dateTime" - LAG("dateTime") OVER (PARTITION BY bidder ORDER BY "dateTime")
                <= INTERVAL '10' SECOND AS INT) IS DISTINCT FROM 1 AS is_first FROM bid))
    GROUP BY bidder, session"""


def nexmark_totals(work: SqlWork, folder: Path) -> Mapping[str, float]:
    """The totals of a query over the files of a folder."""
    query = _SESSIONS if "SESSION(" in work.query else work.checked or work.query
    totals = f"SELECT {', '.join(work.totals.values())} FROM ({query})"
    return work.named(_row(_renamed(totals), _renamed(work.tables[1]), folder))


@cache
def _row(totals: str, bids: str, folder: Path) -> tuple[Any, ...]:
    with duckdb.connect() as database:
        for statement in (*_MACROS, f"CREATE VIEW events AS FROM read_parquet('{folder}/*.parquet')", bids):
            database.execute(statement)
        row = database.execute(totals).fetchone()
    assert row is not None
    return row


def _renamed(statement: str) -> str:
    for name, own in _NAMES.items():
        statement = statement.replace(name, own)
    return statement
