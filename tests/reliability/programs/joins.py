"""Joins of every kind, and functions of two streams, over the same records, with the faults of a plan.

joins.py FOLDER PLAN RUNTIME PARALLELISM WAY...
"""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.common import Types, WatermarkStrategy
from headrace.common.time import Duration
from headrace.datastream import StreamExecutionEnvironment
from tests.reliability.support import canonical
from tests.reliability.support.doubles import DyingSink, use_dying_store
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.joins import (
    COUNT,
    DISORDER,
    EPOCHS,
    RECORD,
    WAYS,
    Line,
    Recorded,
    is_left,
    record_of,
)
from tests.reliability.support.numbers import NumbersInSplits


def main(folder: str, faults: str, runtime: str, parallelism: str, *ways: str) -> None:
    plan = FaultPlan(faults)
    use_dying_store(plan)
    settings = canonical.configuration(
        Path(folder),
        **{
            "headrace.runtime": runtime,
            "headrace.spark.master": "local[2]",
            "headrace.epoch.max-records": str(COUNT // EPOCHS),
            "headrace.epoch.target-duration": "60s",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "40",
            "restart-strategy.fixed-delay.delay": "100ms",
        },
    )
    env = StreamExecutionEnvironment.get_execution_environment(settings).set_parallelism(int(parallelism))
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER))
    times = strategy.with_timestamp_assigner(lambda number, _: record_of(number)[2])
    numbers = env.from_source(NumbersInSplits(1, COUNT), times, "numbers").uid("numbers").set_parallelism(1)
    records = numbers.map(Recorded(plan), RECORD).uid("records").set_parallelism(1)
    lefts = records.filter(lambda record: is_left(record[1])).uid("lefts").set_parallelism(1)
    rights = records.filter(lambda record: not is_left(record[1])).uid("rights").set_parallelism(1)
    for way in ways:
        lines = WAYS[way](lefts, rights).uid(way).map(Line(way, plan), Types.STRING()).uid(f"lines, {way}")
        lines.sink_to(DyingSink(canonical.row_sink(Path(folder) / "output" / way), plan)).uid(f"files, {way}")
    env.execute("joins")


if __name__ == "__main__":
    main(*sys.argv[1:])
