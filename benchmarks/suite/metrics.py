"""Metrics: what it costs a job to report them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work
from benchmarks.suite.window import truth

if TYPE_CHECKING:
    from benchmarks.outcome import Outcome
    from benchmarks.suite.base import Scale

_KEYS = 10_000


@dataclass(frozen=True, slots=True)
class WholeRuns(Work):
    """Each run as a whole counts."""

    def steady(self, outcome: Outcome) -> list[float]:
        return [epoch.seconds for epoch in outcome.epochs[2:]]


class MetricsBenchmark:
    """How much more processor time a job takes that reports its metrics."""

    name = "metrics"
    title = "Metrics: a job with reporters, and without"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        work = WholeRuns(RandomKeys(scale.files, scale.per_epoch, _KEYS), scale.events, truth)
        contestant = Contestant("headrace", "headrace_metrics", {"default_sizes": True, "rounds": scale.choose(5, 1)})
        found = lab.race(work, [contestant], rounds=1)
        processor = found["headrace"].details["processor"]
        with_reporters, without = median(processor["with"]), median(processor["without"])
        yield Finding(
            self.name,
            f"windows, {_KEYS:,} int keys, {scale.events:,} records",
            with_reporters / without,
            "x",
            Target(1.02, at_least=False),
            found,
            f"times the processor time with reports each second: {with_reporters:.2f} and {without:.2f} s",
        )
