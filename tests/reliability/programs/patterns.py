"""Rules that change over a stream of events, with the faults of a plan.

patterns.py FOLDER PLAN RUNTIME PARALLELISM [BACKEND]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.common import Types, WatermarkStrategy
from headrace.common.time import Duration
from headrace.datastream import StreamExecutionEnvironment
from headrace.state import compaction
from headrace.state.backend import ROCKSDB_BACKEND
from headrace.state.runs import merging
from tests.reliability.support import canonical
from tests.reliability.support.doubles import DyingSink, use_dying_store
from tests.reliability.support.dying_tables import use_dying_tables
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.numbers import NumbersInSplits
from tests.reliability.support.patterns import COUNT, DISORDER, EPOCHS, RECORD, Line, Recorded, found_in, record_of

RULE_IDS = ("a", "b")


def main(folder: str, faults: str, runtime: str, parallelism: str, backend: str = "hashmap", **more: str) -> None:
    plan = FaultPlan(faults)
    use_dying_store(plan)
    with pytest.MonkeyPatch.context() as patch:
        if backend == ROCKSDB_BACKEND:
            use_dying_tables(Path(folder), plan, patch)
            for module in (merging, compaction):  # all that is merged is merged beside the epochs
                patch.setattr(module, "INLINE_ROWS", 0)
        run(folder, plan, runtime, parallelism, {"state.backend.type": backend, **more})


def run(folder: str, plan: FaultPlan, runtime: str, parallelism: str, more: Mapping[str, str]) -> None:
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
            **more,
        },
    )
    env = StreamExecutionEnvironment.get_execution_environment(settings).set_parallelism(int(parallelism))
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER))
    times = strategy.with_timestamp_assigner(lambda number, _: record_of(number)[2])
    numbers = env.from_source(NumbersInSplits(1, COUNT), times, "numbers").uid("numbers").set_parallelism(1)
    records = numbers.map(Recorded(plan), RECORD).uid("records").set_parallelism(1)
    events = records.filter(lambda record: record[0] not in RULE_IDS).uid("events").set_parallelism(1)
    changes = records.filter(lambda record: record[0] in RULE_IDS).uid("changes").set_parallelism(1)
    for name, found in found_in(events, changes).items():
        lines = found.map(Line(plan), Types.STRING()).uid(f"lines, {name}")
        lines.sink_to(DyingSink(canonical.row_sink(Path(folder) / "output" / name), plan)).uid(f"files, {name}")
    env.execute("patterns")


if __name__ == "__main__":
    main(*sys.argv[1:])
