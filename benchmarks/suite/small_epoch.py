"""What an epoch costs before any work: 200 records through one shuffle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Lab, Work, best_rival
from benchmarks.suite.window import contestants, truth

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

RECORDS = 200
_KEYS = 10_000
_MILLIS_PER_EPOCH = 5_000


class SmallEpochBenchmark:
    """What share of Spark's time an epoch takes."""

    name = "small-epoch"
    title = "Small epochs: 200 records through one shuffle into one-minute windows"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        warm_up, counted = scale.choose(120, 3), scale.choose(100, 9)
        files = warm_up + counted + 1
        data = RandomKeys(files, RECORDS, _KEYS, span_millis=files * _MILLIS_PER_EPOCH, row_groups=1)
        work = Work(data, RECORDS, truth, warm_up=warm_up, counted=counted)
        here = contestants("long", phases=True)
        found = lab.race(work, here, scale.rounds)
        yield Finding(
            self.name,
            f"{RECORDS} records an epoch",
            found["headrace"].seconds / best_rival(found, here).seconds,
            "x",
            Target(0.8, at_least=False),
            found,
            "of the time that the better one of Spark's takes",
        )
