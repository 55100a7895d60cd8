"""What the benchmarks found: one finding for each thing that is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked of a figure.

    Attributes:
        limit: the value that it has to reach, or to stay at or below.
        at_least: whether larger is better.
    """

    limit: float
    at_least: bool

    def is_met(self, value: float) -> bool:
        """Whether a figure is good enough; not a number never is."""
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Measured:
    """One contestant in one case.

    Attributes:
        seconds: the median time of a steady epoch, over all its runs.
        mean_seconds: the mean, in which the dear epochs (where windows fire, where state is compacted) have their say.
        slowest_seconds: the slowest steady epoch.
        records: how many records such an epoch has.
        epochs: how many epochs counted.
        runs: the median of each run on its own, which tells how far they can be trusted.
        memory_mib: the largest resident memory of any process of each kind.
        details: where the time went.
    """

    seconds: float
    mean_seconds: float
    slowest_seconds: float
    records: int
    epochs: int
    runs: tuple[float, ...]
    memory_mib: Mapping[str, float]
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def records_per_second(self) -> float:
        """Throughput in the steady state."""
        return self.records / self.seconds if self.seconds else float("nan")


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure that something is asked of.

    Attributes:
        benchmark: the name of the benchmark.
        case: what of it.
        value: the figure.
        unit: of the figure: ``x`` for ratios.
        target: what is asked.
        measured: what the figure was made of, by contestant.
        note: what the figure says, in words.
    """

    benchmark: str
    case: str
    value: float
    unit: str
    target: Target
    measured: Mapping[str, Measured]
    note: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the figure is as good as is asked."""
        return self.target.is_met(self.value)

    def to_json(self) -> dict[str, Any]:
        """For the file of results."""
        return asdict(self) | {"target": str(self.target), "met": self.is_met}


@dataclass(slots=True)
class Findings:
    """Everything that one run of the benchmarks found.

    Attributes:
        found: the findings.
        failures: what did not come to an end, or gave wrong results.
    """

    found: list[Finding] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
