"""Windows that a trigger in Python shows, beside PyFlink where it is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import flink
from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work
from benchmarks.truth import trigger_totals

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_KEYS = 10_000
_SHARE = 2
"""Epochs are smaller than others', so that PyFlink comes to its end in minutes."""
_FILES = 2
"""Enough for PyFlink, which does the work twice."""

_LIMIT = 10.0


def truth(source: Path, _: Mapping[str, float]) -> Mapping[str, float]:
    """Every tenth record of a window gives a result."""
    return trigger_totals(source)


class CountTriggerBenchmark:
    """How many times as fast as PyFlink, which calls Python in threads of its own process; nothing where it is not."""

    name = "count-trigger"
    title = "A count trigger and an AggregateFunction over one-minute tumbling windows"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        per_epoch = scale.per_epoch // _SHARE
        data = RandomKeys(scale.files, per_epoch, scale.choose(_KEYS, 100))
        try:
            rival = flink.count_trigger_contestant(data, _FILES)
        except flink.NoFlinkError as error:
            lab.say(f"skipped, PyFlink does not take part: {error}")
            return
        work = Work(data, per_epoch, truth)
        found = lab.race(work, [Contestant("headrace", "headrace_count_trigger"), rival], scale.rounds)
        yield Finding(
            self.name,
            f"{data.keys:,} int keys",
            found[rival.name].seconds / found["headrace"].seconds,
            "x",
            Target(_LIMIT, at_least=True),
            found,
            "times as fast as PyFlink",
        )
