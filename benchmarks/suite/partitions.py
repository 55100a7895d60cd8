"""Many partitions: a small epoch of many tasks, beside the bare Spark query of as many tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import NoFiles
from benchmarks.findings import Finding, Target
from benchmarks.lab import Contestant, Lab, Work

if TYPE_CHECKING:
    from benchmarks.suite.base import Scale

RECORDS = 2_048
_CASES = ((2, 1.2), (16, 1.2), (64, 1.2))
"""Parallelism, and what is asked."""

_MANIFEST_KIB = 200


def truth(_: Path, found: Mapping[str, float]) -> Mapping[str, float]:
    """Everything that was sent has to arrive, once."""
    return {"rows": found["sent"]}


class PartitionsBenchmark:
    """How much longer an epoch takes than Spark needs for scheduling its tasks and moving a row from each."""

    name = "partitions"
    title = f"Many partitions: {RECORDS:,} records through one shuffle on two cores"

    def run(self, lab: Lab, scale: Scale) -> Iterator[Finding]:
        warm_up, counted = scale.choose(8, 1), scale.choose(12, 3)
        for parallelism, limit in _CASES:
            options = {"parallelism": parallelism, "epochs": warm_up + counted}
            contestants = [
                Contestant("headrace", "headrace_partitions", options),
                Contestant("bare query", "spark_floor", options),
            ]
            work = Work(NoFiles(), RECORDS, truth, warm_up=warm_up, counted=counted)
            found = lab.race(work, contestants, scale.rounds)
            ours = found["headrace"]
            yield Finding(
                self.name,
                f"parallelism {parallelism}",
                ours.seconds / found["bare query"].seconds,
                "x",
                Target(limit, at_least=False),
                found,
                "of the time that a bare query of as many tasks takes",
            )
        yield Finding(
            self.name,
            f"manifest at parallelism {parallelism}",
            ours.details["manifest KiB"],
            "KiB",
            Target(_MANIFEST_KIB, at_least=False),
            {},
        )
