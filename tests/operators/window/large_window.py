"""A window with very many records of one key, whose function goes through them twice; prints what it found, and how
many MiB the process took at most.

large_window.py FOLDER RECORDS
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.common import Configuration, Row, Types, WatermarkStrategy
from headrace.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource
from headrace.datastream.formats.parquet import ParquetFormat
from headrace.datastream.window import TimeWindow, TumblingEventTimeWindows

FILES = 10
TEXT = "x" * 90


class TwoPasses(ProcessWindowFunction[Row, Any, int, TimeWindow]):
    """How many records there are, how many characters, and of how many the number is below the mean."""

    def process(
        self, key: int, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Row]
    ) -> Iterator[Any]:
        count, total, characters = 0, 0, 0
        for element in elements:
            count, total, characters = count + 1, total + element[1], characters + len(element[2])
        yield count, characters, sum(element[1] < total / count for element in elements)


def write_records(folder: Path, records: int) -> None:
    """All of one key and one window, some in each file."""
    folder.mkdir()
    each = records // FILES
    texts = pa.array([f"{TEXT}{number:010}" for number in range(1_000)])
    for number in range(FILES):
        rows = np.arange(number * each, (number + 1) * each)
        columns = {
            "key": np.full(each, 7),
            "number": rows,
            "text": texts.take(pa.array(rows % len(texts))),
            "ts": pa.array(np.full(each, 5), pa.timestamp("ms", "UTC")),
        }
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=100_000)


def main(folder: Path, records: int) -> None:
    write_records(folder / "records", records)
    settings = {
        "headrace.runtime": "local",
        "headrace.epoch.max-records": str(records // FILES),
        "execution.checkpointing.dir": str(folder / "checkpoints"),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ts")
    source = FileSource.for_bulk_file_format(ParquetFormat(), folder / "records").build()
    found = (
        env.from_source(source, times, "records")
        .key_by("key")
        .window(TumblingEventTimeWindows.of(1_000))
        .process(TwoPasses(), Types.TUPLE([Types.LONG()] * 3))
        .uid("passes")
        .execute_and_collect(limit=2)
    )
    print(
        *(number for result in found for number in result), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
