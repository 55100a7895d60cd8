"""Joins of two streams by time and by window, beside Spark's stream-stream join; and what one hot key does to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import Pairs, RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work, best_rival
from benchmarks.memory import WORKER
from benchmarks.suite.window import STORES
from benchmarks.truth import NEAR_MILLIS, co_group_totals, interval_join_totals, window_join_totals

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_HOT_KEYS, _MEMORY_LIMIT = 10_000, 1.3
_PARTNERS = 8
"""So many pairs a record of the hot key makes in an interval join, as a rule."""

_CASES = (("interval", 1_000_000, 4.0), ("window", 1_000_000, 4.0), ("interval", 100_000, 4.0))
"""Which join, how many keys, and what is asked. The fewer keys, the more pairs a record makes."""


def interval_truth(source: Path, _: Mapping[str, float]) -> Mapping[str, float]:
    """All pairs: who has read all input has found them."""
    return interval_join_totals(source)


def window_truth(source: Path, _: Mapping[str, float]) -> Mapping[str, float]:
    """All pairs, too: Spark shows them as they are found, headrace closes all windows in the end."""
    return window_join_totals(source)


def co_group_truth(source: Path, _: Mapping[str, float]) -> Mapping[str, float]:
    """All groups."""
    return co_group_totals(source)


_TRUTHS = {"interval": interval_truth, "window": window_truth, "co-group": co_group_truth}


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
        for kind in ("interval", "co-group"):
            yield self._hot_key(lab, scale, kind)

    def _hot_key(self, lab: Lab, scale: Scale, kind: str) -> Finding:
        contestant = Contestant("headrace", "headrace_join", {"join": kind})
        even, hot = (
            lab.race(Work(data, scale.per_epoch, _TRUTHS[kind]), [contestant], rounds=1) for data in _pairs(scale)
        )
        ratio = hot["headrace"].memory_mib[WORKER] / even["headrace"].memory_mib[WORKER]
        note = "times the memory of a worker with even keys"
        text = f"{'co-group' if kind == 'co-group' else 'interval join'}, a key with half of all records"
        return Finding(self.name, text, ratio, "x", Target(_MEMORY_LIMIT, at_least=False), hot, note)


def _pairs(scale: Scale) -> tuple[Pairs, Pairs]:
    """Records with even keys, and the same with a hot one: every other record, so every fourth is a partner of it."""
    step = NEAR_MILLIS // (2 * _PARTNERS)
    even = Pairs(scale.files, scale.per_epoch, _HOT_KEYS, step, is_hot=False)
    return even, replace(even, is_hot=True)
