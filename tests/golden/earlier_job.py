"""A job that the versions of headrace before 0.1.0 can run as well, to see what their checkpoints become.

Each format of manifests has an archive or two of what this job leaves, made in a checkout of a commit of that time:

=======================  ==================================================================
``format-2``             f29ba7b8^, before state inside manifests was compressed
``format-3``             50da4810^, before specs said which kinds of state there are
``format-4``             2b857dcd^, before state backends had names
``format-5``             2b857dcd, the first one with today's format
=======================  ==================================================================

That is ``git archive COMMIT src | tar x -C FOLDER`` and, in this folder,
``PYTHONPATH=FOLDER/src python -m earlier_job NAME BYTES``, where so many bytes of state may be in manifests.
"""

from __future__ import annotations

import sys
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


def main(name: str, threshold: str) -> None:
    """Run two epochs, and keep the checkpoint."""
    from archives import pack

    settings = {"execution.checkpointing.data-inline-threshold": threshold}
    with JobHarness(job, parallelism=2, configuration=settings) as harness:
        harness.push_all("amounts", [("a", 1), ("b", 2), ("a", 3)], [1, 2, 3])
        harness.run_epoch()
        harness.push_all("amounts", [("c", 5)], [4])
        harness.advance_watermark("amounts", 100)
        harness.run_epoch()
        kept = harness.checkpoint()
        print(pack(Path(kept.directory), name))


if __name__ == "__main__":
    main(*sys.argv[1:])
