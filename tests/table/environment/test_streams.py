"""Tables of streams, and streams of tables."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.common import Configuration, Row, RowKind, Types
from headrace.common.errors import InvalidProgramError, InvalidTypeError
from headrace.datastream import StreamExecutionEnvironment
from headrace.table import ChangelogMode, Schema, StreamTableEnvironment, TableEnvironment
from headrace.table.bind.errors import SqlValidationError
from headrace.table.logical.errors import PlanningError
from headrace.testing import JobHarness

PAYMENT = Types.ROW_NAMED(["card", "amount", "ts"], [Types.STRING(), Types.INT(), Types.LONG()])
PAYMENTS = [Row("a", 1, 1000), Row("b", 2, 2000), Row("a", 3, 12000)]
CHANGE = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.INT()])


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    settings = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    return StreamExecutionEnvironment.get_execution_environment(settings)


@pytest.fixture
def tables(env: StreamExecutionEnvironment) -> StreamTableEnvironment:
    return StreamTableEnvironment.create(env)


def collected(tables: StreamTableEnvironment, query: str) -> list[Any]:
    with tables.execute_sql(query).collect() as found:
        return list(found)


def test_windows_over_a_stream(env: StreamExecutionEnvironment, tables: StreamTableEnvironment) -> None:
    schema = (
        Schema.new_builder()
        .column("card", "STRING")
        .column("amount", "BIGINT")
        .column("ts", "BIGINT")
        .column_by_expression("at_time", "TO_TIMESTAMP_LTZ(ts, 3)")
        .watermark("at_time", "at_time")
        .build()
    )
    tables.create_temporary_view("payments", env.from_collection(PAYMENTS, PAYMENT), schema)
    found = collected(
        tables,
        "SELECT card, SUM(amount) FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(at_time), INTERVAL '10' SECOND)) "
        "GROUP BY card, window_start, window_end",
    )
    assert [tuple(row) for row in found] == [("a", 1), ("b", 2), ("a", 3)]
    assert tables.list_tables() == ["payments"]


def test_columns_are_found_by_their_names(env: StreamExecutionEnvironment, tables: StreamTableEnvironment) -> None:
    stream = env.from_collection(PAYMENTS, PAYMENT)
    only = Schema.new_builder().column("amount", Types.DOUBLE()).column_by_expression("twice", "amount * 2").build()
    tables.create_temporary_view("t", tables.from_data_stream(stream, only))
    assert [tuple(row) for row in collected(tables, "SELECT * FROM t")] == [(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]
    with pytest.raises(InvalidTypeError, match="no field 'amont': there are card, amount, ts"):
        tables.from_data_stream(stream, Schema.new_builder().column("amont", "INT").build())


def test_records_without_fields_are_one_column(env: StreamExecutionEnvironment, tables: StreamTableEnvironment) -> None:
    tables.create_temporary_view("t", env.from_collection(["to", "be"], Types.STRING()))
    assert [row.f0 for row in collected(tables, "SELECT f0 FROM t")] == ["to", "be"]


def test_a_table_as_a_stream(env: StreamExecutionEnvironment, tables: StreamTableEnvironment) -> None:
    tables.create_temporary_view("t", env.from_collection(PAYMENTS, PAYMENT))
    stream = tables.to_data_stream(tables.sql_query("SELECT card, amount + 1 AS n FROM t"))
    assert stream.map(lambda row: row.n * 10, Types.INT()).execute_and_collect(limit=9) == [20, 30, 40]
    with pytest.raises(InvalidProgramError, match="use to_changelog_stream"):
        tables.to_data_stream(tables.sql_query("SELECT COUNT(*) FROM t"))


def test_a_table_as_a_changelog_stream(env: StreamExecutionEnvironment, tables: StreamTableEnvironment) -> None:
    tables.create_temporary_view("t", env.from_collection(PAYMENTS, PAYMENT))
    stream = tables.to_changelog_stream(tables.sql_query("SELECT card, SUM(amount) AS n FROM t GROUP BY card"))
    found = stream.map(lambda row: f"{row.get_row_kind()}{row.card}{row.n}", Types.STRING()).execute_and_collect(
        limit=9
    )
    assert found == ["+Ia1", "+Ib2", "-Ua1", "+Ua4"]


def test_a_table_as_a_stream_of_upserts(env: StreamExecutionEnvironment, tables: StreamTableEnvironment) -> None:
    tables.create_temporary_view("t", env.from_collection(PAYMENTS, PAYMENT))
    totals = tables.sql_query("SELECT SUM(amount) AS n, card FROM t GROUP BY card")
    key = Schema.new_builder().primary_key("card").build()
    stream = tables.to_changelog_stream(totals, key, ChangelogMode.upsert())
    found = stream.map(lambda row: f"{row.get_row_kind()}{row.card}{row.n}", Types.STRING()).execute_and_collect(
        limit=9
    )
    assert found == ["+Ia1", "+Ib2", "+Ua4"]
    with pytest.raises(InvalidProgramError, match="target_schema has to name it"):
        tables.to_changelog_stream(totals, None, ChangelogMode.upsert())
    with pytest.raises(PlanningError, match="The changelog stream doesn't support consuming update changes"):
        tables.to_changelog_stream(totals, None, ChangelogMode.insert_only())


def test_a_table_as_a_changelog_stream_of_declared_columns(
    env: StreamExecutionEnvironment, tables: StreamTableEnvironment
) -> None:
    tables.create_temporary_view("t", env.from_collection(PAYMENTS, PAYMENT))
    totals = tables.sql_query("SELECT card, COUNT(*) AS c, SUM(amount) AS n FROM t GROUP BY card")
    schema = Schema.new_builder().column("n", "DOUBLE").column("card", "STRING").build()
    stream = tables.to_changelog_stream(totals, schema)
    assert list(stream.get_type().field_names) == ["n", "card"]
    found = stream.map(lambda row: f"{row.get_row_kind()}{row[0]}{row[1]}", Types.STRING()).execute_and_collect(limit=9)
    assert found == ["+I1.0a", "+I2.0b", "-U1.0a", "+U4.0a"]
    with pytest.raises(SqlValidationError, match="Did you mean card"):
        tables.to_changelog_stream(totals, Schema.new_builder().column("crd", "STRING").build())


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT card AS c, SUM(amount) AS card FROM t GROUP BY card", ["c", "card"]),
        ("SELECT amount AS card, card AS amount FROM t GROUP BY card, amount", ["card", "amount"]),
        ("SELECT SUM(amount) AS ts, ts AS n FROM t GROUP BY ts", ["ts", "n"]),
        ("SELECT n AS place FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY ts) n FROM t) WHERE n < 3", ["place"]),
    ],
)
def test_columns_have_the_names_that_the_query_gives(
    env: StreamExecutionEnvironment, tables: StreamTableEnvironment, query: str, names: list[str]
) -> None:
    tables.create_temporary_view("t", env.from_collection(PAYMENTS, PAYMENT))
    stream = tables.to_changelog_stream(tables.sql_query(query))
    assert list(stream.get_type().field_names) == names


def test_a_table_of_a_changelog_stream(env: StreamExecutionEnvironment, tables: StreamTableEnvironment) -> None:
    rows = [("a", 1), ("b", 4), ("a", 1), ("a", 5)]
    kinds = [RowKind.INSERT, RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER]
    stream = env.from_collection([Row.of_kind(kind, *row) for kind, row in zip(kinds, rows, strict=True)], CHANGE)
    tables.create_temporary_view("t", tables.from_changelog_stream(stream))
    found = collected(tables, "SELECT SUM(v) AS total FROM t")
    assert [(str(row.get_row_kind()), row.total) for row in found][-1] == ("+U", 9)


def test_upserts_of_a_stream_need_a_key(env: StreamExecutionEnvironment, tables: StreamTableEnvironment) -> None:
    kinds = [RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE]
    rows = [("a", 1), ("a", 5), ("a", 5)]
    stream = env.from_collection([Row.of_kind(kind, *row) for kind, row in zip(kinds, rows, strict=True)], CHANGE)
    schema = Schema.new_builder().column("k", "STRING NOT NULL").column("v", "INT").primary_key("k").build()
    tables.create_temporary_view("t", tables.from_changelog_stream(stream, schema, ChangelogMode.upsert()))
    found = collected(tables, "SELECT * FROM t")
    assert [(str(row.get_row_kind()), row.v) for row in found] == [("+I", 1), ("-U", 1), ("+U", 5), ("-D", 5)]


def test_a_job_of_tables_leaves_the_streams_alone(
    env: StreamExecutionEnvironment, tables: StreamTableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = env.from_collection(PAYMENTS, PAYMENT)
    stream.map(lambda row: row.card, Types.STRING()).print()
    tables.create_temporary_view("t", stream)
    assert len(collected(tables, "SELECT * FROM t")) == 3
    assert capsys.readouterr().out == ""
    env.execute()
    assert capsys.readouterr().out == "a\nb\na\n"


def test_timestamps_and_watermarks_of_a_stream() -> None:
    def build(harness: JobHarness) -> None:
        tables = StreamTableEnvironment.create(harness.env)
        stream = harness.add_source("bids", Types.ROW_NAMED(["item", "n"], [str, int]))
        schema = (
            Schema.new_builder()
            .column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")
            .column("item", "STRING")
            .column("n", "INT")
            .watermark("rowtime", "SOURCE_WATERMARK()")
            .build()
        )
        tables.create_temporary_view("bids", stream, schema)
        query = (
            "SELECT item, SUM(n), window_end FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(rowtime), INTERVAL '10' SECOND)) "
            "GROUP BY window_start, window_end, item"
        )
        harness.add_sink("out", tables.to_data_stream(tables.sql_query(query)))

    with JobHarness(build) as harness:
        harness.push_all("bids", [("tea", 1), ("tea", 2), ("rye", 3)], [1_000, 9_000, 12_000])
        harness.advance_watermark("bids", 10_000)
        harness.run_epoch()
        assert [tuple(row)[:2] for row in harness.take("out")] == [("tea", 3)]


def test_a_source_watermark_needs_a_stream() -> None:
    columns = "ts TIMESTAMP(3), WATERMARK FOR ts AS SOURCE_WATERMARK()"
    tables = TableEnvironment.create()
    tables.execute_sql(f"CREATE TABLE t ({columns}) WITH ('connector' = 'datagen')")
    with pytest.raises(PlanningError, match=r"SOURCE_WATERMARK\(\) is of tables of streams alone"):
        tables.execute_sql("SELECT * FROM t")
