"""Session windows: count and sum, beside Spark's ``session_window``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Lab, Work, best_rival
from benchmarks.suite.window import contestants
from benchmarks.truth import session_totals

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_CASES = ((10_000, 3.0), (1_000_000, 4.0))
"""Keys, and what is asked. With few keys sessions are long, with many nearly each record is one."""


def truth(source: Path, found: Mapping[str, float]) -> Mapping[str, float]:
    """Each is judged by the last session that it has closed."""
    return session_totals(source, found.get("last_end", 0))


class SessionBenchmark:
    """How many times as fast as the better one of Spark's state stores."""

    name = "session"
    title = "Sessions with a gap of two seconds: count and sum for each key"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        for keys, limit in _CASES:
            work = Work(RandomKeys(scale.files, scale.per_epoch, keys), scale.per_epoch, truth)
            here = contestants(windows="session")
            found = lab.race(work, here, scale.rounds)
            yield Finding(
                self.name,
                f"{keys:,} int keys",
                best_rival(found, here).seconds / found["headrace"].seconds,
                "x",
                Target(limit, at_least=True),
                found,
                "times as fast as the better one of Spark's",
            )
