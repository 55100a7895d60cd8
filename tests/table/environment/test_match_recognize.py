"""``MATCH_RECOGNIZE``: refusals, subsets, and results that do not depend on how rows are divided into epochs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from headrace.common.errors import HeadraceError
from headrace.table import DataTypes, EnvironmentSettings, TableEnvironment
from headrace.table.logical.errors import PlanningError
from headrace.table.udf import udaf, udf
from tests.table.conformance import oracle, replay

TICKS = (
    "CREATE TABLE tick (sym STRING, px INT, vol INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '3' SECOND) "
    "WITH ('connector' = 'oracle')"
)
MATCHES = {
    "alternatives": "AFTER MATCH SKIP PAST LAST ROW PATTERN ((A | B)+ (C D)*) WITHIN INTERVAL '6' SECOND DEFINE "
    "A AS A.px > 3, B AS B.px < 6, C AS C.px >= 2, D AS D.px <= LAST(C.px)",
    "a greedy end": "PATTERN (A B+) DEFINE B AS B.px <= PREV(B.px)",
    "nothing": "AFTER MATCH SKIP TO NEXT ROW PATTERN ((A B?)*) WITHIN INTERVAL '4' SECOND DEFINE A AS A.px > 2, "
    "B AS B.px > AVG(A.px)",
    "rows alone": "PATTERN (A B+? C) DEFINE A AS A.px >= 4, B AS B.px < 5, C AS C.px > 2",
    "rows before": "AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C) DEFINE "
    "B AS B.px < A.px AND (LAST(B.px, 1) IS NULL OR B.px <= LAST(B.px, 1)), C AS C.px > LAST(B.px)",
    "aggregates": "PATTERN (A+? B? C) WITHIN INTERVAL '9' SECOND DEFINE "
    "A AS SUM(A.px) < 12 AND COUNT(A.px) < 4, B AS B.px > AVG(A.px), C AS C.px <> MAX(A.px)",
}


def events(seed: int, count: int = 60) -> list[Any]:
    draw, second, rows = random.Random(seed), 0, []
    for number in range(count):
        second += draw.choice([0, 0, 1, 1, 2])
        late = max(second - draw.choice([0, 0, 0, 1, 2, 6]), 0)
        price = draw.choice([None, *range(8)])
        rows.append(
            ["tick", "+I", [draw.choice("xyz"), price, number, f"2024-05-01 10:{late // 60:02}:{late % 60:02}"]]
        )
    return rows


def rows_of(clauses: str, given: list[Any], *, parallelism: int = 1, one_by_one: bool = False, order: str = "") -> Any:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in (replay._ALWAYS | {"parallelism.default": str(parallelism)}).items():
        tables.get_config().set(key, value)
    tables.execute_sql(TICKS)
    oracle.begin(given, one_by_one=one_by_one)
    query = (
        f"SELECT * FROM tick MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts{order} MEASURES FIRST(vol) AS f, vol AS l, "
        f"COUNT(*) AS n, AVG(B.px) AS b, MATCH_ROWTIME() AS r {clauses})"
    )
    return [tuple(row) for row in tables.execute_sql(query).collect()]


def by_key(rows: list[Any]) -> dict[str, list[Any]]:
    return {key: [row for row in rows if row[0] == key] for key in "xyz"}


@pytest.mark.parametrize("name", MATCHES)
def test_results_do_not_depend_on_epochs_and_parallelism(name: str) -> None:
    clauses, given = MATCHES[name], events(len(name))
    whole = rows_of(clauses, given)
    assert len(whole) > 5
    assert rows_of(clauses, given, one_by_one=True) == whole
    assert by_key(rows_of(clauses, given, parallelism=3)) == by_key(whole)


def test_rows_of_one_time_are_matched_in_the_order_that_is_asked_for() -> None:
    given = [
        ["tick", "+I", ["x", price, number, "2024-05-01 10:00:01"]] for number, price in enumerate([3, 1, None, 2])
    ]
    clauses = "AFTER MATCH SKIP PAST LAST ROW PATTERN (A B)"
    pairs = [
        [(row[1], row[2]) for row in rows_of(f"{clauses} DEFINE A AS TRUE", given, order=order)]
        for order in ("", ", px", ", px DESC")
    ]
    assert pairs == [[(0, 1), (2, 3)], [(2, 1), (3, 0)], [(0, 3), (1, 2)]]


def one(measure: str, clauses: str, rows: list[Any], functions: Mapping[str, Any] = MappingProxyType({})) -> list[Any]:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in replay._ALWAYS.items():
        tables.get_config().set(key, value)
    tables.execute_sql(TICKS)
    for name, function in functions.items():
        tables.create_temporary_function(name, function)
    oracle.begin(rows, one_by_one=False)
    query = f"SELECT * FROM tick MATCH_RECOGNIZE (ORDER BY ts MEASURES {measure} AS m {clauses})"
    return [row[0] for row in tables.execute_sql(query).collect()]


THREE = [["tick", "+I", ["x", price, number, f"2024-05-01 10:00:0{number}"]] for number, price in enumerate([5, 3, 9])]


@pytest.mark.parametrize(
    ("measure", "expected"),
    [("SUM(U.px)", 8), ("LAST(U.px)", 3), ("FIRST(U.px, 1)", 3), ("COUNT(U.px)", 2), ("U.px + C.px", 12)],
)
def test_a_subset_is_all_rows_of_its_variables(measure: str, expected: int) -> None:
    assert one(measure, "PATTERN (A B C) SUBSET U = (A, B) DEFINE C AS C.px = 9", THREE) == [expected]


def test_functions_of_the_user_are_called_in_conditions_and_measures() -> None:
    @udf(result_type=DataTypes.INT())
    def doubled(value: int) -> int:
        return 2 * value

    @udaf(result_type=DataTypes.INT(), func_type="pandas")
    def spread(values: Any) -> int:
        return int(values.max() - values.min())

    clauses = (
        "PATTERN (A B+? C) DEFINE B AS doubled(B.px) > LAST(A.px), "
        "C AS C.px > spread(B.px) AND C.px = doubled(C.px) / 2"
    )
    functions = {"doubled": doubled, "spread": spread}
    assert one("spread(C.px) + doubled(A.px)", clauses, THREE, functions) == [10]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT k, SUM(x) OVER (PARTITION BY k ORDER BY t) AS x, t FROM r", [("a", 1, 6), ("b", 4, 9)]),
        (
            "SELECT k, x, t FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS n FROM r) WHERE n < 3",
            [("a", 1, 5), ("b", 4, 5)],
        ),
        ("SELECT k, MAX(x) AS x, t FROM r GROUP BY k, t", [("a", 1, 5), ("b", 4, 5)]),
    ],
)
def test_rows_that_come_at_the_end_of_a_batch_job_are_matched(query: str, expected: list[Any]) -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set("headrace.runtime", "local")
    time = "TIMESTAMP '2024-05-01 10:00:0"
    rows = ", ".join(f"('{k}', {x}, {time}{t}')" for k, x, t in [("a", 5, 2), ("b", 4, 1), ("a", 1, 1), ("b", 5, 3)])
    tables.execute_sql(f"CREATE VIEW r AS SELECT * FROM (VALUES {rows}) AS r (k, x, t)")
    clauses = "PARTITION BY k ORDER BY t MEASURES A.x AS a, B.x AS b PATTERN (A B) DEFINE A AS A.x < 5"
    found = tables.execute_sql(f"SELECT * FROM ({query}) MATCH_RECOGNIZE ({clauses})")
    assert sorted(tuple(row) for row in found.collect()) == expected


def test_a_match_that_starts_with_the_row_to_skip_to_fails_the_job() -> None:
    with pytest.raises(
        HeadraceError, match=r"Could not skip to first element of a match\. The match begins with the event of A"
    ):
        one("A.px", "AFTER MATCH SKIP TO FIRST A PATTERN (A B) DEFINE A AS TRUE", THREE)


def test_a_measure_without_a_value_names_the_match() -> None:
    with pytest.raises(HeadraceError, match=r"division by zero|by zero"):
        one("1 / (A.px - 5)", "PATTERN (A B) DEFINE A AS TRUE", THREE)


REFUSED = {
    "PATTERN (A B{0} C) DEFINE A AS TRUE": "(?s)number of rows is 1 at least.*Leave out",
    "PATTERN (A B) WITHIN INTERVAL '1' MONTH DEFINE A AS TRUE": "days to seconds",
    "PATTERN (A B) DEFINE A AS tick.px > 0.5": r"(?s)variable 'tick' not found.*A\.px, or of the last row as px alone",
    "PATTERN (A B) DEFINE A AS COUNT(DISTINCT A.px) > 1": "(?s)take no DISTINCT.*and GROUP BY outside",
    "PATTERN (A B) DEFINE A AS RAND() > 0.5": "no random numbers",
    "PATTERN (A B) DEFINE A AS A.px IN (SELECT px FROM tick)": "takes no query",
    "PATTERN (A B) DEFINE A AS LAST(A.px, -1) > 1": "a constant that is not negative",
}


@pytest.mark.parametrize("key", ["ARRAY[sym]", "MAP[sym, px]", "ROW(ARRAY[px])"])
def test_a_partition_by_what_cannot_be_a_key_is_refused_where_it_stands(key: str) -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql(TICKS)
    query = f"SELECT * FROM (SELECT {key} AS k, px, ts FROM tick) MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts"
    with pytest.raises(HeadraceError, match=r"(?s)PARTITION BY takes no column of .*\^.*CAST\(k AS STRING\)"):
        tables.explain_sql(f"{query} MEASURES A.px AS m PATTERN (A B) DEFINE A AS TRUE)")


def test_rows_of_a_regular_join_are_in_no_order_of_time() -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql(TICKS)
    joined = "SELECT x.px, x.ts FROM tick AS x JOIN tick AS y ON x.vol = y.vol"
    with pytest.raises(PlanningError, match="no longer have behind a regular join"):
        tables.execute_sql(
            f"SELECT * FROM ({joined}) MATCH_RECOGNIZE (ORDER BY ts MEASURES A.px AS m PATTERN (A B) DEFINE A AS TRUE)"
        )


@pytest.mark.parametrize("clauses", REFUSED)
def test_what_is_refused_says_why(clauses: str) -> None:
    with pytest.raises((PlanningError, HeadraceError), match=REFUSED[clauses]):
        one("A.px", clauses, [])


def test_with_a_window_keys_are_looked_at_in_the_order_of_flinks_timers() -> None:
    """Rows of a came first, but the timer for the end of the window that b began at 4 is before theirs."""
    rows = [("b", 5, 4), ("c", 0, 8), ("a", 5, 14), ("a", 1, 15), ("b", 5, 14), ("b", 1, 15), ("c", 0, 40)]
    given = [["tick", "+I", [key, price, at, f"2024-05-01 10:00:{at:02d}"]] for key, price, at in rows]
    found = rows_of("PATTERN (A B) WITHIN INTERVAL '9' SECOND DEFINE A AS A.px > 2, B AS B.px < 3", given)
    assert [row[:3] for row in found] == [("b", 14, 15), ("a", 14, 15)]


@pytest.mark.parametrize("name", ["rows before", "alternatives"])
def test_a_job_that_is_started_again_goes_on_with_its_matches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """State of all kinds is read again: partial matches, the numbers of matches, and the order of timers."""
    given, read, reads = events(3), oracle._Reader.read, []

    def fail_once(reader: Any, piece: Any) -> Any:
        reads.append(piece)
        if len(reads) == 40:
            raise OSError("the disk was away")
        return read(reader, piece)

    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    strategy = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}
    for key, value in (replay._ALWAYS | strategy).items():
        tables.get_config().set(key, value)
    tables.execute_sql(TICKS)
    query = (
        "SELECT * FROM tick MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts MEASURES MATCH_NUMBER() AS n, vol AS l, "
        f"MATCH_ROWTIME() AS r {MATCHES[name]})"
    )
    found = []
    for reader in (read, fail_once):
        monkeypatch.setattr(oracle._Reader, "read", reader)
        oracle.begin(given, one_by_one=True)
        found.append([tuple(row) for row in tables.execute_sql(query).collect()])
    assert len(reads) > len(given)
    assert found[0] == found[1]
    assert len(found[0]) > 5


def test_a_condition_of_a_variable_without_rows_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Flink takes it in silence, and rows of the variable that was meant are not checked."""
    given = [["tick", "+I", ["x", price, price, f"2024-05-01 10:00:0{second}"]] for second, price in ((1, 5), (2, 2))]
    pattern = "PATTERN (A B) DEFINE A AS A.px = 5, b AS b.px < 0"
    assert [row[:3] for row in rows_of(pattern, given)] == [("x", 5, 2)]
    (warning,) = [record.message for record in caplog.records if "DEFINE" in record.message]
    first, *_, last = warning.split("\n")
    assert first.startswith(
        "without effect: DEFINE has a condition of 'b', which is no variable of PATTERN, at line 1, "
    )
    assert last == "Did you mean B?"
