"""A join of two streams in which one key has half of all records; prints how many results there are, and how many MiB
the process took at most.

skewed_joins.py FOLDER KIND
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.programs.counting_sink import CountingSink
from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.datastream import DataStream, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource
from headrace.datastream.formats.parquet import ParquetFormat
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.expressions import left, right

RECORDS = 200_000
KEYS = 10_000
SPAN, NEAR, WINDOW = 250_000, 250, 500
"""Of all records, of the interval and of windows, in milliseconds."""

COLUMNS = (left("key").alias("key"), right("value").alias("value"))


def records_of(seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Keys and times of one stream."""
    chance = np.random.default_rng(seed)
    keys = np.where(chance.random(RECORDS) < 0.5, 0, chance.integers(1, KEYS, RECORDS))
    return keys, np.arange(RECORDS) * SPAN // RECORDS


def write_records(folder: Path, seed: int) -> None:
    """One stream as a file."""
    keys, times = records_of(seed)
    columns = {"key": keys, "value": np.arange(RECORDS), "ts": pa.array(times, pa.timestamp("ms", "UTC"))}
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "records.parquet", row_group_size=20_000)


def sizes(lefts: list[Any], rights: list[Any]) -> Any:
    """How many records of both there are."""
    yield len(lefts), len(rights)


JOINS = {
    "interval": lambda a, b: a.key_by("key").interval_join(b.key_by("key")).between(-NEAR, NEAR).select(*COLUMNS),
    "window": lambda a, b: windows(a.join(b)).select(*COLUMNS),
    "co-group": lambda a, b: windows(a.co_group(b)).apply(sizes, Types.TUPLE([Types.LONG(), Types.LONG()])),
}


def windows(two: Any) -> Any:
    """Both streams by key and window."""
    return two.where("key").equal_to("key").window(TumblingEventTimeWindows.of(WINDOW))


def main(folder: Path, kind: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"headrace.runtime": "local", "headrace.epoch.max-records": "50000"})
    )
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ts")
    streams: list[DataStream[Any]] = []
    for seed, name in enumerate(("left", "right")):
        write_records(folder / name, seed)
        source = FileSource.for_bulk_file_format(ParquetFormat(), folder / name).build()
        streams.append(env.from_source(source, times, name))
    sink = CountingSink()
    JOINS[kind](*streams).sink_to(sink)
    env.execute(kind)
    print(int(sink.totals["rows"]), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
