"""The lower bound: DuckDB over the whole input as one batch, without event time, state or checkpoints.

Option: ``work``, which is ``window``, ``process`` or ``functions``.
"""

from __future__ import annotations

import time

import duckdb

from benchmarks.outcome import Assignment, Epoch, Outcome
from benchmarks.truth import SAMPLE, WINDOW_MILLIS

_THREADS = 2
_RUNS = 4
"""The first one finds cold files."""

_QUERIES = {
    "window": f"""
        select count(*), sum(c), sum(s), max(w) + {WINDOW_MILLIS} from (
            select key, epoch_ms(ts) // {WINDOW_MILLIS} * {WINDOW_MILLIS} as w, count(*) as c, sum(value) as s
            from read_parquet(?) group by all
        )
        """,
    # Running totals of every record, as the others have to keep them; so the sample is not a filter, which DuckDB would
    # apply before the window function.
    "process": f"""
        select
            count(case when key % {SAMPLE} = 0 then 1 end),
            sum(case when key % {SAMPLE} = 0 then c end),
            max(case when key % {SAMPLE} = 0 then s end),
            max(c), max(s)
        from (
            select key, count(*) over running as c, sum(value) over running as s from read_parquet(?)
            window running as (partition by key rows unbounded preceding)
        )
        """,
    "functions": """
        select count(*), sum(length(a)), sum(length(b)), sum(c), sum(length(d)), sum(length(e)), sum(f), sum(length(g)),
            sum(h), sum(length(i)), sum(j), sum(minute(k)), sum(day(l))
        from (
            select upper(key) as a, substring(key, 6) as b, length(key) as c, key || '@' || key as d,
                replace(key, 'card', 'account') as e, position('-' in key) as f,
                case when value < 0.25 then 'low' when value < 0.75 then 'middle' else 'high' end as g,
                round(value * 100, 2) as h, strftime(ts, '%Y-%m-%d %H:%M') as i, second(ts) as j,
                date_trunc('minute', ts) as k, cast(ts as date) as l
            from read_parquet(?) where value < 0.9 and key like 'card-%'
        )
        """,
}

_TOTALS = {
    "window": ("rows", "count", "sum", "last_end"),
    "process": ("rows", "count", "highest"),
    "functions": ("rows", *"abcdefghijkl"),
}


def run(assignment: Assignment) -> Outcome:
    """Run the query several times; what a run takes is told as its share of an epoch's records."""
    work = assignment.options["work"]
    files = f"{assignment.input}/*.parquet"
    epoch = assignment.records_per_epoch
    assert epoch is not None
    epochs: list[Epoch] = []
    with duckdb.connect() as connection:
        connection.execute(f"set timezone = 'UTC'; set threads = {_THREADS}")
        (records,) = _row(connection, "select count(*) from read_parquet(?)", files)
        for _ in range(_RUNS):
            started = time.monotonic()
            row = _row(connection, _QUERIES[work], files)
            epochs.append(Epoch(epoch, (time.monotonic() - started) * epoch / records))
    totals = dict(zip(_TOTALS[work], row, strict=False))
    return Outcome(tuple(epochs), totals)


def _row(connection: duckdb.DuckDBPyConnection, query: str, files: str) -> tuple[float, ...]:
    row = connection.execute(query, [files]).fetchone()
    assert row is not None
    return tuple(float(value) for value in row)
