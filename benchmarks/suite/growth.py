"""Growing state: what an epoch costs that touches the same keys while more and more others are remembered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.data import GrowingState
from benchmarks.findings import Finding, Measured, Target
from benchmarks.lab import Contestant, Lab, Work
from benchmarks.suite.process import truth

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_HEADRACE = Contestant("headrace", "headrace_process")


class GrowthBenchmark:
    """How much longer an epoch takes with a hundred times the state."""

    name = "growth"
    title = "Growing state: epochs that touch the same keys"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        touched, most = scale.choose(100_000, 1_000), scale.choose(100, 4)
        rounds = scale.choose(24, 6)
        measured: dict[str, Measured] = {}
        for times in (1, scale.choose(10, 2), most):
            keys = touched * times
            work = Work(GrowingState(keys, touched, rounds), touched, truth, after=keys, counted=rounds - 2)
            measured[f"{keys:,} keys"] = lab.race(work, [_HEADRACE], rounds=1)["headrace"]
        first, *_, last = measured.values()
        yield Finding(
            self.name,
            f"{touched:,} keys touched, {touched:,} to {touched * most:,} remembered",
            last.seconds / first.seconds,
            "x",
            Target(1.3, at_least=False),
            measured,
            f"times the time of an epoch, with {most} times the state",
        )
