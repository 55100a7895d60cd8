"""Savepoints of a job with a million keys: what they take, what they cost the job, and another parallelism."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.data import GrowingState
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work
from benchmarks.outcome import median
from benchmarks.suite.process import truth

if TYPE_CHECKING:
    from benchmarks.findings import Measured
    from benchmarks.suite.base import Scale

_SLOWER = 1.5
"""How many times as long epochs may take while a savepoint is taken."""


class SavepointBenchmark:
    """headrace alone, in one Spark session."""

    name = "savepoint"
    title = "Savepoints: taking one while epochs go on, starting from one, and rescaling"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        keys, touched = scale.choose(1_000_000, 4_000), scale.choose(50_000, 1_000)
        taken, between = scale.choose(6, 2), scale.choose(8, 2)
        rounds = scale.choose((taken + 2) * (between + 8), (taken + 2) * (between + 12))
        options = {"keys": keys, "savepoints": taken, "between": between, "starts": scale.choose(3, 1)}
        work = Work(GrowingState(keys, touched, rounds), touched, truth, after=keys)
        found = lab.race(work, [Contestant("headrace", "headrace_savepoint", options)], rounds=1)
        yield from self._findings(f"{keys:,} keys", found)

    def _findings(self, keys: str, found: dict[str, Measured]) -> Iterator[Finding]:
        told = found["headrace"].details
        more = told["start from a savepoint"] - told["start"]
        durations = (
            (f"canonical savepoint, {keys}", told["canonical savepoint"], 3_000, "from the request to its end"),
            (f"native savepoint, {keys}", told["native savepoint"], 1_000, "from the request to its end"),
            (f"start from a savepoint, {keys}", more, 3_000, "longer than a start with nothing"),
            (f"rescale from 2 to 4, {keys}", told["rescale"], 5_000, "from the request to the end of the first epoch"),
        )
        for case, seconds, limit, note in durations:
            shown = found if seconds is durations[0][1] else {}
            yield Finding(self.name, case, seconds * 1_000, "ms", Target(limit, at_least=False), shown, note)
        during, without = told["epochs during a savepoint"], told["epochs without"]
        ratios = {"median": median(during) / median(without), "slowest": max(during) / max(without)}
        for case, ratio in ratios.items():
            note, target = "times the time of epochs without one", Target(_SLOWER, at_least=False)
            yield Finding(self.name, f"epochs during a savepoint, {case}", ratio, "x", target, {}, note)
