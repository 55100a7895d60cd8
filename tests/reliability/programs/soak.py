"""Goes on for ever, with keys that come once and expire, windows, timers and savepoints: soak.py FOLDER RUNTIME.

A savepoint is taken now and then, and disposed of when there is another one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from headrace.client.job_client import JobClient
from headrace.common import Configuration, Time, Types, WatermarkStrategy
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.aggregates import count
from headrace.datastream.state import MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.savepoint.disposal import dispose
from headrace.storage.locations import open_storage
from tests.reliability.support.canonical import row_sink

A_SECOND = 5_000
OF_A_KEY = 4
LIFE = 10_000
"""Milliseconds that state lives."""

BETWEEN_SAVEPOINTS = 10.0


class Seen(KeyedProcessFunction):
    """Numbers the records of each key in state that expires, and says now and then that all of them have come."""

    def open(self, runtime_context: RuntimeContext) -> None:
        lives = StateTtlConfig.new_builder(Time.milliseconds(LIFE)).build()
        seen = ValueStateDescriptor("seen", Types.LONG())
        numbers = MapStateDescriptor("numbers", Types.LONG(), Types.STRING())
        for descriptor in (seen, numbers):
            descriptor.enable_time_to_live(lives)
        self.seen, self.numbers = runtime_context.get_state(seen), runtime_context.get_map_state(numbers)

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        self.seen.update((self.seen.value() or 0) + 1)
        self.numbers.put(value, "x" * 50)
        ctx.timer_service().register_event_time_timer(value // OF_A_KEY + 1000)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        if ctx.get_current_key() % 1000 == 0:
            yield f"{ctx.get_current_key()} {self.seen.value()}"


def main(folder: str, runtime: str) -> None:
    root = Path(folder)
    settings = {
        "headrace.runtime": runtime,
        "headrace.spark.master": "local[2]",
        "parallelism.default": "2",
        "execution.checkpointing.dir": str(root / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(root / "savepoints"),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    source = DataGeneratorSource(int, 1 << 40, RateLimiterStrategy.per_second(A_SECOND), Types.LONG())
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number // OF_A_KEY)
    keyed = env.from_source(source, times, "numbers").uid("numbers").key_by(lambda n: n // OF_A_KEY, Types.LONG())
    seen = keyed.process(Seen(), Types.STRING()).uid("seen")
    windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(5))).aggregate(count()).uid("windows")
    rare = windows.filter(lambda row: row[0] % 1000 == 0).map(str, Types.STRING())
    seen.union(rare).sink_to(row_sink(str(root / "out"))).uid("out")
    take_savepoints(env.execute_async("soak"))


def take_savepoints(client: JobClient) -> None:
    """One after the other, for ever."""
    before = None
    while True:
        for format_type in ("canonical", "native"):
            time.sleep(BETWEEN_SAVEPOINTS)
            taken = client.trigger_savepoint(format_type=format_type).result()
            print("savepoint", taken, flush=True)
            if before is not None:
                dispose(open_storage(before), partial(open_storage))
            before = taken


if __name__ == "__main__":
    main(*sys.argv[1:])
