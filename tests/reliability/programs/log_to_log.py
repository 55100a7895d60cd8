"""Numbers the records of a topic of the embedded log, and writes them into another one, exactly once.

log_to_log.py FOLDER RUNTIME PARALLELISM PLAN
"""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.common import SimpleStringSchema, Types, WatermarkStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.log import LogSource, OffsetsInitializer
from tests.reliability.support import canonical
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.killed_logs import COUNT, DRIVER, KEYS, DyingLogSink, Numbering, end_at_steps


def main(where: str, runtime: str, tasks: str, faults: str) -> None:
    folder, parallelism, plan = Path(where), int(tasks), FaultPlan(faults)
    settings = canonical.configuration(
        folder,
        **{
            "headrace.runtime": runtime,
            "headrace.spark.master": "local[2]",
            "headrace.epoch.max-records": str(COUNT // 20 // parallelism),
            "headrace.epoch.target-duration": "60s",
        },
    )
    env = StreamExecutionEnvironment.get_execution_environment(settings).set_parallelism(parallelism)
    source = (
        LogSource.builder()
        .set_log(folder / "log")
        .set_topics("in")
        .set_group_id("numbering")
        .set_starting_offsets(OffsetsInitializer.earliest())
        .set_bounded(OffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    texts = env.from_source(source, WatermarkStrategy.no_watermarks(), "in").uid("in")
    numbers = texts.map(int, Types.LONG()).uid("numbers")
    numbered = numbers.key_by(lambda number: number % KEYS, Types.LONG()).process(Numbering(), Types.STRING())
    numbered.uid("numbering").sink_to(DyingLogSink(folder, plan, in_tasks=runtime == "spark")).uid("out")
    end_at_steps(plan, DRIVER)
    env.execute("from log to log")


if __name__ == "__main__":
    main(*sys.argv[1:])
