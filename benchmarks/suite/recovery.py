"""Recovery: the driver is killed, and its successor begins at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import NoFiles
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

_LIMIT_MILLIS = 2_000


class RecoveryBenchmark:
    """From Spark's session to the first output of the job that goes on."""

    name = "recovery"
    title = "Recovery: a killed driver, and the first output of its successor"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        kills = scale.choose(5, 1)

        def truth(_: Path, __: Mapping[str, float]) -> Mapping[str, float]:
            return {"rows": kills}  # whether results are right is for the tests of reliability to judge

        options = {"rate": 1_000, "seconds": 3_600, "kills": kills}
        work = Work(NoFiles(), records_per_epoch=None, truth=truth, warm_up=0)
        found = lab.race(work, [Contestant("headrace", "headrace_recovery", options)], rounds=1)
        parts = found["headrace"].details["recovery"]
        told = ", ".join(f"{part} {seconds * 1000:,.0f} ms" for part, seconds in parts.items())
        value = parts["from the session to the first output"] * 1000
        case = "from Spark's session to the first output"
        yield Finding(self.name, case, value, "ms", Target(_LIMIT_MILLIS, at_least=False), {}, told)
