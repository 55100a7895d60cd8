"""Flooded: what it costs a job that many ask its server."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.data import RandomKeys
from benchmarks.findings import Finding, Target
from benchmarks.flood import KINDS, NOBODY
from benchmarks.lab import Contestant, Lab
from benchmarks.paired import paired_ratio
from benchmarks.suite.metrics import WholeRuns
from benchmarks.suite.window import truth

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_KEYS = 10_000
_TIMES = 4
"""The input is so many times as long as others: a job that has just begun has no answers that were given before."""
_RATE = 100
_UNCERTAINTY = 0.01
"""The most that a ratio may be off: 1.02 is told from 1.04."""
_WHAT = {"rest": "requests of the REST API", "pages": "refreshes of the dashboard"}
_MEASURES = {"seconds of epochs": "time of epochs", "processor": "processor time"}


class FloodedBenchmark:
    """The time that the epochs of a job take, and processor time, while its server is asked again and again.

    Beside them stands the job alone, while the same clients answer themselves: who shares the machine with clients does
    so in both cases, and what the server costs remains.
    """

    name = "flooded"
    title = f"Flooded: a job whose server answers {_RATE} requests a second, and one that nobody asks"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        files = _TIMES * scale.files
        work = WholeRuns(RandomKeys(files, scale.per_epoch, _KEYS), files * scale.per_epoch, truth)
        options = {
            "default_sizes": True,
            "rounds": scale.choose(25, 1),
            "uncertainty": _UNCERTAINTY,
            "rate": _RATE,
        }
        found = lab.race(work, [Contestant("headrace", "headrace_server", options)], rounds=1)
        details = found["headrace"].details
        for kind in KINDS:
            for measure, what in _MEASURES.items():
                flooded, alone = details[measure][kind], details[measure][NOBODY]
                ratio = paired_ratio(flooded, alone)
                yield Finding(
                    self.name,
                    f"{_RATE} {_WHAT[kind]} a second: {what}",
                    ratio.value,
                    "x",
                    Target(1.02, at_least=False),
                    {},
                    f"{ratio} times that of the job alone, {median(flooded):.2f} and {median(alone):.2f} s; "
                    f"{details['answered'][kind]:.0f} a second were answered",
                )
