"""Joins of two streams by time and by window, beside Spark's stream-stream join."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work, best_rival
from benchmarks.suite.window import STORES
from benchmarks.truth import interval_join_totals, window_join_totals

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_CASES = (("interval", 1_000_000, 4.0), ("window", 1_000_000, 4.0), ("interval", 100_000, 4.0))
"""Which join, how many keys, and what is asked. The fewer keys, the more pairs a record makes."""


def interval_truth(source: Path, _: Mapping[str, float]) -> Mapping[str, float]:
    """All pairs: who has read all input has found them."""
    return interval_join_totals(source)


def window_truth(source: Path, _: Mapping[str, float]) -> Mapping[str, float]:
    """All pairs, too: Spark shows them as they are found, headrace closes all windows in the end."""
    return window_join_totals(source)


_TRUTHS = {"interval": interval_truth, "window": window_truth}


class JoinBenchmark:
    """How many times as fast as the better one of Spark's state stores."""

    name = "join"
    title = "Two streams: pairs with the same key within 30 seconds, or in the same minute"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        for kind, keys, limit in _CASES:
            work = Work(RandomKeys(scale.files, scale.per_epoch, keys), scale.per_epoch, _TRUTHS[kind])
            here = [
                Contestant("headrace", "headrace_join", {"join": kind}),
                *(Contestant(name, "spark_join", {"store": store, "join": kind}) for store, name in STORES.items()),
            ]
            found = lab.race(work, here, scale.rounds)
            yield Finding(
                self.name,
                f"{kind} join, {keys:,} int keys",
                best_rival(found, here).seconds / found["headrace"].seconds,
                "x",
                Target(limit, at_least=True),
                found,
                "times as fast as the better one of Spark's",
            )
