"""Tables that programs define by descriptors, elements and DataFrames, as PyFlink's examples do."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Row
from headrace.common.config_options import ConfigOptions
from headrace.common.errors import HeadraceError, InvalidTypeError
from headrace.table import DataTypes, FormatDescriptor, Schema, TableDescriptor, TableEnvironment
from tests.table.connectors.session import rows, session

WORDS = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.TINYINT()), DataTypes.FIELD("word", DataTypes.STRING())])


def found(tables: TableEnvironment, table: Any) -> list[tuple[Any, ...]]:
    tables.drop_temporary_view("given")
    tables.create_temporary_view("given", table)
    return rows(tables, "SELECT * FROM given")


def test_words_are_counted_from_a_descriptor_into_another(tmp_path: Path) -> None:
    tables = session()
    numbers = Schema.new_builder().column("n", DataTypes.BIGINT()).column("word", DataTypes.STRING()).build()
    source = TableDescriptor.for_connector("datagen").schema(numbers).option("number-of-rows", 3)
    for key, value in {"kind": "sequence", "start": 1, "end": 3}.items():
        source.option(f"fields.n.{key}", value)
    tables.create_temporary_table("source", source.build())
    csv = FormatDescriptor.for_format("csv").option("field-delimiter", ";").build()
    sink = TableDescriptor.for_connector("filesystem").option("path", str(tmp_path)).format(csv)
    written = Schema.new_builder().column("n", "BIGINT").column("twice", DataTypes.INT()).build()
    tables.create_temporary_table("sink", sink.schema(written).build())
    tables.sql_query("SELECT n, CAST(n * 2 AS INT) AS twice FROM source").execute_insert("sink").wait()
    tables.create_statement_set().add_insert(sink.build(), tables.sql_query("SELECT 7 AS n, 8 AS d")).execute().wait()
    lines = [line for file in tmp_path.iterdir() if file.is_file() for line in file.read_text().split()]
    assert sorted(lines) == ["1;2", "2;4", "3;6", "7;8"]
    assert sorted(found(tables, tables.from_descriptor(sink.build()))) == [(1, 2), (2, 4), (3, 6), (7, 8)]
    assert tables.list_temporary_tables() == ["given", "sink", "source"]


def test_a_descriptor_is_the_definition_of_a_table() -> None:
    tables = session()
    schema = Schema.new_builder().column("it's", "INT").column("day", "DATE").build()
    json = FormatDescriptor.for_format("json").option("ignore-parse-errors", True).build()
    value_format = ConfigOptions.key("value.format").string_type().no_default_value()
    described = (
        TableDescriptor.for_connector("filesystem")
        .schema(schema)
        .option("path", "/a")
        .format(json)
        .format(FormatDescriptor.for_format("csv").option("null-literal", "'").build(), value_format)
        .partitioned_by("day")
        .comment("what it's")
        .build()
    )
    assert described.get_options()["value.csv.null-literal"] == "'"
    assert described.get_partition_keys() == ["day"]
    tables.create_table("t", described)
    tables.create_table("t", described, True)
    (text,) = rows(tables, "SHOW CREATE TABLE t")[0]
    assert "`it's` INT" in text
    assert "COMMENT 'what it''s'\nPARTITIONED BY (`day`)\nWITH (" in text
    assert "'json.ignore-parse-errors' = 'true'" in text
    with pytest.raises(HeadraceError, match="already exists"):
        tables.create_table("t", described)
    with pytest.raises(HeadraceError, match="has no schema"):
        tables.create_table("u", TableDescriptor.for_connector("print").build())
    assert {described, replace(described)} == {described}


@pytest.mark.parametrize(
    ("elements", "schema", "columns", "expected"),
    [
        ([(1, "Hi"), (2, None)], None, "_1 BIGINT, _2 STRING", [(1, "Hi"), (2, None)]),
        ([(1, "Hi"), [2, "Ho"]], ["id", "word"], "id BIGINT, word STRING", [(1, "Hi"), (2, "Ho")]),
        ([Row(id=1, word="Hi")], None, "id BIGINT, word STRING", [(1, "Hi")]),
        ([{"id": 1, "word": "Hi"}], None, "id BIGINT, word STRING", [(1, "Hi")]),
        ([(1, "Hi")], WORDS, "id TINYINT, word STRING", [(1, "Hi")]),
        ([1, 2], DataTypes.INT(), "value INT", [(1,), (2,)]),
        ([], WORDS, "id TINYINT, word STRING", []),
        ([(Decimal("1.50"),), (None,)], ["d"], "d DECIMAL(38, 18)", [(Decimal("1.50"),), (None,)]),
        ([(datetime(2024, 2, 29, 1),)], ["t"], None, [(datetime(2024, 2, 29, 1),)]),
        ([([1, 2], {"a": 1.5})], ["l", "m"], "l ARRAY<BIGINT>, m MAP<STRING, DOUBLE>", [([1, 2], {"a": 1.5})]),
    ],
)
def test_elements(elements: list[Any], schema: Any, columns: str | None, expected: list[Any]) -> None:
    tables = session()
    table = tables.from_elements(elements, schema)
    assert found(tables, table) == expected
    if columns is not None:
        assert ", ".join(f"{each.name} {each.type}" for each in table.get_resolved_schema()) == columns


def test_elements_are_inserted_by_a_job_that_has_a_result(tmp_path: Path) -> None:
    tables = session(
        "CREATE TABLE results (a BIGINT, b STRING, c STRING) WITH ('connector' = 'filesystem', 'format' = 'csv', "
        f"'path' = '{tmp_path}')"
    )
    inserted = tables.from_elements([(1, "Hi", "Hello")], ["a", "b", "c"]).execute_insert("results")
    client = inserted.get_job_client()
    assert client is not None
    result = client.get_job_execution_result().result()
    assert result.get_job_id() == client.get_job_id()
    assert result.get_net_runtime() >= 0
    assert result.get_all_accumulator_results()["numRecordsRead"] == 1
    assert result.get_accumulator_result("accumulator") is None
    assert rows(tables, "SELECT * FROM results") == [(1, "Hi", "Hello")]


def test_elements_that_do_not_fit_are_refused() -> None:
    tables = session()
    with pytest.raises(InvalidTypeError, match="300"):
        tables.from_elements([(300, "Hi")], WORDS)
    with pytest.raises(InvalidTypeError, match="do not tell the type of column _2: give a schema"):
        tables.from_elements([(1, "Hi"), (2, 3)])
    with pytest.raises(InvalidTypeError, match="1 names for 2 columns"):
        tables.from_elements([(1, "Hi")], ["id"])
    with pytest.raises(InvalidTypeError, match="give tuples of the same length, or a schema"):
        tables.from_elements([1, 2])


def test_a_dataframe_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    tables = session()
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None]})
    assert found(tables, tables.from_pandas(frame)) == [(1, "x"), (2, None)]
    named = tables.from_pandas(frame, ["n", "s"])
    assert named.get_resolved_schema().names == ("n", "s")
    typed = tables.from_pandas(frame, [DataTypes.TINYINT(), DataTypes.STRING()])
    assert [str(each.type) for each in typed.get_resolved_schema()] == ["TINYINT", "STRING"]
    assert typed.to_pandas().equals(frame.astype({"a": "int8"}))
    assert found(tables, tables.from_pandas(frame[:0], WORDS)) == []
    with pytest.raises(InvalidTypeError, match="does not fit the schema"):
        tables.from_pandas(frame, [DataTypes.TINYINT(), DataTypes.DATE()])
    with pytest.raises(InvalidTypeError, match="takes a DataFrame of pandas"):
        tables.from_pandas([(1, "x")])
