"""A Python function over all records of a window, beside both interfaces that PySpark has for such a thing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work, best_rival
from benchmarks.truth import median_totals

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_KEYS = 10_000
_FILES = 5
"""Enough for Spark; the first is warm-up."""

_LIMIT = 6.0


def truth(source: Path, found: Mapping[str, float]) -> Mapping[str, float]:
    """Each is judged by the last window that it has closed."""
    return median_totals(source, found.get("last_end", 0))


class WindowFunctionBenchmark:
    """How many times as fast as the better one of Spark's interfaces."""

    name = "window-function"
    title = "A ProcessWindowFunction that finds the median of a one-minute tumbling window"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        work = Work(RandomKeys(scale.files, scale.per_epoch, _KEYS), scale.per_epoch, truth)
        here = [
            Contestant("headrace", "headrace_window_function"),
            *(
                Contestant(f"Spark, {interface}", "spark_window_function", {"interface": interface}, files=_FILES)
                for interface in ("applyInPandasWithState", "transformWithState")
            ),
        ]
        found = lab.race(work, here, scale.rounds)
        yield Finding(
            self.name,
            f"{_KEYS:,} int keys",
            best_rival(found, here).mean_seconds / found["headrace"].mean_seconds,
            "x",
            Target(_LIMIT, at_least=True),
            found,
            "times as fast as the better one of Spark's, by the mean time of an epoch",
        )
