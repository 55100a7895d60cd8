"""Windows of many kinds over the same records, with the faults of a plan.

window_paths.py FOLDER PLAN RUNTIME PARALLELISM WAY...
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

from headrace.common import Types
from headrace.datastream import DataStream, StreamExecutionEnvironment
from tests.invariance.window_programs import ELEMENT, LATE
from tests.reliability.support import canonical
from tests.reliability.support.doubles import DyingSink, use_dying_store
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.numbers import NumbersInSplits
from tests.reliability.support.window_paths import COUNT, EPOCHS, Line, Record, program, record_of


def main(folder: str, faults: str, runtime: str, parallelism: str, *ways: str) -> None:
    warnings.simplefilter("ignore")  # some ways are asked for what has no effect on them
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
    strategy: Any = program(ways[0]).times.strategy
    strategy = strategy.with_timestamp_assigner(lambda number, _: record_of(number)["time"])
    numbers = env.from_source(NumbersInSplits(1, COUNT), strategy, "numbers").uid("numbers").set_parallelism(1)
    records = numbers.map(Record(plan), ELEMENT).uid("records").set_parallelism(1)
    for way in ways:
        _add(way, records, Path(folder), plan)
    env.execute("windows")


def _add(way: str, records: DataStream[Any], folder: Path, plan: FaultPlan) -> None:
    chosen = program(way)
    results = chosen.results(records).uid(f"windows, {way}")
    lines = results.map(Line(way, plan), Types.STRING()).uid(f"lines, {way}")
    streams = [results, lines]
    if chosen.function.tells_late:
        late = results.get_side_output(LATE).map(lambda record: str(tuple(record)), Types.STRING())
        late.uid(f"late, {way}").sink_to(canonical.row_sink(folder / "late" / way)).uid(f"late files, {way}")
        streams.append(late)
    if not chosen.function.is_of_keys:
        for stream in streams:
            stream.set_parallelism(1)
    lines.sink_to(DyingSink(canonical.row_sink(folder / "output" / way), plan)).uid(f"files, {way}")


if __name__ == "__main__":
    main(*sys.argv[1:])
