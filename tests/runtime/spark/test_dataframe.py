"""DataFrames as sources and as results, with a real Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sql

from headrace.client import running
from headrace.client.running import submission_defaults
from headrace.common.configuration import Configuration
from headrace.common.errors import HeadraceError, UnsupportedOperationError
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.jobmanager.events import EpochStatistics, JobEvent
from headrace.jobmanager.status import JobSnapshot
from tests.docs.documents import DOCS, example

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS = 2_000


def stop_after_one_epoch(event: JobEvent, job: JobSnapshot) -> None:
    if isinstance(event, EpochStatistics):
        running.stop_all()


def environment(checkpoints: Path | None = None) -> StreamExecutionEnvironment:
    settings = {
        "parallelism.default": "2",
        "headrace.epoch.max-records": str(ROWS // 8),
        "headrace.epoch.target-duration": "60s",
    }
    if checkpoints is not None:
        settings["execution.checkpointing.dir"] = str(checkpoints)
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))


def by_chance(spark: SparkSession) -> DataFrame:
    """Other rows each time that it is evaluated."""
    return spark.range(0, ROWS, 1, 4).select("id", sql.rand().alias("chance"))


@pytest.mark.slow
def test_there_and_back(spark: SparkSession) -> None:
    rows = spark.range(0, 50, 1, 3).select("id", (sql.col("id") * 2).cast("double").alias("twice"))
    found = environment().from_dataframe(rows).filter(lambda row: row.id % 2 == 0).to_dataframe()
    assert sorted(tuple(row) for row in found.collect()) == [(number, number * 2.0) for number in range(0, 50, 2)]


def run(spark: SparkSession, checkpoints: Path, *, stop: bool = False) -> list[tuple[int, float]]:
    env = environment(checkpoints)
    collected: list[Any] = []
    env.from_dataframe(by_chance(spark)).uid("rows").sink_to(CollectSink(collected.extend)).uid("collected")
    with submission_defaults({}, stop_after_one_epoch if stop else None):
        env.execute()
    return [(row.id, row.chance) for row in collected]


@pytest.mark.slow
def test_it_is_evaluated_once_whatever_becomes_of_the_marker(spark: SparkSession, tmp_path: Path) -> None:
    first = run(spark, tmp_path, stop=True)
    (staged,) = (tmp_path / "sources").glob("rows-*/dataframe-*")
    written = {(row.id, row.chance) for row in spark.read.parquet(str(staged)).collect()}
    (staged / "_SUCCESS").unlink()
    rest = run(spark, tmp_path)
    assert 0 < len(first) < ROWS
    assert len(first) + len(rest) == ROWS
    assert {*first, *rest} == written


def test_rows_that_no_checkpoint_refers_to_are_not_taken_for_those_of_the_dataframe(
    spark: SparkSession, tmp_path: Path
) -> None:
    """They may be of another DataFrame, or half written by a job manager that was superseded."""
    run(spark, tmp_path, stop=True)
    (staged,) = (tmp_path / "sources").glob("rows-*/dataframe-*")
    before = {row.chance for row in spark.read.parquet(str(staged)).collect()}
    shutil.rmtree(tmp_path / "manifests")
    found = run(spark, tmp_path)
    assert sorted(number for number, _ in found) == list(range(ROWS))
    assert before.isdisjoint(chance for _, chance in found)


def test_staged_rows_that_were_changed_stop_the_job(spark: SparkSession, tmp_path: Path) -> None:
    run(spark, tmp_path, stop=True)
    (staged,) = (tmp_path / "sources").glob("rows-*/dataframe-*")
    files = sorted(staged.glob("*.parquet"))
    # A checkpoint knows a file by size and time, and tasks that end together write files of the same.
    assert len({file.stat().st_mtime_ns for file in files}) == len(files) == 4
    one, other = files[-2:]
    swapped = tmp_path / "swapped"
    shutil.move(one, swapped)
    shutil.move(other, one)
    shutil.move(swapped, other)
    with pytest.raises(HeadraceError, match=r"part-.*parquet"):
        run(spark, tmp_path)


def test_the_example_of_dataframes(spark: SparkSession) -> None:
    variables: dict[str, Any] = {"spark": spark}
    exec(example(DOCS / "connectors.md", "dataframes"), variables)
    rows = [(row.card, row.total) for row in variables["totals"].collect()]
    assert sorted(rows) == [("ann", 7.5), ("ann", 12.5), ("bob", 80.0)]


def test_the_example_of_a_streaming_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().select("value")
    variables: dict[str, Any] = {"stream": numbers, "folder": str(tmp_path)}
    exec(example(DOCS / "connectors.md", "streaming dataframe"), variables)
    try:
        found = []
        with variables["events"].execute_and_collect() as rows:
            for row in rows:
                found.append(row.value)
                if len(found) == 30:
                    break
    finally:
        variables["query"].stop()
    assert sorted(found) == list(range(30))


def test_a_streaming_dataframe_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UnsupportedOperationError, match=r"static DataFrames only\n.*docs/connectors.md, Spark DataF"):
        environment().from_dataframe(spark.readStream.format("rate").load())
