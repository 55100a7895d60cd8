"""End-to-end latency: from when a record could be read to when its result is visible, exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import NoFiles
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work
from benchmarks.programs.headrace_latency import KEYS

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

RATE = 1_000
_LIMITS = {"p50": 120, "p99": 250}
"""Milliseconds, by percentile."""


def totals(records: int) -> dict[str, float]:
    """What has to be visible after so many records: each once, each counted after those of its key before it."""
    each, more = divmod(records, KEYS)
    counts = (KEYS - more) * each * (each + 1) // 2 + more * (each + 1) * (each + 2) // 2
    return {"rows": records, "numbers": records * (records - 1) // 2, "counts": counts}


class LatencyBenchmark:
    """Percentiles over all records of the steady state, with headrace's default settings."""

    name = "latency"
    title = f"Latency: {RATE:,} records a second through one shuffle and keyed state into visible files"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        seconds, warm_up = scale.choose(60, 6), scale.choose(30, 1)
        options = {"rate": RATE, "seconds": seconds, "warm_up": warm_up}
        expected = totals(RATE * seconds)

        def truth(_: Path, __: Mapping[str, float]) -> Mapping[str, float]:
            return expected

        work = Work(NoFiles(), records_per_epoch=None, truth=truth, after=RATE * warm_up)
        found = lab.race(work, [Contestant("headrace", "headrace_latency", options)], rounds=1)
        latency = found["headrace"].details["latency ms"]
        for percentile, limit in _LIMITS.items():
            shown = found if percentile == "p50" else {}  # the same epochs need not be shown twice
            target = Target(limit, at_least=False)
            yield Finding(self.name, f"{RATE:,} records/s, {percentile}", latency[percentile], "ms", target, shown)
