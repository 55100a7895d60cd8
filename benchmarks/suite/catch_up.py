"""Catching up with a backlog in epochs that headrace sizes itself: beside the best fixed size, and beside the limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab
from benchmarks.suite.backlog import Backlog, Runs, race, rate
from benchmarks.suite.window import DUCKDB, truth

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_TARGET_SECONDS = 1.0
"""The default of headrace.epoch.target-duration."""

_TOLERATED = 1.1
_KEYS = 10_000
_TIMES_THE_EVENTS = 8
"""The backlog is larger than other inputs, so that there are enough epochs of full size."""

_SIZES = (500_000, 1_000_000, 2_000_000, 4_000_000)
_SHARES = ((10_000, 0.35), (1_000_000, 0.40))
"""Keys, and what share of the limit is asked."""

_DEFAULT = "default settings"
_PROGRAM = "headrace_window"


class CatchUpBenchmark:
    """What share of the best fixed size's throughput default settings reach, growing epochs included."""

    name = "catch-up"
    title = "Catching up with a backlog, with default settings"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        records = scale.choose(scale.events * _TIMES_THE_EVENTS, scale.events)
        data = RandomKeys(scale.files, records // scale.files, _KEYS)
        sizes = _SIZES if not scale.quick else (records // 8,)
        fixed = [Runs(Backlog(data, size, truth), Contestant(_name(size), _PROGRAM)) for size in sizes]
        own = Runs(Backlog(data, records, truth), Contestant(_DEFAULT, _PROGRAM, {"default_sizes": True}))
        found = race(lab, [*fixed, own], scale.rounds)
        defaults = found.pop(_DEFAULT)
        fast_enough = [each for each in found.values() if each.seconds <= _TARGET_SECONDS * _TOLERATED]
        best = max(fast_enough or found.values(), key=rate)
        yield Finding(
            self.name,
            f"windows, {_KEYS:,} int keys, {records:,} records",
            rate(defaults) / rate(best),
            "x",
            Target(0.9, at_least=True),
            {_DEFAULT: defaults} | found,
            "times the records/s of the best fixed size that keeps to the target duration",
        )


class LimitBenchmark:
    """What share of the limit's throughput default settings reach."""

    name = "limit"
    title = "Catching up with a backlog, beside DuckDB's GROUP BY over the same files"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        records = scale.choose(scale.events * _TIMES_THE_EVENTS, scale.events)
        for keys, limit in _SHARES:
            work = Backlog(RandomKeys(scale.files, records // scale.files, keys), records, truth)
            own = Runs(work, Contestant(_DEFAULT, _PROGRAM, {"default_sizes": True}))
            best = Runs(work, DUCKDB)
            found = race(lab, [own, best], scale.rounds)
            yield Finding(
                self.name,
                f"windows, {keys:,} int keys, {records:,} records",
                rate(found[_DEFAULT]) / rate(found[DUCKDB.name]),
                "x",
                Target(limit, at_least=True),
                found,
                "of the records/s of one batch on two threads, without event time, state or checkpoints",
            )


def _name(size: int) -> str:
    return f"epochs of {size:,}"
