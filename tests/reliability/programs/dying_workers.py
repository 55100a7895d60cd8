"""A function with state and timers whose Python worker dies: in the midst of a record, of a timer, and at the end.

dying_workers.py FOLDER PLAN RUNTIME
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.common import Types, WatermarkStrategy
from headrace.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.state import ValueStateDescriptor
from tests.reliability.support import canonical
from tests.reliability.support.dying_workers import (
    COUNT,
    DYING_NUMBER,
    DYING_TIMER,
    EPOCHS,
    IN_A_RECORD,
    IN_A_TIMER,
    IN_CLOSE,
    KEYS,
    SPLITS,
    timestamp_of,
)
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.numbers import NumbersInSplits


class Dying(KeyedProcessFunction):
    """Numbers the records of each key, and sets a timer for each of them."""

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int]]:
        self._die_if(value == DYING_NUMBER, IN_A_RECORD)
        seen = (self._seen.value() or 0) + 1
        self._seen.update(seen)
        ctx.timer_service().register_event_time_timer(timestamp_of(value))
        yield value, seen

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[tuple[int, int]]:
        self._die_if(timestamp == DYING_TIMER, IN_A_TIMER)
        yield -timestamp, ctx.get_current_key()

    def close(self) -> None:
        self._die_if(True, IN_CLOSE)

    def _die_if(self, is_time: bool, point: str) -> None:
        if is_time and self._plan.strikes(point):
            os._exit(66)


def main(folder: str, faults: str, runtime: str) -> None:
    settings = canonical.configuration(
        Path(folder),
        **{
            "headrace.runtime": runtime,
            "headrace.spark.master": "local[2]",
            "headrace.epoch.max-records": str(COUNT * SPLITS // EPOCHS // 2),
            "headrace.epoch.target-duration": "60s",
        },
    )
    env = StreamExecutionEnvironment.get_execution_environment(settings).set_parallelism(2)
    strategy: Any = WatermarkStrategy.for_monotonous_timestamps()
    strategy = strategy.with_timestamp_assigner(lambda number, _: timestamp_of(number) - 1)
    numbers = env.from_source(NumbersInSplits(SPLITS, COUNT), strategy, "numbers").uid("numbers")
    keyed = numbers.key_by(lambda number: number % KEYS, Types.LONG())
    results = keyed.process(Dying(FaultPlan(faults)), Types.TUPLE([Types.LONG(), Types.LONG()])).uid("dying")
    results.sink_to(canonical.row_sink(Path(folder) / "output")).uid("files")
    env.execute("dying workers")


if __name__ == "__main__":
    main(*sys.argv[1:])
