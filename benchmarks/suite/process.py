"""A Python function with keyed state, called for every record, beside PySpark's ``transformWithState``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work, best_rival
from benchmarks.truth import process_totals

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_CASES = ((10_000, None, 6.0), (1_000_000, 3, 30.0))
"""Keys, how many files are enough for Spark (the first is warm-up), and what is asked."""


def truth(source: Path, _: Mapping[str, float]) -> Mapping[str, float]:
    """Every record of a sampled key gives a result."""
    return process_totals(source)


class ProcessBenchmark:
    """How many times as fast as Spark."""

    name = "process"
    title = "A Python function with a ValueState, called for every record"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        for keys, files, limit in _CASES:
            work = Work(RandomKeys(scale.files, scale.per_epoch, keys), scale.per_epoch, truth)
            contestants = [
                Contestant("headrace", "headrace_process"),
                Contestant("Spark", "spark_process", files=files),
                Contestant("DuckDB, one batch", "duckdb_batch", {"work": "process"}),
            ]
            found = lab.race(work, contestants, scale.rounds)
            yield Finding(
                self.name,
                f"{keys:,} int keys",
                best_rival(found, contestants).seconds / found["headrace"].seconds,
                "x",
                Target(limit, at_least=True),
                found,
                "times as fast as Spark",
            )
