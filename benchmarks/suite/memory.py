"""Memory: the largest process of each kind during all that was run before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.findings import Finding, Target
from benchmarks.memory import DRIVER, JVM, WORKER

if TYPE_CHECKING:
    from benchmarks.lab import Lab
    from benchmarks.suite.base import Scale

_LIMIT_MIB = 2_048
_NAMES = {
    JVM: "headrace's JVM (driver and executors)",
    WORKER: "headrace's largest Python worker",
    DRIVER: "its driver",
}


class MemoryBenchmark:
    """Resident memory in MiB; what Spark's programs took is in the note."""

    name = "memory"
    title = "Peak resident memory of the programs above"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        ours, theirs = lab.peaks[True].mebibytes(), lab.peaks[False].mebibytes()
        for role, name in _NAMES.items():
            if role in ours:
                note = f"Spark's: {theirs[role]:,.0f} MiB" if role in theirs else ""
                yield Finding(self.name, name, ours[role], "MiB", Target(_LIMIT_MIB, at_least=False), {}, note)
