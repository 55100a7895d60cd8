"""``'connector' = 'filesystem'``: all formats, partitions, metadata, bad records."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.common.errors import ConfigurationError, HeadraceError, InvalidTypeError
from headrace.table.logical.errors import PlanningError
from tests.table.connectors.session import rows, run, session

COLUMNS = "id BIGINT, name STRING, price DECIMAL(8, 2), bought TIMESTAMP(3), is_paid BOOLEAN, dt STRING"
VALUES = """
    (1, 'tea', CAST(2.50 AS DECIMAL(8, 2)), TIMESTAMP '2024-02-29 12:00:00.5', TRUE, 'a/b'),
    (2, CAST(NULL AS STRING), CAST(NULL AS DECIMAL(8, 2)), TIMESTAMP '2024-02-29 12:00:00', FALSE, 'c')
"""
EXPECTED = [
    (1, "tea", Decimal("2.50"), datetime(2024, 2, 29, 12, 0, 0, 500_000), True, "a/b"),
    (2, None, None, datetime(2024, 2, 29, 12), False, "c"),
]
ATOMIC = {"table.rtas-ctas.atomicity-enabled": "true"}


def filesystem(path: Path) -> str:
    return f"WITH ('connector'='filesystem', 'format'='csv', 'path'='{path}')"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (dt)"])
@pytest.mark.parametrize("fmt", ["csv", "json", "avro", "parquet", "orc"])
def test_rows_come_back_from_files(tmp_path: Path, fmt: str, partitioned: str) -> None:
    options = "'csv.null-literal' = 'n/a', " if fmt == "csv" else ""
    tables = session(
        f"CREATE TABLE t ({COLUMNS}) {partitioned} WITH ({options}"
        f"'connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = '{fmt}')"
    )
    run(tables, f"INSERT INTO t VALUES {VALUES}")
    assert sorted(rows(tables, "SELECT * FROM t")) == EXPECTED
    assert rows(tables, "SELECT name FROM t WHERE dt = 'a/b'") == [("tea",)]
    folders = {path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith(".")}
    assert (folders == {"dt=a%2Fb", "dt=c"}) == bool(partitioned)


def test_columns_that_no_statement_reads_stay_in_the_files(tmp_path: Path) -> None:
    tables = session(
        "CREATE TABLE t (a INT, b STRING, ts TIMESTAMP(3), c INT, day_of STRING, WATERMARK FOR ts AS ts) "
        f"PARTITIONED BY (day_of) WITH ('connector'='filesystem', 'path'='{tmp_path}/t', 'format'='parquet')",
        f"CREATE TABLE twos (a INT, b STRING) WITH ('connector'='filesystem', 'path'='{tmp_path}/u', 'format'='csv')",
        f"CREATE TABLE ones (c INT) WITH ('connector'='filesystem', 'path'='{tmp_path}/v', 'format'='csv')",
    )
    time = "TIMESTAMP '2024-02-29 12:00:00'"
    run(tables, f"INSERT INTO t VALUES (1, 'tea', {time}, 3, 'x'), (2, 'milk', {time}, 4, 'y')")
    assert rows(tables, "SELECT c FROM t WHERE a = 2") == [(4,)]
    assert sorted(rows(tables, "SELECT day_of FROM t")) == [("x",), ("y",)]
    assert rows(tables, "SELECT COUNT(*) FROM t")[-1] == (2,)
    scan = "table=[[default_catalog, default_database, t, project=[a, ts], metadata=[]]], fields=[a, ts]"
    assert f"TableSourceScan({scan})" in tables.explain_sql("SELECT a FROM t")
    both = tables.create_statement_set()
    both.add_insert_sql("INSERT INTO twos SELECT a, b FROM t")
    both.add_insert_sql("INSERT INTO ones SELECT c FROM t")
    assert both.explain().count("project=[a, b, ts, c]") == 3  # twice in the physical plan, once in that of execution
    both.execute().wait()
    assert sorted(rows(tables, "SELECT b, a FROM twos")) == [("milk", 2), ("tea", 1)]
    assert sorted(rows(tables, "SELECT c FROM ones")) == [(3,), (4,)]


@pytest.mark.parametrize("fmt", ["csv", "json", "avro", "orc", "parquet", "csv', 'csv.header'='true"])
def test_columns_are_left_out_of_files_of_every_format(tmp_path: Path, fmt: str) -> None:
    columns = "id BIGINT, who STRING, tags ARRAY<STRING>, price DECIMAL(10, 2), day_of STRING, paid BOOLEAN"
    tables = session(
        f"CREATE TABLE t ({columns}) PARTITIONED BY (day_of) WITH ('connector'='filesystem', 'path'='{tmp_path}', "
        f"'format'='{fmt}')",
        is_streaming=False,
    )
    run(tables, "INSERT INTO t VALUES (1, 'ann', ARRAY['a', 'b'], 1.50, 'x', TRUE)")
    run(tables, "INSERT INTO t (id, who, day_of, paid) VALUES (2, 'bob', 'y', FALSE)")
    assert sorted(rows(tables, "SELECT paid, id FROM t")) == [(False, 2), (True, 1)]
    assert rows(tables, "SELECT day_of, price, tags FROM t WHERE who = 'ann'") == [("x", Decimal("1.50"), ["a", "b"])]
    assert rows(tables, "SELECT COUNT(*) FROM t") == [(2,)]
    scan = "table=[[default_catalog, default_database, t, project=[price], metadata=[]]], fields=[price]"
    assert f"TableSourceScan({scan})" in tables.explain_sql("SELECT price FROM t")


def test_values_of_columns_that_are_not_read_may_be_wrong(tmp_path: Path) -> None:
    """As in Flink, which converts the values of the columns alone that a query reads."""
    (tmp_path / "t.csv").write_text("1,x,2.5\n2,3,4.5\n")
    tables = session(f"CREATE TABLE t (a INT, b INT, c DOUBLE) {filesystem(tmp_path)}", is_streaming=False)
    assert rows(tables, "SELECT c, a FROM t") == [(2.5, 1), (4.5, 2)]
    with pytest.raises(HeadraceError, match="field 'b': 'x' is not a whole number"):
        rows(tables, "SELECT b FROM t")


def test_columns_of_a_query_may_have_other_names(tmp_path: Path) -> None:
    tables = session(
        f"CREATE TABLE t (a INT, b STRING) WITH ('connector'='filesystem', 'path'='{tmp_path}/out', 'format'='json')"
    )
    run(tables, "INSERT INTO t SELECT x AS y, z AS w FROM (VALUES (1, 'tea')) AS v(x, z)")
    assert [path.read_text() for path in (tmp_path / "out").glob("part*")] == ['{"a":1,"b":"tea"}\n']


def test_moments_of_json_are_spelled_as_in_sql(tmp_path: Path) -> None:
    tables = session(
        f"CREATE TABLE t (a TIMESTAMP(0)) WITH ('connector'='filesystem', 'path'='{tmp_path}/out', 'format'='json')"
    )
    run(tables, "INSERT INTO t VALUES (TIMESTAMP '2024-02-29 12:00:00')")
    assert [path.read_text() for path in (tmp_path / "out").glob("part*")] == ['{"a":"2024-02-29 12:00:00"}\n']


def test_files_tell_where_rows_come_from(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"id":1}\n')
    tables = session(
        "CREATE TABLE t (n STRING METADATA FROM 'file.name', id BIGINT, `file.size` INT METADATA) WITH ("
        f"'connector'='filesystem', 'path'='{tmp_path}/one.json', 'format'='json')"
    )
    assert rows(tables, "SELECT * FROM t") == [("one.json", 1, 9)]


@pytest.mark.parametrize("ignores", [True, False])
def test_what_cannot_be_read_is_left_out_if_that_is_asked_for(tmp_path: Path, ignores: bool) -> None:
    (tmp_path / "one.csv").write_text("1\nx\n3\n")
    tables = session(
        f"CREATE TABLE t (id INT) WITH ('connector'='filesystem', 'path'='{tmp_path}/one.csv', 'format'='csv',"
        f"'csv.ignore-parse-errors'='{str(ignores).lower()}')"
    )
    if ignores:
        assert rows(tables, "SELECT * FROM t") == [(1,), (3,)]
    else:
        with pytest.raises(HeadraceError, match=r"one\.csv:2"):
            rows(tables, "SELECT * FROM t")


def test_lines_are_read_raw(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("tea, cake\n\n")
    tables = session(
        f"CREATE TABLE t (line STRING) WITH ('connector'='filesystem', 'path'='{tmp_path}/one.txt', 'format'='raw')"
    )
    assert rows(tables, "SELECT * FROM t") == [("tea, cake",), ("",)]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ("'path'='x', 'formt'='json'", ConfigurationError, "no option 'formt': did you mean 'format'"),
        ("'path'='x'", ConfigurationError, "needs 'format' among its options"),
        ("'path'='', 'format'='json'", ConfigurationError, "'path' is empty"),
        ("'path'='x', 'format'='jsn'", ConfigurationError, "no format 'jsn': did you mean"),
        ("'path'='x', 'format'='json', 'json.ignore-parse-error'='true'", ConfigurationError, "'ignore-parse-errors'"),
        ("'path'='x', 'format'='debezium-json'", ConfigurationError, "is one of messages"),
        ("'path'='x', 'format'='raw'", InvalidTypeError, "'raw' is one column"),
    ],
)
def test_wrong_options_are_told(options: str, error: type[Exception], said: str) -> None:
    tables = session(f"CREATE TABLE t (a STRING, b STRING) WITH ('connector'='filesystem', {options})")
    with pytest.raises(error, match=f"^table default_catalog.default_database.t: .*{said}"):
        rows(tables, "SELECT * FROM t")


def test_updates_have_no_place_in_files(tmp_path: Path) -> None:
    tables = session(
        f"CREATE TABLE t (a BIGINT) WITH ('connector'='filesystem', 'path'='{tmp_path}/out', 'format'='json')",
        "CREATE TABLE g (a BIGINT) WITH ('connector'='datagen', 'number-of-rows'='3')",
    )
    with pytest.raises(HeadraceError, match="doesn't support consuming update changes"):
        tables.execute_sql("INSERT INTO t SELECT COUNT(*) FROM g")


@pytest.mark.parametrize("fmt", ["csv", "parquet"])
def test_rows_are_overwritten(tmp_path: Path, fmt: str) -> None:
    """What real Flink does to the same tables."""
    options = f"WITH ('connector'='filesystem', 'format'='{fmt}', 'path'='{tmp_path}"
    tables = session(
        f"CREATE TABLE whole (a INT, b STRING) {options}/whole')",
        f"CREATE TABLE parts (a INT, d STRING, h INT) PARTITIONED BY (d, h) {options}/parts')",
        is_streaming=False,
    )
    run(tables, "INSERT INTO whole VALUES (1, 'x'), (5, 'y')")
    run(tables, "INSERT OVERWRITE whole SELECT a + 1, b FROM whole")
    assert sorted(rows(tables, "SELECT * FROM whole")) == [(2, "x"), (6, "y")]
    with pytest.raises(HeadraceError, match="division by zero"):
        run(tables, "INSERT OVERWRITE whole SELECT a / (a - 6), b FROM whole")
    assert sorted(rows(tables, "SELECT * FROM whole")) == [(2, "x"), (6, "y")]
    run(tables, "INSERT OVERWRITE whole SELECT * FROM whole WHERE a > 100")
    assert rows(tables, "SELECT * FROM whole") == []
    run(tables, "INSERT INTO parts VALUES (1, 'p', 1), (2, 'p', 2), (3, 'q', 1)")
    run(tables, "INSERT OVERWRITE parts PARTITION (d = 'p') VALUES (9, 1)")
    assert sorted(rows(tables, "SELECT * FROM parts")) == [(2, "p", 2), (3, "q", 1), (9, "p", 1)]
    run(tables, "INSERT OVERWRITE parts PARTITION (d = 'q', h = 1) SELECT a FROM parts WHERE a > 100")
    assert sorted(rows(tables, "SELECT * FROM parts")) == [(2, "p", 2), (3, "q", 1), (9, "p", 1)]


@pytest.mark.parametrize(
    ("connector", "is_streaming", "said"),
    [
        ("'filesystem', 'path'='x', 'format'='csv'", True, "INSERT OVERWRITE runs in batch mode alone"),
        ("'print'", False, "the connector of table default_catalog.default_database.t only adds to them"),
    ],
)
def test_rows_that_cannot_be_overwritten(connector: str, is_streaming: bool, said: str) -> None:
    tables = session(f"CREATE TABLE t (a INT) WITH ('connector'={connector})", is_streaming=is_streaming)
    with pytest.raises(PlanningError, match=said):
        tables.execute_sql("INSERT OVERWRITE t VALUES (1)")


@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (b)"])
def test_a_table_is_replaced_atomically(tmp_path: Path, partitioned: str) -> None:
    tables = session(is_streaming=False, **ATOMIC)
    created = f"TABLE t {partitioned} {filesystem(tmp_path)} AS SELECT"
    with pytest.raises(HeadraceError, match="division by zero"):
        run(tables, f"CREATE {created} a / (a - 2) AS a, b FROM (VALUES (1, 'x'), (2, 'y')) AS v(a, b)")
    assert tables.list_tables() == []
    run(tables, f"CREATE {created} * FROM (VALUES (1, 'x'), (2, 'y')) AS v(a, b)")
    assert sorted(rows(tables, "SELECT * FROM t")) == [(1, "x"), (2, "y")]
    before = rows(tables, "SHOW CREATE TABLE t")
    with pytest.raises(HeadraceError, match="division by zero"):
        run(tables, f"REPLACE {created} a / (a - 2) AS c, b FROM t")
    assert rows(tables, "SHOW CREATE TABLE t") == before
    assert sorted(rows(tables, "SELECT * FROM t")) == [(1, "x"), (2, "y")]
    run(tables, f"CREATE OR REPLACE {created} CAST(a AS STRING) || '!' AS c, b FROM t WHERE a = 1")
    assert rows(tables, "SELECT * FROM t") == [("1!", "x")]


def test_a_table_that_is_created_keeps_the_rows_in_its_folder(tmp_path: Path) -> None:
    tables = session(is_streaming=False, **ATOMIC)
    run(tables, f"CREATE TABLE t {filesystem(tmp_path)} AS SELECT 1 AS a")
    run(tables, f"CREATE TABLE u {filesystem(tmp_path)} AS SELECT 2 AS a")
    assert sorted(rows(tables, "SELECT * FROM u")) == [(1,), (2,)]


def test_a_replaced_table_is_read_by_its_definition_of_before(tmp_path: Path) -> None:
    tables = session(is_streaming=False)
    run(tables, f"CREATE TABLE t {filesystem(tmp_path / 'old')} AS SELECT 1 AS a")
    run(tables, f"REPLACE TABLE t {filesystem(tmp_path / 'new')} AS SELECT a + 1 AS a FROM t")
    assert rows(tables, "SELECT * FROM t") == [(2,)]


def test_a_table_stays_when_the_job_that_fills_it_fails(tmp_path: Path) -> None:
    """Without atomicity, as in real Flink."""
    tables = session(is_streaming=False)
    with pytest.raises(HeadraceError, match="division by zero"):
        run(tables, f"CREATE TABLE t {filesystem(tmp_path)} AS SELECT a / (a - 2) AS a FROM (VALUES (1), (2)) AS v(a)")
    assert tables.list_tables() == ["t"]


def test_a_connector_that_shows_rows_at_once_creates_no_table_atomically() -> None:
    tables = session(is_streaming=False, **ATOMIC)
    with pytest.warns(UserWarning, match="atomicity-enabled has no effect on table default_catalog.default_database.t"):
        run(tables, "CREATE TABLE t WITH ('connector'='blackhole') AS SELECT 1 AS a")
    assert tables.list_tables() == ["t"]


def test_values_that_statistics_cannot_hold_are_not_known(tmp_path: Path) -> None:
    """Days and times beyond those of Python, a nanosecond, and a column of two types."""
    far = pa.array([0, 2**31 - 1], pa.date32()), pa.array([0, 2**62], pa.timestamp("us"))
    for number, last in enumerate([pa.array([1, 2], pa.int64()), pa.array(["a", "b"])]):
        file = pa.table(
            {"k": [1, 2], "day": far[0], "at": far[1], "nanos": pa.array([1, 2], pa.timestamp("ns")), "v": last}
        )
        pq.write_table(file, tmp_path / f"{number}.parquet")
    columns = "k BIGINT, `day` DATE, `at` TIMESTAMP(6), nanos TIMESTAMP(9), v BIGINT"
    where = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet'"
    tables = session(f"CREATE TABLE t ({columns}) WITH ({where})", is_streaming=False)
    plan = tables.explain_sql(
        "SELECT a.k FROM t a, t b, t c WHERE a.k = b.k AND b.k = c.k AND a.`day` > DATE '2020-01-01' AND a.`at` > "
        "TIMESTAMP '2020-01-01 00:00:00' AND b.nanos > TIMESTAMP '2020-01-01 00:00:00' AND c.v > 1"
    )
    assert plan.count("TableSourceScan") >= 3


def test_times_beyond_nanoseconds_are_estimated(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": pa.array([0, 250_000_000_000_000_000], pa.timestamp("us"))}), tmp_path / "f.parquet")
    where = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet'"
    tables = session(f"CREATE TABLE t (`at` TIMESTAMP(9)) WITH ({where})", is_streaming=False)
    assert "TableSourceScan" in tables.explain_sql(
        "SELECT a.`at` FROM t a, t b, t c WHERE a.`at` = b.`at` AND b.`at` = c.`at` AND a.`at` > TIMESTAMP '2020-01-01 "
        "00:00:00'"
    )


def test_a_damaged_file_stops_the_job_unless_the_table_goes_on_without_it(tmp_path: Path) -> None:
    pq.write_table(pa.table({"amount": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"Amount": [2]}), tmp_path / "b.parquet")
    where = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet'"
    tables = session(
        f"CREATE TABLE whole (amount BIGINT) WITH ({where})",
        f"CREATE TABLE rest (amount BIGINT) WITH ({where}, 'source.ignore-corrupt-files' = 'true')",
    )
    said = "has no column 'amount'; it has Amount: did you mean Amount.*in SQL, set the table's option "
    with pytest.raises(HeadraceError, match=f"(?s){said}source.ignore-corrupt-files to true"):
        rows(tables, "SELECT * FROM whole")
    assert rows(tables, "SELECT * FROM rest") == [(1,)]


def test_the_first_line_of_a_file_may_name_its_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Amount\n1\n")
    where = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv'"
    tables = session(
        f"CREATE TABLE plain (amount BIGINT) WITH ({where})",
        f"CREATE TABLE headed (amount BIGINT) WITH ({where}, 'csv.header' = 'true')",
    )
    with pytest.raises(HeadraceError, match=r"in SQL, set the table's option csv.header to true"):
        rows(tables, "SELECT * FROM plain")
    assert rows(tables, "SELECT * FROM headed") == [(1,)]  # in the order of the table, as in Flink
