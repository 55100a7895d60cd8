"""Large epochs: the windows of a backlog, as many records at a time as Spark gets in one micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Lab, Work, best_rival
from benchmarks.suite.window import contestants, truth

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_CASES = ((10_000, 3.0), (1_000_000, 8.0))
"""Keys, and what is asked."""

_FILES = 5


class LargeEpochsBenchmark:
    """How many times as fast as the better one of Spark's stores; an epoch has all the events of other inputs."""

    name = "large-epochs"
    title = "One-minute tumbling windows, in epochs of 5,000,000 records"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        for keys, limit in _CASES:
            work = Work(RandomKeys(_FILES, scale.events, keys), scale.events, truth)
            here = contestants()
            found = lab.race(work, here, rounds=1)
            yield Finding(
                self.name,
                f"{keys:,} int keys, epochs of {scale.events:,}",
                best_rival(found, here).seconds / found["headrace"].seconds,
                "x",
                Target(limit, at_least=True),
                found,
                "times as fast as the better one of Spark's",
            )
