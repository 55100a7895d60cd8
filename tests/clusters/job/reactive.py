"""The totals of the other job, at the parallelism that the cluster offers; it ends when somebody says so.

reactive.py FOLDER
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from totals import KEYS, Totals

from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSink
from headrace.datastream.formats.csv import CsvEncoder

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
RATE = 200.0
WAIT = "jobmanager.adaptive-scheduler.executing"


def main(folder: Path) -> None:
    configuration = Configuration.from_dict(
        {
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "scheduler-mode": "reactive",
            f"{WAIT}.resource-stabilization-timeout": "2 s",
            f"{WAIT}.cooldown-after-rescaling": "0 s",
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(RATE), Types.LONG())
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    totals = numbers.key_by(lambda number: number % KEYS, Types.LONG()).process(Totals(), PAIR).uid("totals")
    totals.sink_to(FileSink.for_row_format(str(folder / "out"), CsvEncoder()).build()).uid("out")
    client = env.execute_async("reactive")
    result = client.get_job_execution_result()
    while not result.done() and not (folder / "enough").exists():
        time.sleep(0.1)
    client.stop().result()
    result.result()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
