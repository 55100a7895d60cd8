"""Queries over the records of random keys."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.sql import SqlWork, parquet

_EVENTS = f"""CREATE TABLE events (`key` BIGINT, ts TIMESTAMP(6), `value` DOUBLE, `time` AS CAST(ts AS TIMESTAMP(3)),
    WATERMARK FOR `time` AS `time` - {{lateness}}) {parquet()}"""

_TEXTS = f"CREATE TABLE events (`key` STRING, ts TIMESTAMP(6), `value` DOUBLE) {parquet()}"


def _work(query: str, sink: str, events: str = _EVENTS, **sums: str) -> SqlWork:
    totals = {"rows": "COUNT(*)"} | {name: f"SUM({each})" for name, each in sums.items()}
    return SqlWork((events,), query, sink, totals)


def windows(key_type: str = "BIGINT") -> SqlWork:
    """Counts and sums of a minute for each key."""
    return _work(
        "SELECT window_end AS w, `key`, COUNT(*) AS c, SUM(`value`) AS s FROM TABLE(TUMBLE(TABLE events, "
        "DESCRIPTOR(`time`), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, `key`",
        f"w TIMESTAMP(3), `key` {key_type}, c BIGINT, s DOUBLE",
        _EVENTS.replace("BIGINT", key_type),
        count="c",
        sum="s",
    )


GROUPS = _work(
    "SELECT `key`, COUNT(*) AS c, SUM(`value`) AS s FROM events GROUP BY `key`",
    "`key` BIGINT, c BIGINT, s DOUBLE",
    count="c",
    sum="s",
)

RANKS: Mapping[str, SqlWork] = {
    "Top-10": _work(
        "SELECT `key`, ts, `value` AS v, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY `key` ORDER BY `value` "
        "DESC) AS r FROM events) WHERE r <= 10",
        "`key` BIGINT, ts TIMESTAMP(6), v DOUBLE, r BIGINT",
        ranks="r",
        values="v",
    ),
    "deduplication": _work(
        "SELECT `key` AS k, ts, `value` FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY `key` ORDER BY `time` DESC) "
        "AS r FROM events) WHERE r = 1",
        "k BIGINT, ts TIMESTAMP(6), `value` DOUBLE",
        keys="k",
    ),
    "OVER": _work(
        "SELECT `key`, ts, SUM(`value`) OVER (PARTITION BY `key` ORDER BY `time` ROWS BETWEEN 99 PRECEDING AND CURRENT "
        "ROW) AS s FROM events",
        "`key` BIGINT, ts TIMESTAMP(6), s DOUBLE",
        sum="s",
    ),
}

_OTHERS = _EVENTS.replace("TABLE events", "TABLE others")

_PAIRS = "SELECT a.`key`, a.`value` AS v, b.`value` AS w FROM"

_VERSIONS = _OTHERS.replace("WATERMARK", "PRIMARY KEY (`key`) NOT ENFORCED, WATERMARK")


def _join(relations: str, others: str = _OTHERS) -> SqlWork:
    """A join of the events with the same events, which are read a second time."""
    totals = {"rows": "COUNT(*)", "left": "SUM(v)", "right": "SUM(w)"}
    return SqlWork((_EVENTS, others), f"{_PAIRS} {relations}", "`key` BIGINT, v DOUBLE, w DOUBLE", totals)


def _in_windows(table: str) -> str:
    return f"TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(`time`), INTERVAL '1' MINUTE))"


JOINS: Mapping[str, SqlWork] = {
    "regular join": _join("events AS a JOIN others AS b ON a.`key` = b.`key`"),
    "interval join": _join(
        "events AS a JOIN others AS b ON a.`key` = b.`key` AND b.`time` BETWEEN a.`time` - INTERVAL '30' SECOND AND "
        "a.`time` + INTERVAL '30' SECOND"
    ),
    "window join": _join(
        f"{_in_windows('events')} AS a JOIN {_in_windows('others')} AS b ON a.`key` = b.`key` AND a.window_start = "
        "b.window_start AND a.window_end = b.window_end"
    ),
    "temporal join": _join(
        "events AS a JOIN others FOR SYSTEM_TIME AS OF a.`time` AS b ON a.`key` = b.`key`", _VERSIONS
    ),
}

_LAST = "(SELECT `key`, `value` FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY `key` ORDER BY `time` DESC) AS r FROM"

CHANGING_JOIN = SqlWork(
    (_EVENTS, _OTHERS),
    f"SELECT a.`key` AS k, a.`value` AS v, b.`value` AS w FROM {_LAST} events) WHERE r = 1) AS a JOIN {_LAST} others) "
    "WHERE r = 1) AS b ON a.`key` = b.`key`",
    "k BIGINT, v DOUBLE, w DOUBLE",
    {"rows": "COUNT(*)", "keys": "SUM(k)"},
)
"""A regular join of the last rows of keys; of those of one millisecond the order of reading says which is the last."""

LOOKUP_MILLIS, LOOKUP_CACHE = 20, 10_000


def lookup_join(connector: str) -> SqlWork:
    """A lookup join with a table that answers after a while, and of whose rows some are kept.

    Args:
        connector: the options of the table.
    """
    table = f"CREATE TABLE weights (`key` BIGINT, weight DOUBLE, PRIMARY KEY (`key`) NOT ENFORCED) WITH ({connector})"
    return SqlWork(
        (_EVENTS, table),
        "SELECT a.`key`, a.`value` AS v, b.weight AS w FROM (SELECT *, PROCTIME() AS p FROM events) AS a JOIN weights "
        "FOR SYSTEM_TIME AS OF a.p AS b ON a.`key` = b.`key`",
        "`key` BIGINT, v DOUBLE, w DOUBLE",
        {"rows": "COUNT(*)", "left": "SUM(v)", "right": "SUM(w)"},
    )


FUNCTIONS = _work(
    """SELECT UPPER(`key`) AS a, SUBSTRING(`key`, 6) AS b, CHAR_LENGTH(`key`) AS c, `key` || '@' || `key` AS d,
    REPLACE(`key`, 'card', 'account') AS e, POSITION('-' IN `key`) AS f,
    CASE WHEN `value` < 0.25 THEN 'low' WHEN `value` < 0.75 THEN 'middle' ELSE 'high' END AS g,
    ROUND(`value` * 100, 2) AS h, DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm') AS i, EXTRACT(SECOND FROM ts) AS j,
    FLOOR(ts TO MINUTE) AS k, CAST(ts AS DATE) AS l
    FROM events WHERE `value` < 0.9 AND `key` LIKE 'card-%'""",
    "a STRING, b STRING, c INT, d STRING, e STRING, f INT, g STRING, h DOUBLE, i STRING, j BIGINT, k TIMESTAMP(6), "
    "l DATE",
    _TEXTS,
    **{text: f"CHAR_LENGTH({text})" for text in "ab"},
    c="c",
    **{text: f"CHAR_LENGTH({text})" for text in "de"},
    f="f",
    g="CHAR_LENGTH(g)",
    h="h",
    i="CHAR_LENGTH(i)",
    j="j",
    k="EXTRACT(MINUTE FROM k)",
    l="EXTRACT(DAY FROM l)",
)

PLANNED = SqlWork(
    tables=(_EVENTS,),
    sink="`minute` TIMESTAMP(3), kind STRING, bucket BIGINT, c BIGINT, total DOUBLE, share DOUBLE, r BIGINT",
    totals={"rows": "COUNT(*)"},
    query="""
