"""Errors say what was expected, what is there, where, and what to write."""

from __future__ import annotations

import traceback

import pytest

from headrace.common.errors import InvalidProgramError
from headrace.table.parse import SqlParseError, SqlSource, parse_expression, parse_script, parse_statement, parse_type


def error_of(text: str) -> SqlParseError:
    with pytest.raises(SqlParseError) as raised:
        parse_script(text)
    return raised.value


def test_an_error_has_a_place_a_line_and_a_caret() -> None:
    error = error_of("SELECT a,\n       b,\n  FROM t\nWHERE a > 1")
    assert str(error) == (
        "expected an expression, found FROM at line 3, column 3\n    FROM t\n    ^^^^\nRemove the comma before FROM."
    )
    assert (error.position.offset, error.position.line, error.position.column) == (22, 3, 3)
    assert error.reason == "expected an expression, found FROM"
    assert isinstance(error, InvalidProgramError)


REASONS = {
    "EXPLAIN": "expected a statement, found the end of the text at line 1, column 8",
    "SELECT a b c FROM t": "expected ',', FROM, UNION, ORDER BY, LIMIT or the end of the statement, found 'c'",
    "SELECT a FROM t WHERE": "expected an expression, found the end of the text at line 1, column 22",
    "SELECT CASE WHEN a THEN b FROM t": "expected END, WHEN or ELSE, found FROM at line 1, column 27",
    "SELECT CAST(a TO INT)": "expected AS, found TO at line 1, column 15",
    "SELECT a FROM t LEFT u": "expected JOIN or OUTER, found 'u' at line 1, column 22",
    "SELECT a FROM t CROSS JOIN u ON TRUE": "CROSS JOIN takes no ON or USING at line 1, column 30",
    "SELECT a FROM t NATURAL JOIN u USING (a)": "NATURAL JOIN takes no ON or USING at line 1, column 32",
    "SELECT a FROM t TABLESAMPLE SYSTEM (101)": "TABLESAMPLE takes a percentage from 0 to 100 at line 1, column 37",
    "SELECT 'a' 'b'": "a string continues on another line only at line 1, column 12",
    "EXPLAIN PLAN_ADVICE, PLAN_ADVICE SELECT 1": "a detail of EXPLAIN is named twice at line 1, column 9",
    "UPSERT INTO t SELECT 1": "UPSERT INTO is not supported at line 1, column 1",
    "INSERT INTO t PARTITION (a) SELECT 1": "expected '=', found ')' at line 1, column 27",
    "SELECT a FROM t LIMIT x": "expected a whole number or ALL, found 'x' at line 1, column 23",
    "SELECT a FROM t LIMIT 1.5": "expected a whole number, found 1.5 at line 1, column 23",
    "SELECT COUNT(* FROM t": "expected ')', found FROM at line 1, column 16",
    "SELECT a FROM t WHERE a BETWEEN 1 OR 2": "expected AND or an operator, found OR at line 1, column 35",
    "SELECT INTERVAL '5' FROM t": "expected a unit of time, as in INTERVAL '5' SECOND, found FROM",
    "SELECT U&'\\00'": "\\ in a text U&'...' stands before four hexadecimal digits at line 1, column 8",
    "SELECT x'0g'": "a binary string has two hexadecimal digits a byte at line 1, column 8",
    "SELECT /* a": "expected an expression, found a comment without its end at line 1, column 8",
    "EXECUTE STATEMENT SET BEGIN SELECT 1; END": "expected INSERT or UPSERT, found SELECT at line 1, column 29",
}


@pytest.mark.parametrize("text", REASONS)
def test_an_error_says_what_was_expected(text: str) -> None:
    assert str(error_of(text)).startswith(REASONS[text])


