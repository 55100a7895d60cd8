"""The last stage of a bounded job on Spark, which runs in the driver."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.common import Configuration, JobStatus, Types
from headrace.common.errors import InfrastructureError, JobCancelledError, UserFunctionError
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.exchange.envelope import Envelope, EnvelopeKind
from headrace.runtime.spark.runtime import DriverStage
from headrace.runtime.spark.shipping import PayloadWriter, files_in, make_folder, remove
from headrace.runtime.task.messages import SerializedJob
from headrace.storage.folder import posix_folder
from headrace.table import TableEnvironment
from tests.table.connectors.session import rows, session
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

"""Seconds after which a job hangs, also on a machine that has a lot else to do."""


def tables(folder: Path, runtime: str) -> TableEnvironment:
    made = session(is_streaming=False, **{"headrace.runtime": runtime, "parallelism.default": "2"})
    made.execute_sql(
        f"""CREATE TABLE pairs (k BIGINT, n BIGINT) WITH
        ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet')"""
    )
    return made


@pytest.mark.spark
def test_queries_give_what_they_give_elsewhere(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = range(30_000)
    pq.write_table(pa.table({"k": [each % 7 for each in numbers], "n": numbers}), tmp_path / "pairs.parquet")
    large: list[bool] = []
    run = DriverStage.run

    def seen(self: DriverStage, envelopes: list[Envelope], payloads: str | None) -> list[Envelope]:
        large.append(any(each.kind == EnvelopeKind.STORED for each in envelopes))
        return run(self, envelopes, payloads)

    monkeypatch.setattr(DriverStage, "run", seen)
    on_spark, here = tables(tmp_path, "spark"), tables(tmp_path, "local")
    for query in (
        "SELECT k, SUM(n) AS s, COUNT(*) AS c FROM pairs GROUP BY k ORDER BY k",
        "SELECT n, k FROM pairs WHERE k < 6 ORDER BY n DESC",
        "SELECT COUNT(*) FROM pairs WHERE n < 0",
    ):
        assert rows(on_spark, query) == rows(here, query)
    assert large == [False, True, False]


def numbers_through(function: Callable[[int], int]) -> StreamExecutionEnvironment:
    """A bounded job of two stages, the last of which has a function."""
    configuration = {"headrace.runtime": "spark", "parallelism.default": "2", "execution.runtime-mode": "BATCH"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(configuration))
    found = env.from_collection([1, 2, 3], Types.LONG()).global_().map(function, Types.LONG()).set_parallelism(1)
    found.sink_to(CollectSink(print)).set_parallelism(1)
    return env


def process(number: int) -> int:
    raise ValueError(f"in process {os.getpid()}")


@pytest.mark.spark
def test_an_error_of_a_function_is_told_as_elsewhere(spark: SparkSession) -> None:
    with pytest.raises(UserFunctionError, match=f"ValueError: in process {os.getpid()}"):
        numbers_through(process).execute("fails")


@pytest.mark.spark
def test_it_is_interrupted_when_the_job_is_cancelled(spark: SparkSession, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    def never_ends(number: int) -> int:
        mark.touch()
        while mark.exists():
            time.sleep(0.001)
        return number

    client = numbers_through(never_ends).execute_async("never ends")
    wait_for(mark.exists)
    client.cancel().result(timeout=PATIENCE)
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(timeout=PATIENCE)
    assert client.get_job_status().result() is JobStatus.CANCELED


def test_payloads_that_are_gone_are_a_fault_of_the_machine(tmp_path: Path) -> None:
    folder = make_folder(str(tmp_path))
    with PayloadWriter(folder, 3, 0) as writer:
        reference = writer.write(b"x")
        writer.complete()
    remove(files_in(folder))
    stage = DriverStage(SerializedJob(b"", "job", (1, 1), fresh_instances=False, storage=posix_folder(tmp_path)))
    with pytest.raises(InfrastructureError, match="cannot be read"):
        stage.run([Envelope(1, 0, 0, 0, 0, 0, 0, EnvelopeKind.STORED, reference)], folder)
