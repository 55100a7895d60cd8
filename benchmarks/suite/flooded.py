"""Flooded: what it costs a job that many ask its server."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab
from benchmarks.suite.metrics import WholeRuns
from benchmarks.suite.window import truth

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_KEYS = 10_000
_RATE = 100
_KINDS = {"rest": "requests of the REST API", "pages": "refreshes of the dashboard"}


class FloodedBenchmark:
    """The processor time that a job takes while its server is asked again and again, beside that of the job alone."""

    name = "flooded"
    title = f"Flooded: a job whose server answers {_RATE} requests a second, and one that nobody asks"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        work = WholeRuns(RandomKeys(scale.files, scale.per_epoch, _KEYS), scale.events, truth)
        options = {"default_sizes": True, "rounds": scale.choose(9, 1), "repeats": scale.choose(4, 1), "rate": _RATE}
        found = lab.race(work, [Contestant("headrace", "headrace_server", options)], rounds=1)
        details = found["headrace"].details
        alone = details["processor"]["nobody"]
        for kind, what in _KINDS.items():
            flooded = details["processor"][kind]
            # in pairs, since the virtual machine of Java grows faster with each round
            ratio = median(one / other for one, other in zip(flooded, alone, strict=True))
            yield Finding(
                self.name,
                f"{_RATE} {what} a second",
                ratio,
                "x",
                Target(1.02, at_least=False),
                found,
                f"times the processor time: {median(flooded):.2f} and {median(alone):.2f} s; "
                f"{details['answered'][kind]:.0f} a second were answered",
            )
