"""Joins of two streams, beside Spark's stream-stream join; what one hot key does to them; and what they keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import Pairs, RandomKeys, dataset
from benchmarks.findings import Finding, Target
from benchmarks.kept_state import Kept, largest_ratio
from benchmarks.lab import Contestant, Lab, Work, best_rival
from benchmarks.memory import WORKER
from benchmarks.suite.window import STORES
from benchmarks.truth import (
    NEAR_MILLIS,
    co_group_totals,
    interval_join_totals,
    lonely_totals,
    outer_join_totals,
    sliding_join_totals,
    window_join_totals,
)

if TYPE_CHECKING:
    from benchmarks.data import DataSpec
    from benchmarks.suite.base import Scale

_HOT_KEYS, _MEMORY_LIMIT = 10_000, 1.3
_STATE_KEYS = 1_000_000
_PARTNERS = 8
"""So many pairs a record of the hot key makes in an interval join, as a rule."""

_CASES = (("interval", 1_000_000, 4.0), ("window", 1_000_000, 4.0), ("interval", 100_000, 4.0))
"""Which join, how many keys, and what is asked. The fewer keys, the more pairs a record makes."""

_STATES = (
    ("interval", "interval join", 2.0),
    ("outer", "outer interval join", 3.0),
    ("alone", "outer interval join, nobody has a partner", 3.1),
    ("window", "window join", 2.0),
    ("sliding", "window join, two windows for each record", 2.5),
)
"""Of which joins state is measured, and how many times as large as the fields of what can still match it may be.

Outer joins also keep who has found no partner. In sliding windows a run goes on when one of the two windows of its
records is over.
"""

_TOTALS: Mapping[str, Callable[[Path], Mapping[str, float]]] = {
    "interval": interval_join_totals,
    "outer": outer_join_totals,
    "alone": lonely_totals,
    "window": window_join_totals,  # all pairs, too: Spark shows them as they are found, headrace closes all windows
    "sliding": sliding_join_totals,
    "co-group": co_group_totals,
}


def _work(data: DataSpec, scale: Scale, join: str) -> Work:
    """Who has read all input has found all pairs."""
    return Work(data, scale.per_epoch, lambda source, _: _TOTALS[join](source))


class JoinBenchmark:
    """How many times as fast as the better one of Spark's state stores."""

    name = "join"
    title = "Two streams: pairs with the same key within 30 seconds, or in the same minute"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        for kind, keys, limit in _CASES:
            work = _work(_random(scale, keys), scale, kind)
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
        for join, case, limit in _STATES:
            yield self._state(lab, scale, join, f"state: {case}", limit)

    def _hot_key(self, lab: Lab, scale: Scale, kind: str) -> Finding:
        contestant = Contestant("headrace", "headrace_join", {"join": kind})
        even, hot = (lab.race(_work(data, scale, kind), [contestant], rounds=1) for data in _pairs(scale))
        ratio = hot["headrace"].memory_mib[WORKER] / even["headrace"].memory_mib[WORKER]
        note = "times the memory of a worker with even keys"
        text = f"{'co-group' if kind == 'co-group' else 'interval join'}, a key with half of all records"
        return Finding(self.name, text, ratio, "x", Target(_MEMORY_LIMIT, at_least=False), hot, note)

    def _state(self, lab: Lab, scale: Scale, join: str, case: str, limit: float) -> Finding:
        data = _random(scale, _STATE_KEYS)
        contestant = Contestant("headrace", "headrace_join_state", {"join": join})
        found = lab.race(_work(data, scale, join), [contestant], rounds=1)
        kept = [Kept(*each) for each in found["headrace"].details["kept"]]
        ratio = largest_ratio(dataset(data, lab.folder / "data"), join, kept)
        note = "times the fields of what can still match"
        return Finding(self.name, case, ratio, "x", Target(limit, at_least=False), found, note)


def _random(scale: Scale, keys: int) -> RandomKeys:
    return RandomKeys(scale.files, scale.per_epoch, keys)


def _pairs(scale: Scale) -> tuple[Pairs, Pairs]:
    """Records with even keys, and the same with a hot one: every other record, so every fourth is a partner of it."""
    step = NEAR_MILLIS // (2 * _PARTNERS)
    even = Pairs(scale.files, scale.per_epoch, _HOT_KEYS, step, is_hot=False)
    return even, replace(even, is_hot=True)
