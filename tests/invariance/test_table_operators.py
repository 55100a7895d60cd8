"""Each operator of SQL: the changes of a key are the same, in the same order, however the input is cut."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

from headrace.common import RowKind
from headrace.table.connectors import ChangelogMode
from tests.invariance.driver import WHOLE, Cut, Job, deaths, examples, run
from tests.invariance.table_inputs import BOUND, InputTable, query, random_table, table_environment

WINDOW: Final = "DESCRIPTOR(rt), INTERVAL '0.020' SECOND"
TUMBLE: Final = f"TABLE(TUMBLE(TABLE t, {WINDOW}))"
AGGREGATES: Final = "COUNT(*) AS n0, SUM(n) AS n1, MIN(x) AS n2, MAX(d) AS n3, COUNT(DISTINCT n) AS n4, AVG(n) AS n5"
NUMBERED: Final = "SELECT *, ROW_NUMBER() OVER (PARTITION BY {} ORDER BY {}) AS rn FROM {}"
ALL: Final = "IUR"


@dataclass(frozen=True)
class Way:
    """A query over the table ``t``.

    Attributes:
        text: the query.
        key: how many of its first columns are the key by which changes are in order; None where they are in none, since
            subtasks that read pieces of a split hand rows on without a shuffle.
        tables: the kinds of tables that it can read: insert-only, upserts, or with rows that are taken back.
        settings: the settings of the session.
        is_of_late_rows: whether rows may be late. Which rows are late to an operator of two inputs is not determined.
    """

    text: str
    key: int | None
    tables: str = "I"
    settings: dict[str, str] = field(default_factory=dict)
    is_of_late_rows: bool = True


def top(rows: str, condition: str, columns: str = "k, id, n, rn", order: str = "n DESC, id") -> str:
    return f"SELECT {columns} FROM ({NUMBERED.format('k', order, rows)}) AS ranked WHERE rn {condition}"


def over(frame: str, order: str = "rt") -> str:
    call = f"OVER (PARTITION BY k ORDER BY {order} {frame})"
    return f"SELECT k, id, SUM(n) {call} AS s, COUNT(*) {call} AS c, MIN(x) {call} AS m FROM t"


LATE: Final = {"table.exec.emit.late-fire.enabled": "true", "table.exec.emit.late-fire.delay": "0 s"}
LATE["table.exec.emit.allow-lateness"] = "30 ms"
GROUPED: Final = "(SELECT k, n AS id, COUNT(*) AS n FROM t GROUP BY k, n)"

WAYS: Final = {
    "group": Way(f"SELECT k, {AGGREGATES} FROM t GROUP BY k", 1, ALL),
    "group, edges": Way("SELECT e, COUNT(*), SUM(n), MAX(q) FROM t GROUP BY e", 1, ALL),
    "group, order of rows": Way("SELECT k, FIRST_VALUE(n), LAST_VALUE(x), LISTAGG(x) FROM t GROUP BY k", 1, ALL),
    "group, filters": Way(
        "SELECT k, SUM(n) FILTER (WHERE f), COUNT(DISTINCT x) FILTER (WHERE n > 2) FROM t GROUP BY k", 1, ALL),
    "having": Way("SELECT k, COUNT(*) FROM t GROUP BY k HAVING COUNT(*) BETWEEN 2 AND 4", 1, ALL),
    "all": Way(f"SELECT {AGGREGATES} FROM t", 0, ALL),
    "distinct": Way("SELECT DISTINCT k, n FROM t", 2, ALL),
    "grouping sets": Way("SELECT k, f, GROUPING_ID(k, f), COUNT(*), SUM(n) FROM t GROUP BY CUBE (k, f)", 3, ALL),
    "union": Way("SELECT k, n FROM t UNION SELECT k, n + 1 FROM t", 2, ALL),
    "intersect": Way("SELECT k, f FROM t INTERSECT SELECT k, NOT f FROM t", 2, ALL),
    "except all": Way("SELECT k, f FROM t EXCEPT ALL SELECT k, NOT f FROM t", 2, ALL),
    "unnest": Way("SELECT k, id, y FROM t CROSS JOIN UNNEST(ARRAY[n, n + 1, id]) AS u(y)", None, ALL),
    "normalize": Way("SELECT * FROM t", 1, "UR"),
    "normalize, filter": Way("SELECT id, k, n FROM t WHERE n > 1", 1, "UR"),
    "top": Way(top("t", "<= 2"), 1, ALL),
    "top, without rank": Way(top("t", "<= 2", "k, id, n"), 1, ALL),
    "top, from the second": Way(top("t", "BETWEEN 2 AND 3"), 1, ALL),
    "top, updates": Way(top(GROUPED, "<= 2"), 1, ALL),
    "top, updates without rank": Way(top(GROUPED, "<= 2", "k, id, n"), 1, ALL),
    "top, distinct rows": Way(top("(SELECT DISTINCT k, n FROM t)", "= 1", "k, n", "n"), 1, ALL),
    "limit": Way("SELECT id, n FROM t ORDER BY n DESC, id LIMIT 3", 0, ALL),
    "limit and offset": Way("SELECT id, n FROM t ORDER BY n, id LIMIT 2 OFFSET 1", 0, ALL),
    "first arrived": Way(top("t", "= 1", "k, id", "p"), 1),
    "last arrived": Way(top("t", "= 1", "k, id", "p DESC"), 1, "IUR"),
    "first in time": Way(top("t", "= 1", "k, id", "rt"), 1),
    "last in time": Way(top("t", "= 1", "k, id", "rt DESC"), 1),
    "sort": Way("SELECT rt, id FROM t ORDER BY rt", 0),
    "rows": Way(over("ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"), 1),
    "all rows": Way(over("ROWS UNBOUNDED PRECEDING"), 1),
    "range": Way(over("RANGE BETWEEN INTERVAL '0.015' SECOND PRECEDING AND CURRENT ROW"), 1),
    "unbounded range": Way(over(""), 1),
    "rows by arrival": Way(over("ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", "p"), 1),
    "over changes": Way(over("RANGE UNBOUNDED PRECEDING", "n"), 1, ALL),
    "lag": Way("SELECT k, id, LAG(n, 2) OVER (PARTITION BY k ORDER BY rt) FROM t", 1),
    "tumble": Way(f"SELECT k, window_start, {AGGREGATES} FROM {TUMBLE} GROUP BY k, window_start, window_end", 1, "IUR"),
    "tumble, all": Way(f"SELECT window_start, {AGGREGATES} FROM {TUMBLE} GROUP BY window_start, window_end", 0, "IUR"),
    "hop": Way(
        f"SELECT k, window_end, {AGGREGATES} FROM TABLE(HOP(TABLE t, {WINDOW}, INTERVAL '0.060' SECOND)) "
        "GROUP BY k, window_start, window_end", 1, "IUR"),
    "cumulate": Way(
        f"SELECT k, window_end, {AGGREGATES} FROM TABLE(CUMULATE(TABLE t, {WINDOW}, INTERVAL '0.060' SECOND)) "
        "GROUP BY k, window_start, window_end", 1, "IUR"),
    "session": Way(
        f"SELECT k, window_start, window_end, {AGGREGATES} FROM TABLE(SESSION(TABLE t PARTITION BY k, {WINDOW})) "
        "GROUP BY k, window_start, window_end", 1),
    "offset": Way(
        f"SELECT k, window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE t, {WINDOW}, INTERVAL '0.007' SECOND)) "
        "GROUP BY k, window_start, window_end", 1),
    "windows and sets": Way(
        f"SELECT k, f, window_end, COUNT(*) FROM {TUMBLE} GROUP BY window_start, window_end, ROLLUP (k, f)", 2, "IUR"),
    "window rows": Way(f"SELECT k, id, window_start, window_time FROM {TUMBLE}", None, "IUR"),
    "cascade": Way(
        f"SELECT window_start, SUM(c) FROM TABLE(TUMBLE((SELECT window_time AS rt, COUNT(*) AS c FROM {TUMBLE} GROUP "
        "BY window_start, window_end, window_time), DESCRIPTOR(rt), INTERVAL '0.060' SECOND)) GROUP BY window_start, "
        "window_end", 0),
    "window top": Way(
        "SELECT * FROM (SELECT k, id, n, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER "
        f"BY n DESC, id) AS rn FROM {TUMBLE}) WHERE rn <= 2", 1),
    "window deduplication": Way(
        "SELECT k, id, window_end FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY "
        f"rt DESC) AS rn FROM {TUMBLE}) WHERE rn = 1", 1),
    "group window": Way(
        f"SELECT k, TUMBLE_START(rt, INTERVAL '0.020' SECOND) AS w, {AGGREGATES} FROM t GROUP BY k, TUMBLE(rt, "
        "INTERVAL '0.020' SECOND)", 1, "IUR"),
    "group window, late rows": Way(
        f"SELECT k, HOP_END(rt, INTERVAL '0.020' SECOND, INTERVAL '0.040' SECOND) AS w, {AGGREGATES} FROM t GROUP BY "
        "k, HOP(rt, INTERVAL '0.020' SECOND, INTERVAL '0.040' SECOND)", 1, "I", LATE),
    "group session": Way(
        f"SELECT k, SESSION_END(rt, INTERVAL '0.020' SECOND) AS w, {AGGREGATES} FROM t GROUP BY k, SESSION(rt, "
        "INTERVAL '0.020' SECOND)", 1),
    "join": Way("SELECT a.k, a.id, b.id FROM t AS a JOIN t AS b ON a.k = b.k AND a.n < b.n", None),
    "multi join": Way(
        "SELECT /*+ MULTI_JOIN(a, b, c) */ a.k, a.id, b.id, c.id FROM t AS a JOIN t AS b ON a.k = b.k AND a.n < b.n "
        "LEFT JOIN t AS c ON b.k = c.k AND b.id > c.id AND b.n = c.n", None),
    "interval join": Way(
        "SELECT a.k, a.id, b.id FROM t AS a LEFT JOIN t AS b ON a.k = b.k AND a.n < b.n AND b.rt BETWEEN a.rt - "
        "INTERVAL '0.010' SECOND AND a.rt + INTERVAL '0.030' SECOND", None, is_of_late_rows=False),
    "window join": Way(
        f"SELECT a.k, a.id, b.id, a.window_end FROM {TUMBLE} AS a FULL JOIN {TUMBLE} AS b ON a.k = b.k AND a.n < b.n "
        "AND a.window_start = b.window_start AND a.window_end = b.window_end", None, is_of_late_rows=False),
    "window anti join": Way(
        f"SELECT k, id, window_end FROM {TUMBLE} AS a WHERE NOT EXISTS (SELECT 1 FROM {TUMBLE} AS b WHERE a.k = b.k "
        "AND a.n < b.n AND a.window_start = b.window_start AND a.window_end = b.window_end)", None,
        is_of_late_rows=False),
}  # fmt: skip
"""A way for each operator of SQL."""

MODES: Final = {"I": ChangelogMode.INSERT, "U": ChangelogMode.UPSERT, "R": ChangelogMode.ALL}


def changes(way: Way, table: InputTable, cut: Cut) -> dict[Any, list[Any]]:
    """The changes of each key, in order."""

    def build(job: Job) -> None:
        query(job, table_environment(job, [table], **way.settings), "out", way.text)

    found = defaultdict(list)
    for row, _ in run(build, cut)["out"]:
        key = None if way.key is None else tuple(row)[: way.key]
        found[key].append((str(row.get_row_kind()), tuple(row)))
    return {key: rows if key is not None else sorted(rows, key=repr) for key, rows in found.items()}


def tables_of(way: Way) -> st.SearchStrategy[InputTable]:
    """Tables that a way can read; some rows are late where that may be."""

    def drawn(chance: Random) -> InputTable:
        mode = MODES[chance.choice(way.tables)]
        table = random_table(chance, "t", mode, splits=1, most=24)
        return InputTable(
            "t", mode, table.splits, bound=chance.choice([0, 5, BOUND] if way.is_of_late_rows else [BOUND])
        )

    return st.randoms(use_true_random=False).map(drawn)


cases = st.sampled_from(list(WAYS)).flatmap(lambda name: st.tuples(st.just(name), tables_of(WAYS[name])))


@examples(8, 4000, case=cases, cut=deaths)
def test_changes_do_not_depend_on_the_cut(case: tuple[str, InputTable], cut: Cut) -> None:
    """Cut, killed, restored at another parallelism and by another backend."""
    name, table = case
    assert changes(WAYS[name], table, cut) == changes(WAYS[name], table, WHOLE)


def test_rows_of_one_key_and_time_match_one_by_one() -> None:
    rows = [(1, "a", 0, 2), (2, "a", 0, 10), (3, "a", 0, 1), (4, None, 99, 1)]
    table = InputTable("t", ChangelogMode.INSERT, [[(RowKind.INSERT, row + (None,) * 7) for row in rows]])
    expected = [(None, 4, None), ("a", 1, 2), ("a", 2, None), ("a", 3, 1), ("a", 3, 2)]
    for shares in (1, 2, 3):
        found = changes(WAYS["interval join"], table, replace(WHOLE, shares=(shares,)))
        assert found == {None: sorted((("+I", row) for row in expected), key=repr)}
