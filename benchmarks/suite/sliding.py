"""Sliding windows of sixty slides: count and sum, beside Spark's own operator and beside tumbling windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work, best_rival
from benchmarks.suite.window import STORES
from benchmarks.suite.window import truth as tumbling_truth
from benchmarks.truth import sliding_totals

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_SLIDING = {"windows": "sliding"}
_TUMBLING = "headrace, tumbling"
_TIMES_SPARKS = 5.0
_TIMES_TUMBLING = 2.5


@dataclass(frozen=True, slots=True)
class _Case:
    """Keys, and what Spark can do with them.

    Attributes:
        keys: how many there are.
        share: an epoch has one in so many of the usual number of records: each becomes sixty rows of Spark's state.
        files: how many are enough for Spark (the first is warm-up).
        stores: those of its state stores that hold it in six gigabytes.
    """

    keys: int
    share: int
    files: int
    stores: tuple[str, ...]


_CASES = (_Case(10_000, 1, 4, ("hdfs", "rocksdb")), _Case(1_000_000, 5, 3, ("rocksdb",)))


def truth(source: Path, found: Mapping[str, float]) -> Mapping[str, float]:
    """Each is judged by the last window that it has closed."""
    return sliding_totals(source, found.get("last_end", 0))


class SlidingBenchmark:
    """How many times as fast as Spark, and how many times the time of a minute's tumbling windows of headrace's own."""

    name = "sliding"
    title = "Windows of a minute that slide by a second: count and sum for each key"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        for case in _CASES:
            records = scale.per_epoch // case.share
            work = Work(RandomKeys(scale.files, records, case.keys), records, truth)
            here = [
                Contestant("headrace", "headrace_window", _SLIDING),
                Contestant(_TUMBLING, "headrace_window", truth=tumbling_truth),
                *(
                    Contestant(STORES[store], "spark_window", {"store": store, **_SLIDING}, files=case.files)
                    for store in case.stores
                ),
            ]
            found = lab.race(work, here, scale.rounds)
            name = f"{case.keys:,} int keys"
            yield Finding(
                self.name,
                name,
                best_rival(found, here).seconds / found["headrace"].seconds,
                "x",
                Target(_TIMES_SPARKS, at_least=True),
                found,
                "times as fast as the better one of Spark's",
            )
            yield Finding(
                self.name,
                f"{name}, beside tumbling windows",
                found["headrace"].mean_seconds / found[_TUMBLING].mean_seconds,
                "x",
                Target(_TIMES_TUMBLING, at_least=False),
                {each: found[each] for each in ("headrace", _TUMBLING)},
                "times the mean time of an epoch",
            )
