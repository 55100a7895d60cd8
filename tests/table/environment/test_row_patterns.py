"""``MATCH_RECOGNIZE`` beyond Flink: the preferred match, all rows of a match, and what is told of them.

The cases and their results are those by which another engine describes the semantics of SQL:2016.
"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.common.errors import HeadraceError
from headrace.table import EnvironmentSettings, TableEnvironment
from headrace.table.logical.errors import PlanningError
from tests.table.conformance.replay import _ALWAYS

FALL = (90, 80, 70, 70)
V_AND_V = (90, 80, 70, 80, 90, 50, 40, 60)
ZIGZAG = (90, 80, 70, 80, 70, 80)
TENS = (10, 20, 30)


@pytest.fixture(scope="module")
def tables() -> TableEnvironment:
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    for key, value in _ALWAYS.items():
        tables.get_config().set(key, value)
    return tables


def rows(tables: TableEnvironment, values: tuple[int, ...], columns: str, clauses: str) -> list[tuple[Any, ...]]:
    given = ", ".join(f"({n}, {v}, TIMESTAMP '2024-05-01 10:00:{n:02}')" for n, v in enumerate(values, 1))
    table = f"(SELECT * FROM (VALUES {given}) AS r (id, v, t))"
    found = tables.execute_sql(f"SELECT {columns} FROM {table} MATCH_RECOGNIZE (ORDER BY t {clauses})")
    return [tuple(row) for row in found.collect()]


def labels(tables: TableEnvironment, values: tuple[int, ...], clauses: str, per_match: str = "") -> str:
    """Each row as its number, that of its match, and its variable."""
    mode = f"ALL ROWS PER MATCH {per_match}"
    found = rows(
        tables, values, "id, m, k, c", f"MEASURES MATCH_NUMBER() AS m, LAST(v) AS k, CLASSIFIER() AS c {mode} {clauses}"
    )
    assert all((value is None) is (name is None) for *_, value, name in found)
    return " ".join(f"{number}/{match}{name or '-'}" for number, match, _, name in found)


LOWER = "DEFINE B AS B.v < PREV(B.v), C AS C.v {} PREV(C.v)"
PATTERNS = {
    (FALL, "A B C", "="): "2/1A 3/1B 4/1C",
    (FALL, "B | C | A", "<="): "1/1A 2/2B 3/3B 4/4C",
    (FALL, "PERMUTE(B, C)", "<"): "2/1B 3/1C",
    (FALL, "((A) (B (C)))", "="): "2/1A 3/1B 4/1C",
    (V_AND_V, "A B+ C+", ">"): "1/1A 2/1B 3/1B 4/1C 5/1C 6/2A 7/2B 8/2C",
    (V_AND_V, "A {- B+ -} C+", ">"): "1/1A 4/1C 5/1C 6/2A 8/2C",
    (V_AND_V, "{- A -} {- B+ -} C+", ">"): "4/1C 5/1C 8/2C",
    (V_AND_V, "A {- {- B+ -} C+ -}", ">"): "1/1A 6/2A",
    (V_AND_V, "{- A B+ C+ -}", ">"): "",
    (V_AND_V, "A {- B -}+ {- C -}+", ">"): "1/1A 6/2A",
    (V_AND_V, "A {- B -}* {- C -}*", ">"): "1/1A 6/2A",
    (V_AND_V, "A {- B -}{1,2} {- C -}{1,2}", ">"): "1/1A 6/2A",
    (V_AND_V, "A {- C -}{2,3} {- B -}{2,3}", ">"): "3/1A",
}


@pytest.mark.parametrize(("values", "pattern", "sign"), PATTERNS)
def test_alternatives_groups_and_exclusions(
    tables: TableEnvironment, values: tuple[int, ...], pattern: str, sign: str
) -> None:
    clauses = f"AFTER MATCH SKIP PAST LAST ROW PATTERN ({pattern}) {LOWER.format(sign)}"
    assert labels(tables, values, clauses) == PATTERNS[values, pattern, sign]


NOTHING, NONE = "1/1- 2/2- 3/3- 4/4-", ""
ALL, ONE_BY_ONE, PAIR = "2/1B 3/1B 4/1B", "2/1B 3/2B 4/3B", "2/1B 3/1B"
QUANTIFIERS = {
    "*": "1/1- 2/2B 3/2B 4/2B",
    "*?": NOTHING,
    "+": ALL,
    "+?": ONE_BY_ONE,
    "?": "1/1- 2/2B 3/3B 4/4B",
    "??": NOTHING,
    "{1,}": ALL,
    "{1,}?": ONE_BY_ONE,
    "{2,}": ALL,
    "{2,}?": PAIR,
    "{5,}": NONE,
    "{5,}?": NONE,
    "{,1}": "1/1- 2/2B 3/3B 4/4B",
    "{,1}?": NOTHING,
    "{,2}": "1/1- 2/2B 3/2B 4/3B",
    "{,2}?": NOTHING,
    "{,5}": "1/1- 2/2B 3/2B 4/2B",
    "{,5}?": NOTHING,
    "{1,1}": ONE_BY_ONE,
    "{1,1}?": ONE_BY_ONE,
    "{1,5}": ALL,
    "{1,5}?": ONE_BY_ONE,
    "{5,7}": NONE,
    "{5,7}?": NONE,
    "{1}": ONE_BY_ONE,
    "{2}": PAIR,
    "{2}?": PAIR,
    "{5}": NONE,
}


@pytest.mark.parametrize("quantifier", QUANTIFIERS)
def test_quantifiers(tables: TableEnvironment, quantifier: str) -> None:
    clauses = f"AFTER MATCH SKIP PAST LAST ROW PATTERN (B{quantifier}) DEFINE B AS B.v <= PREV(B.v)"
    assert labels(tables, FALL, clauses) == QUANTIFIERS[quantifier]


@pytest.mark.parametrize(
    ("values", "condition", "expected"),
    [
        ((1, 1), "v = A.v", "1/1A 2/1X"),
        ((1, 1), "v = B.v", "1/1B 2/1X"),
        (
            (1, 2, 3, 4, 5, 6),
            "v = PREV(LAST(A.v), 3) + FIRST(A.v) + PREV(LAST(B.v), 2)",
            "1/1B 2/1A 3/1A 4/1A 5/1B 6/1X",
        ),
    ],
)
def test_a_condition_decides_how_rows_before_it_are_mapped(
    tables: TableEnvironment, values: tuple[int, ...], condition: str, expected: str
) -> None:
    assert (
        labels(tables, values, f"AFTER MATCH SKIP PAST LAST ROW PATTERN ((A | B)* X) DEFINE X AS {condition}")
        == expected
    )


@pytest.mark.parametrize(
    ("mode", "pattern", "expected"),
    [
        ("ONE ROW PER MATCH", "B*", [(1, None, None), (2, 70, "B"), (3, None, None)]),
        ("", "B*", [(1, None, None), (2, 70, "B"), (3, None, None)]),
        ("ONE ROW PER MATCH", "B+", [(1, 70, "B")]),
        ("ALL ROWS PER MATCH", "B*", [(1, None, None), (2, 80, "B"), (2, 70, "B"), (3, None, None)]),
        ("ALL ROWS PER MATCH", "B+", [(1, 80, "B"), (1, 70, "B")]),
        (
            "ALL ROWS PER MATCH SHOW EMPTY MATCHES",
            "B*",
            [(1, None, None), (2, 80, "B"), (2, 70, "B"), (3, None, None)],
        ),
        ("ALL ROWS PER MATCH OMIT EMPTY MATCHES", "B*", [(2, 80, "B"), (2, 70, "B")]),
        ("ALL ROWS PER MATCH OMIT EMPTY MATCHES", "B+", [(1, 80, "B"), (1, 70, "B")]),
    ],
)
def test_which_rows_there_are_for_a_match(
    tables: TableEnvironment, mode: str, pattern: str, expected: list[tuple[Any, ...]]
) -> None:
    clauses = f"MEASURES MATCH_NUMBER() AS m, RUNNING LAST(v) AS k, CLASSIFIER() AS c {mode}"
    more = f"AFTER MATCH SKIP PAST LAST ROW PATTERN ({pattern}) DEFINE B AS B.v < PREV(B.v)"
    assert rows(tables, FALL, "m, k, c", f"{clauses} {more}") == expected


FIRST_MATCH, AT_FOUR = "1/1A 2/1B 3/1B 4/1C", "4/2A 5/2B 6/2C"
SKIPS = {
    "PAST LAST ROW": FIRST_MATCH,
    "TO NEXT ROW": f"{FIRST_MATCH} 2/2A 3/2B 4/2C 4/3A 5/3B 6/3C",
    "TO FIRST C": f"{FIRST_MATCH} {AT_FOUR}",
    "TO LAST B": f"{FIRST_MATCH} {AT_FOUR}",
    "TO B": f"{FIRST_MATCH} {AT_FOUR}",
    "TO U": f"{FIRST_MATCH} {AT_FOUR}",
}
ZIGZAGS = (
    "AFTER MATCH SKIP {} PATTERN (A B+ C+ D?) SUBSET U = (C, D) "
    "DEFINE B AS B.v < PREV(B.v), C AS C.v > PREV(C.v), D AS FALSE"
)


@pytest.mark.parametrize("skip", SKIPS)
def test_where_the_search_goes_on(tables: TableEnvironment, skip: str) -> None:
    assert labels(tables, ZIGZAG, ZIGZAGS.format(skip)) == SKIPS[skip]


@pytest.mark.parametrize(
    ("skip", "error"), [("TO A", "skip to first element of a match"), ("TO D", "No such element in the found match")]
)
def test_rows_to_which_the_search_cannot_go_fail_the_job(tables: TableEnvironment, skip: str, error: str) -> None:
    with pytest.raises(HeadraceError, match=error):
        labels(tables, ZIGZAG, ZIGZAGS.format(skip))


def test_a_subset_has_a_classifier(tables: TableEnvironment) -> None:
    clauses = (
        "MEASURES CLASSIFIER(U) AS u, CLASSIFIER(W) AS w ALL ROWS PER MATCH AFTER MATCH SKIP PAST LAST ROW "
        "PATTERN ((L | H) A) SUBSET U = (L, H), W = (A, L, H) DEFINE A AS A.v = 80, L AS L.v < 80, H AS H.v > 80"
    )
    found = rows(tables, (90, 80, 70, 80), "id, u, w", clauses)
    assert found == [(1, "H", "H"), (2, "H", "A"), (3, "L", "L"), (4, "L", "A")]


NAVIGATION = {
    "v": (10, 20, 30),
    "LAST(v)": (10, 20, 30),
    "RUNNING LAST(v)": (10, 20, 30),
    "FINAL LAST(v)": (30, 30, 30),
    "FIRST(v)": (10, 10, 10),
    "FINAL FIRST(v)": (10, 10, 10),
    "FINAL LAST(v, 2)": (10, 10, 10),
    "FIRST(v, 2)": (None, None, 30),
    "FINAL FIRST(v, 2)": (30, 30, 30),
    "LAST(v, 10)": (None, None, None),
    "PREV(v)": (None, 10, 20),
    "NEXT(v)": (20, 30, None),
    "NEXT(FIRST(v), 2)": (30, 30, 30),
    "NEXT(FIRST(v), 10)": (None, None, None),
    "PREV(FIRST(v), 10)": (None, None, None),
    "PREV(FIRST(v, 10), 2)": (None, None, None),
    "PREV(LAST(v, 10), 2)": (None, None, None),
    "PREV(CLASSIFIER())": (None, "A", "A"),
    "SUM(v)": (10, 30, 60),
    "FINAL SUM(v)": (60, 60, 60),
    "SUM(A.v) - FINAL SUM(v)": (-50, -30, 0),
    "COUNT(*)": (1, 2, 3),
    "FINAL AVG(v) - AVG(v)": (10, 5, 0),
    "FINAL LAST(v) - FIRST(v)": (20, 20, 20),
}


def test_navigation_runs_with_the_rows_of_a_match_or_sees_the_whole(tables: TableEnvironment) -> None:
    measures = ", ".join(f"{text} AS m{number}" for number, text in enumerate(NAVIGATION))
    names = ", ".join(f"m{number}" for number in range(len(NAVIGATION)))
    skip = "AFTER MATCH SKIP PAST LAST ROW"
    found = rows(tables, TENS, names, f"MEASURES {measures} ALL ROWS PER MATCH {skip} PATTERN (A+) DEFINE A AS TRUE")
    assert dict(zip(NAVIGATION, zip(*found, strict=True), strict=True)) == NAVIGATION


@pytest.mark.parametrize(("offset", "expected"), [(4, None), (3, 10), (2, 20), (1, 30)])
def test_prev_sees_rows_before_the_match(tables: TableEnvironment, offset: int, expected: int | None) -> None:
    clauses = f"MEASURES PREV(B.v, {offset}) AS m PATTERN (A B) DEFINE B AS B.v = PREV(B.v)"
    assert rows(tables, (10, 20, 30, 30, 40), "m", clauses) == [(expected,)]


def test_next_ends_with_the_match(tables: TableEnvironment) -> None:
    clauses = "MEASURES NEXT(B.v, 1) AS m, NEXT(A.v, 1) AS n PATTERN (A B) DEFINE B AS B.v = PREV(B.v)"
    assert rows(tables, (10, 20, 30, 30, 40), "m, n", clauses) == [(None, 30)]


def test_the_variable_of_the_next_row_is_known(tables: TableEnvironment) -> None:
    clauses = "MEASURES CLASSIFIER() AS c, NEXT(CLASSIFIER()) AS n ALL ROWS PER MATCH PATTERN (A B+ C+)"
    found = rows(tables, (90, 80, 70, 80), "c, n", f"{clauses} {LOWER.format('>')}")
    assert found[:4] == [("A", "B"), ("B", "B"), ("B", "C"), ("C", None)]


def test_running_and_final(tables: TableEnvironment) -> None:
    measures = ", ".join(
        f"{kind} {shown} AS {kind[0]}{number}"
        for number, shown in enumerate(("LAST(CLASSIFIER())", "LAST(v)", "LAST(A.v)", "LAST(B.v)", "LAST(C.v)"))
        for kind in ("RUNNING", "FINAL")
    )
    names = "R0, F0, R1, F1, R2, F2, R3, F3, R4, F4"
    skip = "AFTER MATCH SKIP PAST LAST ROW"
    clauses = f"MEASURES {measures} ALL ROWS PER MATCH {skip} PATTERN (A B+ C+) {LOWER.format('>')}"
    assert rows(tables, (90, 80, 70, 100, 200), names, clauses) == [
        ("A", "C", 90, 200, 90, 90, None, 70, None, 200),
        ("B", "C", 80, 200, 90, 90, 80, 70, None, 200),
        ("B", "C", 70, 200, 90, 90, 70, 70, None, 200),
        ("C", "C", 100, 200, 90, 90, 70, 70, 100, 200),
        ("C", "C", 200, 200, 90, 90, 70, 70, 200, 200),
    ]


def test_all_rows_have_the_columns_of_partition_and_order_then_measures_then_the_others(
    tables: TableEnvironment,
) -> None:
    time = "TIMESTAMP '2024-05-01 10:00:0"
    given = f"(VALUES ('p', 1, {time}0'), ('q', 2, {time}1')) AS r (k, v, t)"
    clauses = "PARTITION BY k ORDER BY t MEASURES MATCH_NUMBER() AS n ALL ROWS PER MATCH PATTERN (A) DEFINE A AS TRUE"
    found = tables.execute_sql(f"SELECT * FROM (SELECT v, k, t FROM {given}) MATCH_RECOGNIZE ({clauses})")
    assert list(found.get_resolved_schema().names) == ["k", "t", "n", "v"]
    assert sorted((row[0], row[2], row[3]) for row in found.collect()) == [("p", 1, 1), ("q", 1, 2)]


REFUSED = {
    "MEASURES v AS m ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A) DEFINE A AS TRUE": "WITH UNMATCHED ROWS is not",
    "MEASURES v AS id ALL ROWS PER MATCH PATTERN (A) DEFINE A AS TRUE": "'id' is the name of another column",
    "MEASURES v AS m PATTERN (A B) DEFINE A AS NEXT(A.v) > 1": "NEXT looks at a row that has not been matched",
    "MEASURES v AS m PATTERN (A B) DEFINE A AS CLASSIFIER() = 'A'": r"CLASSIFIER\(\) is not possible in DEFINE",
    "MEASURES v AS m PATTERN (A B) DEFINE A AS MATCH_NUMBER() = 1": r"MATCH_NUMBER\(\) is not possible in DEFINE",
    "MEASURES CLASSIFIER(Q) AS m PATTERN (A B) DEFINE A AS TRUE": "CLASSIFIER takes a variable or a name of SUBSET",
    "MEASURES PREV(v, 0) AS m PATTERN (A B) DEFINE A AS TRUE": "PREV of no rows is the row itself",
    "MEASURES LAST(PREV(v)) AS m PATTERN (A B) DEFINE A AS TRUE": "PREV is not possible inside of LAST",
    "MEASURES v AS m PATTERN (A (B | C{2,1})) DEFINE A AS TRUE": "the largest number of rows is 2 at least",
    "MEASURES v AS m PATTERN (PERMUTE(A, B, C, D, E, F, G)) DEFINE A AS TRUE": "PERMUTE takes 6 parts at most",
    "MEASURES v AS m PATTERN ((A | B){20000}) DEFINE A AS TRUE": "more than 32768 states",
}


@pytest.mark.parametrize("clauses", REFUSED)
def test_what_is_refused_says_why(tables: TableEnvironment, clauses: str) -> None:
    with pytest.raises((PlanningError, HeadraceError), match=REFUSED[clauses]):
        rows(tables, TENS, "m", clauses)


def test_a_timestamp_that_is_no_time_attribute_is_told_how_to_become_one() -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql("CREATE TABLE plain (t TIMESTAMP(3), v INT) WITH ('connector' = 'datagen')")
    clauses = "ORDER BY t MEASURES A.v AS m PATTERN (A) DEFINE A AS A.v > 1"
    with pytest.raises(HeadraceError) as failed:
        tables.execute_sql(f"SELECT * FROM plain MATCH_RECOGNIZE ({clauses})")
    assert "'t' is no time attribute: declare WATERMARK FOR `t`" in str(failed.value)


def test_anchors_are_ignored_as_in_flink_with_a_warning(
    tables: TableEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    clauses = "MEASURES v AS m PATTERN (^ A $) DEFINE A AS TRUE"
    anchored = rows(tables, TENS, "m", clauses)
    assert anchored == rows(tables, TENS, "m", clauses.replace("^ A $", "A"))
    assert "^ and $, the first and the last row of a partition, are ignored" in caplog.text
