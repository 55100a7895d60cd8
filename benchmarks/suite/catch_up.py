"""Catching up with a backlog: epochs that headrace sizes itself, beside epochs of the best fixed size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Measured, Target
from benchmarks.lab import Contestant, Lab, Work, measured
from benchmarks.suite.window import truth

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
_DEFAULT = "default settings"


@dataclass(frozen=True, slots=True)
class _Backlog(Work):
    """All epochs count but the first, which starts the workers, and the last, which is what was left."""

    def steady(self, outcome: Outcome) -> list[float]:
        return [epoch.seconds for epoch in counted(outcome.epochs)]


def counted(epochs: Sequence[Epoch]) -> Sequence[Epoch]:
    """The epochs that count, whatever their size."""
    return epochs[1:-1]


class CatchUpBenchmark:
    """What share of the best fixed size's throughput default settings reach, growing epochs included."""

    name = "catch-up"
    title = "Catching up with a backlog, with default settings"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        records = scale.choose(scale.events * _TIMES_THE_EVENTS, scale.events)
        data = RandomKeys(scale.files, records // scale.files, _KEYS)
        sizes = _SIZES if not scale.quick else (records // 8,)
        found = {f"epochs of {size:,}": _measure(lab, data, size, {}) for size in sizes}
        fast_enough = [each for each in found.values() if each.seconds <= _TARGET_SECONDS * _TOLERATED]
        best = max(fast_enough or found.values(), key=_rate)
        own = _measure(lab, data, records, {"default_sizes": True})
        yield Finding(
            self.name,
            f"windows, {_KEYS:,} int keys, {records:,} records",
            _rate(own) / _rate(best),
            "x",
            Target(0.9, at_least=True),
            {_DEFAULT: own} | found,
            "times the records/s of the best fixed size that keeps to the target duration",
        )


def _rate(found: Measured) -> float:
    return found.records / found.mean_seconds


def _measure(lab: Lab, data: RandomKeys, size: int, options: dict[str, bool]) -> Measured:
    work = _Backlog(data, size, truth)
    outcome, peaks = lab.run(work, Contestant(_DEFAULT if options else f"{size:,}", "headrace_window", options))
    records = fmean(epoch.records for epoch in counted(outcome.epochs))
    return replace(measured(work, [outcome], peaks), records=round(records))
