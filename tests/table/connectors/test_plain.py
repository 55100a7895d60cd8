"""``datagen``, ``print``, ``blackhole``, and what is said of connectors that are not there."""

from __future__ import annotations

import pytest

from headrace.common.errors import ConfigurationError, InvalidProgramError
from tests.table.connectors.session import rows, run, session


def test_rows_are_made_up_within_what_is_asked_for() -> None:
    tables = session(
        """CREATE TABLE t (id BIGINT, name VARCHAR(9), price DECIMAL(4, 2), code CHAR(3), f FLOAT, b BOOLEAN,
               data BYTES, t TIMESTAMP(3), l TIMESTAMP_LTZ(3), d DATE, n INT) WITH ('connector'='datagen',
           'fields.id.kind'='sequence', 'fields.id.start'='5', 'fields.id.end'='204', 'fields.name.length'='8',
           'fields.name.var-len'='true', 'fields.price.min'='1', 'fields.price.max'='2', 'fields.data.length'='4',
           'fields.n.null-rate'='0.5', 'fields.n.min'='-1', 'fields.n.max'='1')"""
    )
    found = rows(tables, "SELECT * FROM t")
    assert [row[0] for row in found] == list(range(5, 205))
    assert {len(row[1]) for row in found} == set(range(1, 9))
    assert all(1 <= row[2] <= 2 and len(row[3]) == 3 and len(row[6]) == 4 for row in found)
    assert {row[5] for row in found} == {True, False}
    assert {row[10] for row in found} == {None, -1, 0, 1}
    assert found[0][7].date() == found[0][9]


def test_a_table_ends_after_so_many_rows() -> None:
    tables = session("CREATE TABLE t (id INT) WITH ('connector'='datagen', 'number-of-rows'='7')")
    assert len(rows(tables, "SELECT * FROM t")) == 7
    again = session("CREATE TABLE t (id INT) WITH ('connector'='datagen', 'number-of-rows'='7')")
    assert rows(again, "SELECT * FROM t") == rows(tables, "SELECT * FROM t")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("'fields.a.min'='5', 'fields.a.max'='1'", r"'fields\.a\.min' is not above 'fields\.a\.max'"),
        ("'fields.a.min'='5000000000'", "both are values of INT"),
        ("'fields.c.kind'='random'", "did you mean 'fields.a.kind'"),
        ("'field.a.kind'='random'", "no option 'field.a.kind'"),
        ("'fields.a.kind'='series'", "expected one of random, sequence"),
        ("'fields.a.kind'='sequence'", "give 'fields.a.start' and 'fields.a.end'"),
        ("'rows-per-second'='fast'", "'fast'"),
    ],
)
def test_wrong_options_are_told(option: str, said: str) -> None:
    tables = session(f"CREATE TABLE t (a INT) WITH ('connector'='datagen', {option})")
    with pytest.raises(ConfigurationError, match=said):
        rows(tables, "SELECT * FROM t")


def test_rows_are_printed_with_what_they_do(capsys: pytest.CaptureFixture[str]) -> None:
    tables = session("CREATE TABLE t (a STRING, n BIGINT) WITH ('connector'='print', 'print-identifier'='totals')")
    run(
        tables, "INSERT INTO t SELECT x, COUNT(*) FROM (VALUES ('a'), ('a'), (CAST(NULL AS STRING))) AS v(x) GROUP BY x"
    )
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "totals> +I[a, 1]",
        "totals> +I[null, 1]",
        "totals> +U[a, 2]",
        "totals> -U[a, 1]",
    ]


def test_values_are_printed_as_flink_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    values = {
        "TRUE": "true",
        "1.0E10": "1.0E10",
        "CAST(1.10 AS DECIMAL(5, 2))": "1.10",
        "DATE '2026-01-01'": "2026-01-01",
        "TIME '12:00:00'": "12:00",
        "TIME '12:30:45'": "12:30:45",
        "TIMESTAMP '2026-01-01 12:00:00'": "2026-01-01T12:00",
        "TIMESTAMP '2026-01-01 12:00:01.123456'": "2026-01-01T12:00:01.123456",
        "CAST(TIMESTAMP '2026-01-01 12:00:00.120' AS TIMESTAMP_LTZ(3))": "2026-01-01T12:00:00.120Z",
        "CAST(x'61fe' AS BYTES)": "[97, -2]",
        "ARRAY[1, CAST(NULL AS INT)]": "[1, null]",
        "ARRAY[TIMESTAMP '2026-01-01 12:00:00.500']": "[2026-01-01T12:00:00.500]",
        "MAP['k', CAST(TIMESTAMP '2026-01-01 12:00:00' AS TIMESTAMP_LTZ(3))]": "{k=2026-01-01T12:00:00Z}",
        "ROW(1, CAST(NULL AS STRING), x'61')": "+I[1, null, [97]]",
        "CAST(NULL AS ARRAY<INT>)": "null",
        "CAST(NULL AS TIMESTAMP(3))": "null",
    }
    tables = session()
    query = tables.sql_query(f"SELECT * FROM (VALUES ({', '.join(values)}))")
    columns = ", ".join(f"`{each.name}` {each.type}" for each in query.get_resolved_schema())
    run(tables, f"CREATE TABLE t ({columns}) WITH ('connector'='print')")
    query.execute_insert("t").wait()
    assert capsys.readouterr().out == f"+I[{', '.join(values.values())}]\n"


def test_a_black_hole_takes_everything() -> None:
    tables = session("CREATE TABLE t (n BIGINT) WITH ('connector'='blackhole')")
    run(tables, "INSERT INTO t SELECT COUNT(*) FROM (VALUES (1), (2)) AS v(x)")
    with pytest.raises(InvalidProgramError, match="cannot be read, it only takes rows"):
        rows(tables, "SELECT * FROM t")


def test_connectors_that_are_not_there() -> None:
    tables = session("CREATE TABLE t (n BIGINT) WITH ('connector'='kafak')")
    with pytest.raises(ConfigurationError, match="no table connector 'kafak': did you mean 'kafka'"):
        rows(tables, "SELECT * FROM t")