WITH cleaned AS (
    SELECT
        `key`,
        MOD(`key`, 100) AS bucket,
        CASE
            WHEN `value` < 0.25 THEN 'low'
            WHEN `value` < 0.75 THEN 'middle'
            ELSE 'high'
        END AS kind,
        COALESCE(`value`, 0) AS amount,
        `time`
    FROM events
    WHERE `key` IS NOT NULL
        AND `value` BETWEEN 0 AND 1
        AND NOT (`key` IN (13, 17, 19))
),
high_values AS (
    SELECT bucket, kind, amount * 1.1 AS amount, `time`
    FROM cleaned
    WHERE kind = 'high'
),
low_values AS (
    SELECT bucket, kind, amount, `time`
    FROM cleaned
    WHERE kind <> 'high'
),
windowed AS (
    SELECT window_start, window_end, kind, bucket, COUNT(*) AS c, SUM(amount) AS total, AVG(amount) AS mean
    FROM TABLE(TUMBLE(TABLE high_values, DESCRIPTOR(`time`), INTERVAL '1' MINUTE))
    GROUP BY window_start, window_end, kind, bucket
    HAVING COUNT(*) > 1
    UNION ALL
    SELECT window_start, window_end, kind, bucket, COUNT(*) AS c, SUM(amount) AS total, AVG(amount) AS mean
    FROM TABLE(HOP(TABLE low_values, DESCRIPTOR(`time`), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE))
    GROUP BY window_start, window_end, kind, bucket
),
ranked AS (
    SELECT
        window_end AS `minute`,
        kind,
        bucket,
        c,
        total,
        total / (mean + 1) AS share,
        ROW_NUMBER() OVER (
            PARTITION BY kind, bucket
            ORDER BY total DESC
        ) AS r
    FROM windowed
    WHERE CHAR_LENGTH(kind) > 2
)
SELECT
    `minute`,
    UPPER(kind) AS kind,
    bucket,
    c,
    ROUND(total, 2) AS total,
    share,
    r
FROM ranked
WHERE r <= 10
    AND EXTRACT(HOUR FROM `minute`) < 24""",
)
