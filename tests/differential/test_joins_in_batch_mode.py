"""Joins of bounded streams in batch mode: right on both runtimes, and without state in the checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource
from headrace.datastream.formats.parquet import ParquetFormat
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.expressions import col, left, right
from headrace.jobmanager import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RECORDS, EPOCH = 20_000, 3_000
"""Of both streams together; and of the first epoch of other jobs."""
HALF = RECORDS // 2
RARE = 100
"""Only every so manieth number has a key with which it can be joined."""
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
COLUMNS = (left("number").alias("l"), right("number").alias("r"))


def write_records(folder: Path) -> None:
    """Numbers; those of the right stream are the upper half, each at the time of one of the left stream."""
    numbers = np.arange(RECORDS)
    keys = np.where(numbers % HALF % RARE == 0, numbers % HALF, numbers)
    times = pa.array(numbers % HALF, pa.timestamp("ms", "UTC"))
    pq.write_table(
        pa.table({"number": numbers, "key": keys, "ts": times}), folder / "records.parquet", row_group_size=1_000
    )


def smallest(lefts: list[Any], rights: list[Any]) -> Iterator[tuple[int, int]]:
    """The smallest number of each, where both have some."""
    if lefts and rights:
        yield min(record.number for record in lefts), min(record.number for record in rights)


def in_windows(joined: Any) -> Any:
    return joined.where("key").equal_to("key").window(TumblingEventTimeWindows.of(5_000))


JOINS = {
    "interval": lambda a, b: a.key_by("key").interval_join(b.key_by("key")).between(-5, 5).select(*COLUMNS),
    "window": lambda a, b: in_windows(a.join(b)).select(*COLUMNS),
    "co-group": lambda a, b: in_windows(a.co_group(b)).apply(smallest, PAIR),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("runtime", ["local", "spark"])
@pytest.mark.parametrize("kind", JOINS)
def test_no_state_is_written(
    kind: str, runtime: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(settings, "_IN_BATCH_MODE", settings._IN_BATCH_MODE._replace(first_records=EPOCH))
    (tmp_path / "input").mkdir()
    write_records(tmp_path / "input")
    configuration = {
        "headrace.runtime": runtime,
        "execution.runtime-mode": "BATCH",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "parallelism.default": "2",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(configuration))
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ts")
    source = FileSource.for_bulk_file_format(ParquetFormat(), tmp_path / "input").build()
    records = env.from_source(source, times, "records").uid("records")
    halves = records.filter(col("number") < HALF), records.filter(col("number") >= HALF)
    found: list[Any] = []
    JOINS[kind](*halves).uid("join").sink_to(CollectSink(found.extend)).uid("found")
    env.execute(kind)
    assert sorted(map(tuple, found)) == [(number, number + HALF) for number in range(0, HALF, RARE)]
    (manifest,) = (tmp_path / "checkpoints" / "manifests").glob("*.json")
    told = json.loads(manifest.read_text())
    assert (told["counters"]["numEpochs"], told["state_bytes"]) == (1, 0)
    assert not list((tmp_path / "checkpoints" / "state").iterdir())