ADVICE = {
    "SELEC a FROM t": "Did you mean SELECT?",
    "SELECT a FORM t": "Did you mean FROM instead of FORM?",
    "SELECT a FROM t WEHRE a > 1": "Did you mean WHERE instead of WEHRE?",
    "SELECT a FROM t GRUOP BY a": "Did you mean GROUP instead of GRUOP?",
    "CREATE TABEL x (a INT)": "Did you mean TABLE?",
    "CREATE TABLE x (a INT) WIHT ('a'='b')": "Did you mean WITH?",
    "INSERT INTO t VALUS (1)": "Did you mean VALUES?",
    "SHOW TABELS": "Did you mean TABLES?",
    "SELECT INTERVAL '1' MINUT": "Did you mean MINUTE?",
    "SELECT SUM(b) OVER (PARTITON BY c) FROM t": "Did you mean PARTITION instead of PARTITON?",
    "SELECT EXTRACT(YEARS FROM ts)": "Write YEAR.",
    "SELECT id AS value FROM t": "VALUE is a reserved word; as a name it is written in backticks: `value`.",
    "SELECT id value FROM t": "VALUE is a reserved word; as a name it is written in backticks: `value`.",
    "SELECT a AS at FROM t": "AT is a reserved word; as a name it is written in backticks: `at`.",
    "SELECT a AS order FROM t": "ORDER is a reserved word; as a name it is written in backticks: `order`.",
    "SELECT ts AT TIME ZONE 'UTC' FROM t": (
        "There is no AT TIME ZONE: use CONVERT_TZ(text, from, to), or a TIMESTAMP_LTZ and table.local-time-zone."
    ),
    "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.x PATTERN (A) DEFINE A AS A.x > 1)": (
        "A measure has a name: write AS and the name."
    ),
    "SELECT timestamp, id FROM t": "TIMESTAMP is a reserved word; as a name it is written in backticks: `timestamp`.",
    "SELECT id FROM t WHERE date > 1": "DATE is a reserved word; as a name it is written in backticks: `date`.",
    "SELECT STRING_AGG(a, ',') FROM t": "Write LISTAGG(text, separator).",
    "SELECT CAST(a AS DATETIME) FROM t": "Write TIMESTAMP(3).",
    "CREATE TABLE x (a VARHCAR(3))": "Did you mean VARCHAR?",
    "CREATE TABLE x (a NUMBER(10, 2))": "Write DECIMAL(p, s).",
    "CREATE TABLE x (a INTEGER(3))": "Write INT.",
    "CREATE TABLE x (a INT) WITH (connector = 'print')": "Write it in single quotes: 'connector'.",
    "SELECT a FROM t WHERE a != 1": "Write <>.",
    "SELECT a FROM t WHERE a == 1": "Write = once.",
    "SELECT a::INT FROM t": "Write CAST(... AS type).",
    "SELECT [1, 2]": "Write ARRAY[...].",
    "SELECT {'a': 1}": "Write MAP[key, value, ...], or ARRAY[...].",
    "SELECT TOP 5 a FROM t": "Write LIMIT behind the query.",
    "SELECT a FROM t LIMIT 2, 3": "Write LIMIT count OFFSET start.",
    "SELECT a INTO u FROM t": "Write INSERT INTO table SELECT ...",
    "SELECT a FROM t WHERE a IN ()": "At least one is needed between the parentheses.",
    "SELECT f(x -> x)": "There are no functions as arguments.",
    "SELECT COUNT(*) FROM t GROUP BY ALL": "Name the columns that rows are grouped by.",
    "INSERT OVERWRITE TABLE t SELECT 1": "Leave out TABLE.",
    "SELECT a FROM VALUES (1) AS t (a)": "Write FROM (VALUES (...)) AS t (a, b).",
    "CREATE TABLE x (a INT) USING parquet": (
        "Write WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '...')."
    ),
    'CREATE TABLE x ("a" INT)': "Names are quoted in backticks, `a`, and texts in single quotes, 'a'.",
    "SELECT o.id FROM o JOIN r AS x FOR SYSTEM_TIME AS OF o.ts ON o.k = x.k": (
        "Write it in front of the alias: rates FOR SYSTEM_TIME AS OF o.ts AS r."
    ),
    "CREATE MATERIALIZED TABLE x FRESHNESS = INTERVAL '1' DAY START_MODE = FROM_NOW AS SELECT 1": (
        "It stands in front of FRESHNESS, behind the options of a materialized table."
    ),
    "CREATE TABLE x (a INT) WITH ('connector' = 'print')\nSELECT 1": "A semicolon stands between two statements.",
    "SELECT 'abc": "A quote inside a text is written twice, ''; a backslash is a character like others.",
}


@pytest.mark.parametrize("text", ADVICE)
def test_an_error_says_what_to_write(text: str) -> None:
    error = error_of(text)
    assert error.advice == ADVICE[text]
    assert str(error).endswith(f"\n{ADVICE[text]}")


def test_of_a_long_line_the_surroundings_are_shown() -> None:
    lines = str(error_of("SELECT a FROM t WHERE a IN (" + ", ".join("12345" for _ in range(100)) + " oops)")).split(
        "\n"
    )
    assert lines[1].startswith("  ... ")
    assert len(lines[1]) < 120
    assert lines[1][lines[2].index("^") :].startswith("oops")


def test_tabs_count_as_one_column() -> None:
    assert SqlSource("a\n\tb").excerpt(3, 4) == "   b\n   ^"
    assert SqlSource("a\n\tb").position(3).column == 2


def test_one_statement_is_one() -> None:
    assert parse_statement("; SELECT 1 ;;").start == 2
    with pytest.raises(SqlParseError, match="only one statement is expected at line 1, column 11"):
        parse_statement("SELECT 1; SELECT 2")
    with pytest.raises(SqlParseError, match=r"Write EXECUTE STATEMENT SET BEGIN \.\.\. END"):
        parse_statement("BEGIN STATEMENT SET; INSERT INTO t SELECT 1; END")


@pytest.mark.parametrize("parse", [parse_expression, parse_type])
def test_nothing_stands_behind_an_expression_or_a_type(parse: object) -> None:
    with pytest.raises(SqlParseError, match="found 'x'"):
        parse("INT x" if parse is parse_type else "1 x")  # type: ignore[operator]


NESTED = {
    "parentheses": "SELECT " + "(" * 1000,
    "signs": "SELECT " + "- " * 1000 + "1",
    "relations": "SELECT * FROM " + "(" * 1000,
    "queries": "(" * 1000 + "SELECT 1",
    "subqueries": "SELECT a IN " + "(SELECT 1 FROM t WHERE a IN " * 1000,
    "cases": "SELECT " + "CASE WHEN a THEN 1 ELSE " * 1000,
    "types": "SELECT CAST(1 AS " + "ARRAY<" * 1000,
    "patterns": "SELECT * FROM t MATCH_RECOGNIZE (PATTERN " + "(" * 1000,
}


@pytest.mark.parametrize("text", NESTED)
def test_what_is_nested_too_deeply_is_refused(text: str) -> None:
    error = error_of(NESTED[text])
    assert error.reason == "expressions and queries are nested more than 150 levels deep"
    assert len(traceback.extract_tb(error.__traceback__)) < 10
    assert error.__context__ is None
