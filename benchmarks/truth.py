"""What the results have to be: computed by DuckDB over the same files, so by neither of those who are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import duckdb

WINDOW_MILLIS = 60_000
SAMPLE = 1_000
"""The process benchmark emits for one key in so many."""

_TOLERANCE = 1e-9
_SLACK = 1e-6


class WrongResultError(Exception):
    """A program did not compute what it was asked for."""


def window_totals(folder: Path, last_start: float) -> dict[str, float]:
    """Totals of all windows of one minute that begin at ``last_start`` (in milliseconds) or before."""
    row = _query(
        f"""
        select count(*), coalesce(sum(c), 0), coalesce(sum(s), 0), coalesce(max(w), 0) from (
            select key, epoch_ms(ts) // {WINDOW_MILLIS} * {WINDOW_MILLIS} as w, count(*) as c, sum(value) as s
            from read_parquet('{folder}/*.parquet') group by all
        ) where w <= {int(last_start)}
        """
    )
    return dict(zip(("rows", "count", "sum", "last_start"), row, strict=True))


def process_totals(folder: Path) -> dict[str, float]:
    """Totals of running counts and sums that are emitted at each record of one key in a thousand."""
    row = _query(
        f"""
        select coalesce(sum(n), 0), coalesce(sum(n * (n + 1) // 2), 0), coalesce(max(s), 0) from (
            select count(*) as n, sum(value) as s from read_parquet('{folder}/*.parquet')
            where key % {SAMPLE} = 0 group by key
        )
        """
    )
    return dict(zip(("rows", "count", "highest"), row, strict=True))


def check(who: str, found: Mapping[str, float], expected: Mapping[str, float]) -> None:
    """Compare what a program computed with what it should have.

    Raises:
        WrongResultError: naming the program and the first total that is wrong, or when there are no results at all.
    """
    if not found.get("rows"):
        raise WrongResultError(f"{who} gave no results")
    for name, value in expected.items():
        if not math.isclose(found.get(name, math.nan), value, rel_tol=_TOLERANCE, abs_tol=_SLACK):
            raise WrongResultError(f"{who}: {name} is {found.get(name)!r}, should be {value!r}")


def _query(sql: str) -> tuple[float, ...]:
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        row = connection.execute(sql).fetchone()
    assert row is not None
    return tuple(float(value) for value in row)
