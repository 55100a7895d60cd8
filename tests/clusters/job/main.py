"""Totals by key of numbers, as a job that somebody packages for a cluster; an executor dies on the way.

main.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from totals import KEYS, NUMBERS, Totals, die_once

from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSink
from headrace.datastream.connectors.number_seq import NumberSequenceSource
from headrace.datastream.formats.csv import CsvEncoder

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


def main(folder: Path) -> None:
    configuration = Configuration.from_dict(
        {
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "headrace.epoch.max-records": "100",
            "headrace.epoch.target-duration": "60s",
            "parallelism.default": "2",
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    numbers = env.from_source(NumberSequenceSource(1, NUMBERS), WatermarkStrategy.no_watermarks(), "numbers")
    totals = (
        numbers.uid("numbers")
        .map(lambda number: die_once(number, folder), Types.LONG())
        .key_by(lambda number: number % KEYS, Types.LONG())
        .process(Totals(), PAIR)
        .uid("totals")
    )
    totals.sink_to(FileSink.for_row_format(str(folder / "out"), CsvEncoder()).build()).uid("out")
    env.execute("totals")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
