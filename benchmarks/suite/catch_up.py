"""Catching up with a backlog in epochs that headrace sizes itself: beside the best fixed size, and beside the limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Measured, Target
from benchmarks.lab import Contestant, Lab, Work, measured
from benchmarks.memory import Peaks
from benchmarks.suite.window import DUCKDB, truth

if TYPE_CHECKING:
    from benchmarks.outcome import Epoch, Outcome
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


@dataclass(frozen=True, slots=True)
class _Backlog(Work):
    """All epochs count but the first, which starts the workers, and the last, which is what was left."""

    def steady(self, outcome: Outcome) -> list[float]:
        return [epoch.seconds for epoch in counted(outcome.epochs)]


def counted(epochs: Sequence[Epoch]) -> Sequence[Epoch]:
    """The epochs that count, whatever their size; all of them where a quick try has no others."""
    return epochs[1:-1] or epochs


class _Runs:
    """The runs of one contestant."""

    def __init__(self, work: Work, contestant: Contestant) -> None:
        self._work = work
        self._contestant = contestant
        self._outcomes: list[Outcome] = []
        self._memory = Peaks()

    def add_one(self, lab: Lab) -> None:
        """Let it do the work once more."""
        outcome, peaks = lab.run(self._work, self._contestant)
        self._outcomes.append(outcome)
        self._memory.merge(peaks)

    def measured(self) -> Measured:
        """The figures over all runs; epochs differ in size, so records are those of the mean one."""
        records = fmean(epoch.records for outcome in self._outcomes for epoch in counted(outcome.epochs))
        return replace(measured(self._work, self._outcomes, self._memory), records=round(records))


class CatchUpBenchmark:
    """What share of the best fixed size's throughput default settings reach, growing epochs included."""

    name = "catch-up"
    title = "Catching up with a backlog, with default settings"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        records = scale.choose(scale.events * _TIMES_THE_EVENTS, scale.events)
        data = RandomKeys(scale.files, records // scale.files, _KEYS)
        sizes = _SIZES if not scale.quick else (records // 8,)
        fixed = {_name(size): _Runs(_Backlog(data, size, truth), Contestant(_name(size), _PROGRAM)) for size in sizes}
        own = _Runs(_Backlog(data, records, truth), Contestant(_DEFAULT, _PROGRAM, {"default_sizes": True}))
        for _ in range(scale.rounds):
            for runs in (*fixed.values(), own):
                runs.add_one(lab)
        found = {name: runs.measured() for name, runs in fixed.items()}
        fast_enough = [each for each in found.values() if each.seconds <= _TARGET_SECONDS * _TOLERATED]
        best = max(fast_enough or found.values(), key=_rate)
        yield Finding(
            self.name,
            f"windows, {_KEYS:,} int keys, {records:,} records",
            _rate(own.measured()) / _rate(best),
            "x",
            Target(0.9, at_least=True),
            {_DEFAULT: own.measured()} | found,
            "times the records/s of the best fixed size that keeps to the target duration",
        )


class LimitBenchmark:
    """What share of the limit's throughput default settings reach."""

    name = "limit"
    title = "Catching up with a backlog, beside DuckDB's GROUP BY over the same files"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        records = scale.choose(scale.events * _TIMES_THE_EVENTS, scale.events)
        for keys, limit in _SHARES:
            work = _Backlog(RandomKeys(scale.files, records // scale.files, keys), records, truth)
            own = _Runs(work, Contestant(_DEFAULT, _PROGRAM, {"default_sizes": True}))
            best = _Runs(work, DUCKDB)
            for _ in range(scale.rounds):
                own.add_one(lab)
                best.add_one(lab)
            yield Finding(
                self.name,
                f"windows, {keys:,} int keys, {records:,} records",
                _rate(own.measured()) / _rate(best.measured()),
                "x",
                Target(limit, at_least=True),
                {_DEFAULT: own.measured(), DUCKDB.name: best.measured()},
                "of the records/s of one batch on two threads, without event time, state or checkpoints",
            )


def _rate(found: Measured) -> float:
    return found.records / found.mean_seconds


def _name(size: int) -> str:
    return f"epochs of {size:,}"
