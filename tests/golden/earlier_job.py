"""A job whose checkpoints are converted to the format of the next version."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

from headrace.common import Time, Types
from headrace.datastream import KeyedProcessFunction
from headrace.datastream.aggregates import count, sum
from headrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.testing import JobHarness

PAIR: Final = Types.TUPLE([Types.STRING(), Types.LONG()])
WINDOW: Final = TumblingEventTimeWindows.of(Time.milliseconds(10_000))


class Totals(KeyedProcessFunction):
    """The total of each key, and what it was made of; a timer shows it."""

    def open(self, context: Any) -> None:
        self.total = context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.seen = context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.times = context.get_map_state(MapStateDescriptor("times", Types.LONG(), Types.LONG()))

    def process_element(self, pair: Any, ctx: Any) -> Any:
        total = (self.total.value() or 0) + pair[1]
        self.total.update(total)
        self.seen.add(pair[1])
        self.times.put(pair[1], (self.times.get(pair[1]) or 0) + 1)
        ctx.timer_service().register_event_time_timer(10_000)
        yield f"{pair[0]} {total}"

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        seen, times = list(self.seen.get()), sorted(self.times.items())
        yield f"{ctx.get_current_key()} ends with {self.total.value()} of {seen}, {times}"


def add(one: Any, other: Any) -> Any:
    """The amounts of both."""
    return one[0], one[1] + other[1]


def job(harness: JobHarness) -> None:
    """Totals, windows and a maximum."""
    keyed = harness.add_source("amounts", PAIR).key_by(lambda pair: pair[0], Types.STRING())
    harness.add_sink("totals", keyed.process(Totals(), Types.STRING()).uid("t"))
    harness.add_sink("reduced", keyed.window(WINDOW).reduce(add).uid("w"))
    harness.add_sink("counted", keyed.window(WINDOW).aggregate(count(), sum(1)).uid("c"))
    harness.add_sink("highest", keyed.max(1).uid("m"))


def left(directory: Path) -> Path:
    """The checkpoint directory of the job behind two epochs."""
    in_files = {"execution.checkpointing.data-inline-threshold": "0"}
    with JobHarness(job, parallelism=2, configuration=in_files) as harness:
        harness.push_all("amounts", [("a", 1), ("b", 2), ("a", 3)], [1, 2, 3])
        harness.run_epoch()
        harness.push_all("amounts", [("c", 5)], [4])
        harness.advance_watermark("amounts", 100)
        harness.run_epoch()
        kept = harness.checkpoint()
        shutil.copytree(kept.directory, directory, dirs_exist_ok=True)
    return directory
