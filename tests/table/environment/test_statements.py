"""Statements are executed, and results are shown, collected and handed over."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.common import Row, RowKind
from headrace.common.errors import HeadraceError, InvalidProgramError, UnsupportedOperationError
from headrace.table import EnvironmentSettings, ResultKind, TableEnvironment
from headrace.table.bind.errors import SqlPlanError, SqlValidationError
from headrace.table.logical.errors import PlanningError
from tests.table.connectors.session import session

NUMBERS = "(VALUES ('a', 1), ('b', 2), ('a', 3)) AS t (k, n)"


@pytest.fixture(params=[True, False], ids=["batch", "streaming"])
def is_batch(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def tables(is_batch: bool) -> TableEnvironment:
    settings = EnvironmentSettings.in_batch_mode() if is_batch else EnvironmentSettings.in_streaming_mode()
    made = TableEnvironment.create(settings)
    made.get_config().set("headrace.runtime", "local").set("parallelism.default", "1")
    return made


def test_rows_come_with_what_they_do(tables: TableEnvironment, is_batch: bool) -> None:
    with tables.execute_sql(f"SELECT k, COUNT(*) AS c FROM {NUMBERS} GROUP BY k").collect() as rows:
        found = list(rows)
    if is_batch:
        assert sorted(found, key=str) == [Row(k="a", c=2), Row(k="b", c=1)]
    else:
        kinds = [RowKind.INSERT, RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER]
        assert [row.get_row_kind() for row in found] == kinds


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("10 / (n - 2)", r"10 / \(n - 2\)\): division by zero \(at line 2, column 3\)"),
        ("CAST(k AS INT)", r"CAST\(k AS INTEGER\): .* \(at line 2, column 3\): TRY_CAST gives NULL instead\n"),
        ("CAST(CAST(k AS INT) AS STRING)", r"\(at line 2, column 8\): TRY_CAST gives NULL instead\n"),
    ],
)
def test_an_expression_without_a_value_is_told_with_its_place(
    tables: TableEnvironment, expression: str, told: str
) -> None:
    with pytest.raises(HeadraceError, match=told):
        tables.execute_sql(f"SELECT k,\n  {expression} AS q\nFROM {NUMBERS}").wait()


@pytest.mark.parametrize(
    "query",
    {
        "SELECT k FROM t ORDER BY n, k": "line 1, column 26",
        "SELECT k FROM t\nORDER BY ts\nOFFSET 2": "line 2, column 10",
        "SELECT k, SUM(n) OVER (ORDER BY ts DESC) FROM t": "line 1, column 11",
        "SELECT SUM(n) OVER (ORDER BY ts), SUM(n) OVER (ORDER BY k) FROM t": "line 1, column 35",
        "INSERT INTO f\nSELECT k, COUNT(*) FROM t GROUP BY k": "line 1, column 13",
    }.items(),
)
def test_what_cannot_be_planned_is_reported_with_its_place(query: tuple[str, str]) -> None:
    tables = session(
        "CREATE TABLE t (k STRING, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')",
        "CREATE TABLE f (k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '/nowhere')",
    )
    with pytest.raises(PlanningError) as error:
        tables.execute_sql(query[0])
    assert str(error.value).endswith(f"(at {query[1]})")


def test_rows_as_a_table(tables: TableEnvironment) -> None:
    found = tables.execute_sql(f"SELECT n * 2 AS twice FROM {NUMBERS} WHERE k = 'a'").to_arrow()
    assert found.equals(pa.table({"twice": pa.array([2, 6], pa.int32())}))


def test_a_table_has_the_rows_after_all_changes(tables: TableEnvironment) -> None:
    values = "(VALUES ('a', 1), ('b', 2), ('a', 3), ('c', 4), ('b', -2)) AS t (k, n)"
    sums = f"SELECT SUM(n) AS s FROM {values} GROUP BY k"
    found = tables.execute_sql(f"SELECT s, ARRAY[s] AS l FROM ({sums}) UNION ALL VALUES (4, ARRAY[4])").to_arrow()
    assert sorted(row["s"] for row in found.to_pylist()) == [0, 4, 4, 4]
    assert all(row["l"] == [row["s"]] for row in found.to_pylist())
    assert tables.execute_sql(f"SELECT COUNT(*) AS c FROM {values}").to_pandas().to_dict("list") == {"c": [5]}


def test_rows_are_printed(tables: TableEnvironment, is_batch: bool, capsys: pytest.CaptureFixture[str]) -> None:
    tables.execute_sql(f"SELECT k, CAST(NULL AS INT) AS x FROM {NUMBERS} WHERE n = 2").print()
    lines = capsys.readouterr().out.splitlines()
    if is_batch:
        assert lines == [
            "+---+--------+",
            "| k |      x |",
            "+---+--------+",
            "| b | <NULL> |",
            "+---+--------+",
            "1 row in set",
        ]
    else:
        assert lines[1].split() == ["|", "op", "|", "k", "|", "x", "|"]
        assert lines[3].split() == ["|", "+I", "|", "b", "|", "<NULL>", "|"]


def test_definitions_say_that_they_are_done(tables: TableEnvironment) -> None:
    result = tables.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'blackhole')")
    assert result.get_result_kind() is ResultKind.SUCCESS
    assert [row[0] for row in tables.execute_sql("SHOW TABLES").collect()] == ["t"]


def test_texts_are_compared_with_numbers_as_numbers(tables: TableEnvironment) -> None:
    found = tables.execute_sql(f"SELECT n FROM {NUMBERS} WHERE n > '1' AND n IN ('2', '3') AND k < 'c'")
    assert sorted(row[0] for row in found.collect()) == [2, 3]


def test_the_text_of_a_number_is_a_key_of_a_table(tables: TableEnvironment) -> None:
    columns = "k STRING, n BIGINT NOT NULL, PRIMARY KEY (k) NOT ENFORCED"
    tables.execute_sql(f"CREATE TABLE t ({columns}) WITH ('connector' = 'blackhole')")
    tables.explain_sql(f"INSERT INTO t SELECT CAST(n AS VARCHAR(11)), COUNT(*) FROM {NUMBERS} GROUP BY n")
    with pytest.raises(SqlValidationError, match="column 'n' is NOT NULL, and is not named"):
        tables.execute_sql(f"INSERT INTO t (k) SELECT k FROM {NUMBERS}")
    with pytest.raises(SqlPlanError, match=r"the query gives 1 columns instead of 2: \(n "):
        tables.execute_sql(f"INSERT INTO t SELECT n FROM {NUMBERS}")
    with pytest.raises(
        SqlPlanError, match=r"column 'n' of table '.*t' is BIGINT NOT NULL, and 'm' of the query BOOLEAN"
    ):
        tables.execute_sql(f"INSERT INTO t SELECT k, n > 1 AS m FROM {NUMBERS}")


@pytest.mark.parametrize(
    ("sample", "fewest", "most"), [("SYSTEM (0)", 0, 0), ("BERNOULLI (50) REPEATABLE (7)", 25, 75)]
)
def test_a_sample_has_a_share_of_the_rows(tables: TableEnvironment, sample: str, fewest: int, most: int) -> None:
    numbers = f"(VALUES {', '.join(f'({number})' for number in range(100))}) AS t (n)"
    found = list(tables.execute_sql(f"SELECT n FROM {numbers} TABLESAMPLE {sample}").collect())
    assert fewest <= len(found) <= most


def test_what_cannot_be_planned_is_refused_by_name(tables: TableEnvironment) -> None:
    for query, reason in (("SELECT 1 / 0", "Division by zero"), ("SELECT MAX(ROW(n, k))", "MAX does not take ROW")):
        with pytest.raises(PlanningError, match=reason):
            tables.explain_sql(f"{query} FROM {NUMBERS}")
    tables.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'blackhole')")
    with pytest.raises(SqlPlanError, match=r"^connector 'blackhole' of table 't' does not support DELETE at line 1"):
        tables.execute_sql("DELETE FROM t")
    with pytest.raises(SqlValidationError, match=r"^procedure 'default_catalog.default_database.p' does not exist"):
        tables.execute_sql("CALL p(1)")
    with pytest.raises(UnsupportedOperationError, match="statistics from the footers of Parquet and ORC files"):
        tables.execute_sql("ANALYZE TABLE t COMPUTE STATISTICS")


def test_definitions_are_shown_as_they_are_long(tables: TableEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    kind = "ROW<`a_rather_long_name` BIGINT, `b` STRING>"
    tables.execute_sql(f"CREATE TABLE t (r {kind}) WITH ('connector' = 'blackhole')").print()
    tables.execute_sql("DESCRIBE t").print()
    tables.execute_sql("SHOW CREATE TABLE t").print()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "OK"
    assert lines[4].split("|")[2].strip() == kind
    assert lines[7] == "CREATE TABLE `default_catalog`.`default_database`.`t` ("


def test_jobs_are_listed_and_stopped() -> None:
    tables = TableEnvironment.create()
    tables.get_config().set("headrace.runtime", "local").set("parallelism.default", "1")
    tables.execute_sql("CREATE TABLE numbers (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '10')")
    tables.execute_sql("CREATE TABLE hole (n INT) WITH ('connector' = 'blackhole')")
    client = tables.execute_sql("INSERT INTO hole SELECT n FROM numbers").get_job_client()
    assert client is not None
    job = str(client.get_job_id())
    for statement in ("SHOW JOBS", f"DESCRIBE JOB '{job}'"):
        with tables.execute_sql(statement).collect() as rows:
            assert [tuple(row)[:2] for row in rows if row[0] == job] == [(job, "insert-into_hole")]
    tables.execute_sql(f"STOP JOB '{job}'")
    assert client.get_job_execution_result().done()
    with pytest.raises(InvalidProgramError, match="SHOW JOBS lists"):
        tables.execute_sql(f"STOP JOB '{job}' WITH SAVEPOINT")


def test_functions_are_listed_without_operators(tables: TableEnvironment) -> None:
    found = tables.list_functions()
    assert {"UPPER", "COALESCE", "SUM"} <= set(found)
    assert not {"+", "AND", "IS NULL", "||", "LIKE"} & set(found)


def test_a_plan_is_text(tables: TableEnvironment) -> None:
    plan = tables.explain_sql(f"SELECT n + 1 AS m FROM {NUMBERS}")
    assert "== Optimized Execution Plan ==\nCalc(select=[(n + 1) AS m])\n+- Values(" in plan


def test_the_default_of_lag_takes_the_place_of_null_in_a_column_that_has_none(tables: TableEnvironment) -> None:
    given = "(VALUES (1, 5), (2, CAST(NULL AS INT)), (3, 7)) AS t (id, n)"
    query = "SELECT id, LAG(n, 1, 0) OVER (ORDER BY p) AS z, LAG(n, 1, n) OVER (ORDER BY p) AS s FROM t"
    tables.execute_sql(f"CREATE TEMPORARY VIEW t AS SELECT *, PROCTIME() AS p FROM {given}")
    assert tables.execute_sql(query).to_arrow().to_pydict() == {"id": [1, 2, 3], "z": [0, 5, 0], "s": [5, 5, None]}


def test_windows_without_length_are_refused(tables: TableEnvironment) -> None:
    for window in ("TUMBLE(p, INTERVAL '0' SECOND)", "SESSION(p, INTERVAL '0' SECOND)"):
        with pytest.raises(PlanningError, match=r"requires positive sizes|SESSION"):
            tables.execute_sql(f"SELECT COUNT(*) FROM (SELECT PROCTIME() AS p FROM {NUMBERS}) GROUP BY {window}")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT o.k FROM o JOIN r FOR SYSTEM_TIME AS OF o.plain AS r ON o.k = r.k",
            r"requires a time attribute, but 'o\.plain' is a plain TIMESTAMP\(3\) at line 1, column 48",
        ),
        ("SELECT ROW_NUMBER() OVER (PARTITION BY k ORDER BY plain DESC) FROM o", "ASCENDING mode.*WHERE n <= 3"),
        ("SELECT SUM(k) OVER (ORDER BY plain ROWS 2 PRECEDING) FROM o", "Order by a column that has a watermark"),
    ],
)
def test_a_time_that_is_a_plain_column_is_told_with_what_to_do(query: str, message: str) -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    columns = "k INT, plain TIMESTAMP(3), ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    tables.execute_sql(f"CREATE TABLE o ({columns}) WITH ('connector' = 'datagen')")
    tables.execute_sql(f"CREATE TABLE r ({columns}, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'datagen')")
    with pytest.raises((PlanningError, SqlPlanError), match=message):
        tables.explain_sql(query)


@pytest.mark.parametrize(("end", "found"), [("", [1, 2]), ("LIMIT 3", [1, 2, 3]), ("OFFSET 1 ROWS", [2, 3])])
def test_an_order_of_batch_mode_has_a_limit_by_default(end: str, found: list[int]) -> None:
    tables = session("SET 'table.exec.sort.default-limit' = '2'", is_streaming=False)
    rows = tables.execute_sql(f"SELECT n FROM {NUMBERS} ORDER BY n {end}").to_arrow()
    assert rows["n"].to_pylist() == found
