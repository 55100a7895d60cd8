"""What the results have to be: computed by DuckDB over the same files, so by neither of those who are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import duckdb

WINDOW_MILLIS = 60_000
SLIDE_MILLIS = 1_000
"""Of sliding windows as long as the tumbling ones, so a record is in sixty of them."""
HALF_WINDOW_MILLIS = WINDOW_MILLIS // 2
"""The slide of windows of which a record is in two."""
GAP_MILLIS = 2_000
"""Between sessions."""
LEFT_BELOW = 0.5
"""Records with a smaller value are of the left stream of a join, the others of the right one."""
NEAR_MILLIS = 30_000
"""How far records may be from each other that an interval join matches."""
TRIGGER_COUNT = 10
"""The count trigger shows a window whenever so many records have come."""
SAMPLE = 1_000
"""The process benchmark emits for one key in so many."""

_TOLERANCE = 1e-9
_SLACK = 1e-6


class WrongResultError(Exception):
    """A program did not compute what it was asked for."""


def window_totals(folder: Path, last_end: float) -> dict[str, float]:
    """Totals of all windows of one minute that end at ``last_end`` (in milliseconds) or before."""
    return _window_query(
        f"""
        select key, epoch_ms(ts) // {WINDOW_MILLIS} * {WINDOW_MILLIS} + {WINDOW_MILLIS} as w, count(*) as c,
            sum(value) as s
        from read_parquet('{folder}/*.parquet') group by all
        """,
        last_end,
    )


def sliding_totals(folder: Path, last_end: float) -> dict[str, float]:
    """Totals of all sliding windows that end at ``last_end`` (in milliseconds) or before.

    Counted by slide: those of a slide add to each window that has it; and a window is a result of the first slide in it
    that has records, so no window has to be made.
    """
    slides = WINDOW_MILLIS // SLIDE_MILLIS
    last = int(last_end) // SLIDE_MILLIS - slides
    row = _query(
        f"""
        select coalesce(sum(firsts), 0), coalesce(sum(c * windows), 0), coalesce(sum(s * windows), 0) from (
            select c, s, greatest(0, least(slide, {last}) - (slide - {slides})) as windows,
                greatest(0, least(slide, {last}) - greatest(coalesce(before, 0), slide - {slides})) as firsts
            from (
                select *, lag(slide) over (partition by key order by slide) as before from (
                    select key, epoch_ms(ts) // {SLIDE_MILLIS} as slide, count(*) as c, sum(value) as s
                    from read_parquet('{folder}/*.parquet') group by all
                )
            )
        )
        """
    )
    return dict(zip(("rows", "count", "sum"), row, strict=True))


def session_totals(folder: Path, last_end: float) -> dict[str, float]:
    """Totals of all sessions that end at ``last_end`` (in milliseconds) or before."""
    return _window_query(
        f"""
        select max(millis) + {GAP_MILLIS} as w, count(*) as c, sum(value) as s from (
            select *, count(*) filter (where starts) over (partition by key order by millis, value) as number from (
                select key, epoch_ms(ts) as millis, value,
                    millis - lag(millis, 1, 0) over (partition by key order by millis, value) > {GAP_MILLIS} as starts
                from read_parquet('{folder}/*.parquet')
            )
        ) group by key, number
        """,
        last_end,
    )


def median_totals(folder: Path, last_end: float) -> dict[str, float]:
    """Totals of the upper medians of all windows of one minute that end at ``last_end`` (in milliseconds) or before."""
    return _window_query(
        f"""
        select key, epoch_ms(ts) // {WINDOW_MILLIS} * {WINDOW_MILLIS} + {WINDOW_MILLIS} as w, count(*) as c,
            list_sort(list(value))[count(*) // 2 + 1] as s
        from read_parquet('{folder}/*.parquet') group by all
        """,
        last_end,
    )


def interval_join_totals(folder: Path) -> dict[str, float]:
    """Totals of all pairs of a key whose times are at most :data:`NEAR_MILLIS` from each other."""
    return _interval_query(folder, "count(*)")


def outer_join_totals(folder: Path) -> dict[str, float]:
    """The same with those that have no partner, each of which is a row; sums are of pairs alone."""
    alone = "(select count(*) from records) - count(distinct l.id) - count(distinct r.id)"
    return _interval_query(folder, f"count(*) + {alone}")


def _interval_query(folder: Path, rows: str) -> dict[str, float]:
    # Records that are near are in the same stretch of time or in neighbouring ones: few are compared, of a hot key too.
    stretches = f"[n + epoch_ms(ts) // {NEAR_MILLIS} for n in [-1, 0, 1]]"
    is_near = f"l.stretch = r.stretch and abs(epoch_ms(l.ts) - epoch_ms(r.ts)) <= {NEAR_MILLIS}"
    return _join_query(folder, is_near, f"epoch_ms(ts) // {NEAR_MILLIS}", f"unnest({stretches})", rows)


def window_join_totals(folder: Path) -> dict[str, float]:
    """Totals of all pairs of a key in the same minute."""
    minute = f"epoch_ms(ts) // {WINDOW_MILLIS}"
    return _join_query(folder, "l.stretch = r.stretch", minute, minute)


def sliding_join_totals(folder: Path) -> dict[str, float]:
    """Totals of all pairs of a key in windows of a minute that slide by half of one, for each that both are in."""
    windows = f"unnest([n + epoch_ms(ts) // {HALF_WINDOW_MILLIS} for n in [0, 1]])"
    return _join_query(folder, "l.stretch = r.stretch", windows, windows)


def lonely_totals(folder: Path) -> dict[str, float]:
    """Totals of all records, when each is a result that has no sum."""
    (rows,) = _query(f"select count(*) from read_parquet('{folder}/*.parquet')")
    return {"rows": rows}


def co_group_totals(folder: Path) -> dict[str, float]:
    """Totals of the sums of a key in a minute, of both streams."""
    row = _query(
        f"""
        select count(*), coalesce(sum(s), 0) from (
            select sum(value) as s from read_parquet('{folder}/*.parquet')
            group by key, epoch_ms(ts) // {WINDOW_MILLIS}
        )
        """
    )
    return dict(zip(("rows", "sum"), row, strict=True))


def _join_query(
    folder: Path, condition: str, left_stretch: str, right_stretch: str, rows: str = "count(*)"
) -> dict[str, float]:
    row = _query(
        f"""
        with records as (select *, row_number() over () as id from read_parquet('{folder}/*.parquet'))
        select {rows}, coalesce(sum(l.value + r.value), 0)
        from (select *, {left_stretch} as stretch from records where value < {LEFT_BELOW}) l
        join (select *, {right_stretch} as stretch from records where value >= {LEFT_BELOW}) r
        on l.key = r.key and {condition}
        """
    )
    return dict(zip(("rows", "sum"), row, strict=True))


def trigger_totals(folder: Path) -> dict[str, float]:
    """Totals of what a trigger shows of the windows of one minute at every :data:`TRIGGER_COUNT` th record."""
    row = _query(
        f"""
        select coalesce(sum(n), 0), coalesce(sum({TRIGGER_COUNT} * n * (n + 1) // 2), 0) from (
            select count(*) // {TRIGGER_COUNT} as n from read_parquet('{folder}/*.parquet')
            group by key, epoch_ms(ts) // {WINDOW_MILLIS}
        )
        """
    )
    return dict(zip(("rows", "count"), row, strict=True))


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


def copied_totals(folder: Path) -> dict[str, float]:
    """Totals of all records, which are numbered from 0, when each is there once."""
    row = _query(f"select count(*), count(*) * (count(*) - 1) // 2, sum(value) from read_parquet('{folder}/*.parquet')")
    rows, ids, total = row
    return {"rows": rows, "distinct": rows, "ids": ids, "sum": total}


def deadline_totals(folder: Path, due_millis: int) -> dict[str, float]:
    """Totals of the records until a time, counted from the first record on, when each of them gives one result."""
    row = _query(
        f"""
        select count(*), count(*), sum(value) from {_with_millis(folder)} where millis <= {due_millis}
        """
    )
    return dict(zip(("rows", "count", "sum"), row, strict=True))


def list_totals(folder: Path, filling_millis: int, each: int) -> dict[str, float]:
    """Totals of one list to which records append, those of the first so many milliseconds ``each`` elements."""
    row = _query(
        f"""
        select 1, sum(n), sum(n * value) from (
            select value, if(millis < {filling_millis}, {each}, 1) as n from {_with_millis(folder)}
        )
        """
    )
    return dict(zip(("rows", "count", "sum"), row, strict=True))


def one_window_totals(folder: Path) -> dict[str, float]:
    """Totals of one window that has all records."""
    row = _query(f"select 1, count(*), sum(value) from read_parquet('{folder}/*.parquet')")
    return dict(zip(("rows", "count", "sum"), row, strict=True))


def _with_millis(folder: Path) -> str:
    """All records, with their time from the first one on in milliseconds."""
    return f"(select *, epoch_ms(ts - min(ts) over ()) as millis from read_parquet('{folder}/*.parquet'))"


def check(who: str, found: Mapping[str, float], expected: Mapping[str, float]) -> None:
    """Compare what a program computed with what it should have.

    Raises:
        WrongResultError: naming the program and the first total that is wrong, or when there are none but should be.
    """
    if not found.get("rows") and expected.get("rows", 1):
        raise WrongResultError(f"{who} gave no results")
    for name, value in expected.items():
        if not math.isclose(found.get(name, math.nan), value, rel_tol=_TOLERANCE, abs_tol=_SLACK):
            raise WrongResultError(f"{who}: {name} is {found.get(name)!r}, should be {value!r}")


def _window_query(windows: str, last_end: float) -> dict[str, float]:
    """Totals of windows with the end ``w``, the count ``c`` and the sum ``s``."""
    row = _query(
        "select count(*), coalesce(sum(c), 0), coalesce(sum(s), 0), coalesce(max(w), 0) "
        f"from ({windows}) where w <= {int(last_end)}"
    )
    return dict(zip(("rows", "count", "sum", "last_end"), row, strict=True))


def _query(sql: str) -> tuple[float, ...]:
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        row = connection.execute(sql).fetchone()
    assert row is not None
    return tuple(float(value) for value in row)
