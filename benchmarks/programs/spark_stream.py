"""A Structured Streaming query over the input: the session, the source, the run and what it says about itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession

from benchmarks.outcome import Assignment, Epoch, Outcome, medians
from headrace.common.java import bundled_java_home, find_java

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHECKS = "checks"

STORES: dict[str, dict[str, str]] = {
    "hdfs": {},
    "rocksdb": {
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    },
}
"""Spark's settings for each of its two state stores."""


def open_session(work: Path, settings: Mapping[str, str]) -> SparkSession:
    """A session on two cores, with what is best for Spark: much memory, two partitions, Unix sockets, no UI."""
    os.environ["JAVA_HOME"] = str(find_java(os.environ, bundled_java_home()).home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    chosen = {
        "spark.master": "local[2]",
        "spark.driver.memory": "6g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={work / 'tmp'}",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **settings,
    }
    session = SparkSession.builder.config(map={**chosen}).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def read_files(session: SparkSession, assignment: Assignment) -> DataFrame:
    """The input as a stream, one file a micro-batch."""
    key = assignment.options.get("key_type", "long")
    reader = session.readStream.schema(f"key {key}, ts timestamp, value double").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(assignment.input))


def run_to_the_end(results: DataFrame, mode: str, checks: Mapping[str, Column], work: Path) -> Outcome:
    """Run a query into the sink that drops everything, over all that there is.

    Args:
        results: the query.
        mode: its output mode.
        checks: what to sum up of the results, by name; names with ``last`` and ``highest`` are maxima.
        work: where the checkpoint goes.
    """
    columns = [column.alias(name) for name, column in checks.items()]
    writer = results.observe(_CHECKS, *columns).writeStream.format("noop").outputMode(mode)
    query = writer.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    batches = query.recentProgress
    read = [batch for batch in batches if batch["numInputRows"]]
    times = [{name: millis / 1000 for name, millis in batch["durationMs"].items()} for batch in read]
    observed = [row.asDict() for batch in batches if (row := batch["observedMetrics"].get(_CHECKS)) is not None]
    return Outcome(
        tuple(Epoch(batch["numInputRows"], time["triggerExecution"]) for batch, time in zip(read, times, strict=True)),
        combine(observed),
        {"seconds": medians(times[len(times) // 2 :])},
    )


def combine(parts: list[dict[str, float | None]]) -> dict[str, float]:
    """The totals of several batches made one."""
    totals: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            if value is not None:
                before = totals.get(name, 0.0)
                totals[name] = max(before, float(value)) if is_maximum(name) else before + float(value)
    return totals


def is_maximum(name: str) -> bool:
    """Whether a total is a maximum; all others are sums."""
    return name.startswith(("last", "highest"))
