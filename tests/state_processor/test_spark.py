"""State from and to DataFrames of Spark, and jobs on Spark that begin with savepoints that were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from headrace.common import Types
from headrace.common.errors import InvalidProgramError, InvalidTypeError, SavepointError
from headrace.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from headrace.savepoint.metadata import read_metadata
from headrace.state_processor import OperatorTransformation, SavepointReader, SavepointWriter, StateTables
from headrace.storage.folder import posix_folder
from tests.savepoint.jobs import DEADLINE, Place, start, wait_for_records
from tests.state_processor.every_state import Mean
from tests.state_processor.test_bootstrap import Totals

pytestmark = pytest.mark.spark

TOTAL = ValueStateDescriptor("total", Types.LONG())
KEYS = 1000


@pytest.fixture
def numbers(spark: SparkSession) -> DataFrame:
    """The numbers below a thousand, in four parts."""
    return spark.range(0, KEYS, 1, 4)


@pytest.fixture
def totals(numbers: DataFrame) -> StateTables:
    values = numbers.select(sql.format_string("k%d", "id").alias("key"), (numbers.id * 10).alias("value"))
    timers = numbers.select(sql.format_string("k%d", "id").alias("key"), (numbers.id + 20_000).alias("time"))
    return OperatorTransformation.from_tables(Types.STRING()).with_state(TOTAL, values).with_timers(timers)


def files_of(path: str) -> list[str]:
    return [file.path for file in read_metadata(posix_folder(Path(path))).tables]


def goes_on(place: Place, savepoint: str, settings: dict[str, str | None]) -> list[str]:
    more: dict[str, str | None] = {"execution.state-recovery.path": savepoint}
    client = start(place, "job", 3, settings=more | settings)
    wait_for_records(client, 1)
    client.stop(drain=True).result(DEADLINE)
    client.get_job_execution_result().result(DEADLINE)
    return place.lines("out-job")


def test_tables_of_dataframes(tmp_path: Path, totals: StateTables) -> None:
    """They are written by tasks: the files of each are of its keys alone, and a job finds them."""
    path = SavepointWriter.new_savepoint().with_operator("totals", totals).write(f"{tmp_path}/first")
    assert len(files_of(path)) == 4, "of two tasks, values and timers"
    read = {
        row["key"]: row["value"] for row in SavepointReader.read(path).read_keyed_state("totals", "total").to_pylist()
    }
    assert read == {f"k{key}": 10 * key for key in range(KEYS)}
    place = Place(tmp_path)
    place.write("a", {7: 1})
    lines = goes_on(place, path, {"headrace.runtime": "spark"})
    assert "k7 71" in lines
    ends = {line for line in lines if "ends with" in line and int(line.split()[-1]) >= 20_000}
    assert ends == {f"k{key} ends with {10 * key + (key == 7)} at {20_000 + key}" for key in range(KEYS)}


def test_all_kinds_of_state(tmp_path: Path, numbers: DataFrame) -> None:
    keyed = numbers.select((numbers.id % 10).alias("key"), numbers.id.alias("value"))
    entries = keyed.withColumn("entry_key", sql.format_string("e%d", "value"))
    sums = keyed.groupBy("key").agg(sql.struct(sql.sum("value").alias("f0"), sql.count("*").alias("f1")).alias("value"))
    words = numbers.select(sql.format_string("w%d", "id").alias("value"))
    rules = words.select(words.value.alias("entry_key"), sql.lit(1).alias("value"))
    mean = AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))
    timers = keyed.select("key", keyed.value.alias("time"), sql.lit("processing").alias("domain"))
    state = (
        OperatorTransformation.from_tables(Types.LONG())
        .with_state(ListStateDescriptor("list", Types.LONG()), keyed)
        .with_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()), entries)
        .with_state(mean, sums)
        .with_list_state(ListStateDescriptor("words", Types.STRING()), words)
        .with_union_state(ListStateDescriptor("union", Types.STRING()), words)
        .with_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LONG()), rules)
        .with_timers(timers)
    )
    reader = SavepointReader.read(
        SavepointWriter.new_savepoint(8).with_operator("it", state).write(f"{tmp_path}/first")
    )
    lists: dict[int, list[int]] = {}
    for row in reader.read_keyed_state("it", "list").to_pylist():
        lists.setdefault(row["key"], []).append(row["value"])
    assert lists == {key: [*range(key, KEYS, 10)] for key in range(10)}, "in the order of the DataFrame"
    assert reader.read_keyed_state("it", "map").num_rows == KEYS
    means = reader.read_keyed_state("it", "mean").sort_by("key").column("value").to_pylist()
    assert means[3] == {"f0": sum(range(3, KEYS, 10)), "f1": KEYS // 10}
    assert sorted(reader.read_list_state("it", "words").column("value").to_pylist()) == sorted(
        f"w{number}" for number in range(KEYS)
    )
    assert (
        reader.read_union_state("it", "union").num_rows == reader.read_broadcast_state("it", "rules").num_rows == KEYS
    )
    assert set(reader.read_timers("it").column("domain").to_pylist()) == {"processing"}


def test_records_of_a_dataframe_by_a_function(tmp_path: Path, numbers: DataFrame) -> None:
    orders = numbers.select(sql.format_string("k%d", numbers.id % 5).alias("user"), numbers.id.alias("amount"))
    records = OperatorTransformation.bootstrap_with(orders).key_by(lambda order: order["user"], Types.STRING())
    writer = SavepointWriter.new_savepoint(8).with_operator("totals", records.transform(Totals()))
    reader = SavepointReader.read(writer.write(f"{tmp_path}/first"))
    totals = {row["key"]: row["value"] for row in reader.read_keyed_state("totals", "total").to_pylist()}
    assert totals == {f"k{key}": sum(range(key, KEYS, 5)) for key in range(5)}
    assert reader.read_timers("totals").num_rows == 10


def test_a_dataframe_says_itself_what_its_records_are(numbers: DataFrame) -> None:
    with pytest.raises(InvalidProgramError, match=r"leave out type_info, and give columns other names"):
        OperatorTransformation.bootstrap_with(numbers, Types.ROW_NAMED(["id"], [int]))


def test_states_are_read_as_dataframes(tmp_path: Path, spark: SparkSession, totals: StateTables) -> None:
    """Of savepoints and of checkpoint directories alike; a state is repaired by Spark."""
    path = SavepointWriter.new_savepoint().with_operator("totals", totals).write(f"{tmp_path}/first")
    read = SavepointReader.read(path).to_dataframe(spark, "totals", "state/total")
    assert read.columns == ["key", "value"]
    repaired = read.withColumn("value", sql.when(read.key == "k7", 1).otherwise(read.value))
    writer = SavepointWriter.from_existing_savepoint(path).replace_table("totals", "state/total", repaired)
    second = writer.write(f"{tmp_path}/second")
    place = Place(tmp_path)
    place.write("a", {7: 1})
    client = start(place, "job", 2, settings={"execution.state-recovery.path": second})
    wait_for_records(client, 1)
    client.stop().result(DEADLINE)
    state = SavepointReader.read(str(tmp_path / "job")).to_dataframe(spark, "totals", "state/total")
    assert state.filter("key = 'k7'").select("value").collect() == [(2,)]
    assert state.count() == KEYS


@pytest.mark.parametrize("name", ["[ab]", "{a,b}", "*", "with space, ä:b, 100%, a\\b?"])
def test_a_savepoint_whose_path_looks_like_a_pattern(tmp_path: Path, spark: SparkSession, name: str) -> None:
    """Nothing of another one that would fit is read."""
    for value, folder in enumerate((name, "a")):
        rows = {"key": ["k"], "value": [value]}
        tables = OperatorTransformation.from_tables(Types.STRING()).with_state(TOTAL, rows)
        SavepointWriter.new_savepoint().with_operator("totals", tables).write(tmp_path / folder)
    reader = SavepointReader.read(tmp_path / name)
    assert reader.to_dataframe(spark, "totals", "state/total").collect() == [("k", 0)]


@pytest.mark.slow
def test_rows_of_a_dataframe_that_are_no_state(tmp_path: Path, numbers: DataFrame) -> None:
    """Tasks find them; what is told is what they are."""

    def refused(descriptor: Any, data: DataFrame, told: str) -> None:
        tables = OperatorTransformation.from_tables(Types.LONG()).with_state(descriptor, data)
        with pytest.raises(SavepointError, match=told):
            SavepointWriter.new_savepoint().with_operator("totals", tables).write(f"{tmp_path}/first")
        assert not any(file.is_file() for file in tmp_path.rglob("*"))

    twice = numbers.select((numbers.id % 999).alias("key"), numbers.id.alias("value"))
    refused(TOTAL, twice, r"operator 'totals': value state 'total': row \d+ has the key of an earlier row: {'key': 0}")
    nulls = numbers.select(numbers.id.alias("key"), sql.nullif(numbers.id, sql.lit(7)).alias("value"))
    refused(TOTAL, nulls, r"operator 'totals': value state 'total': row \d+: 'value' is null")
    texts = numbers.select(numbers.id.alias("key"), sql.format_string("%d", "id").alias("value"))
    refused(TOTAL, texts, "operator 'totals': value state 'total': a column of type string cannot be read as int64")
    with pytest.raises(SavepointError, match="it takes no column 'id', but"):
        OperatorTransformation.from_tables(Types.LONG()).with_state(TOTAL, numbers)


def test_streaming_dataframes_are_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("value as key", "value")
    with pytest.raises(InvalidTypeError, match="value state 'total': expected a static DataFrame, not a streaming one"):
        OperatorTransformation.from_tables(Types.LONG()).with_state(TOTAL, stream)
