"""Work in which all epochs count, whatever their size: those who size their epochs themselves are measured by rates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks.lab import Contestant, Lab, Work, measured
from benchmarks.memory import Peaks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.findings import Measured
    from benchmarks.outcome import Epoch, Outcome


@dataclass(frozen=True, slots=True)
class Backlog(Work):
    """All epochs count but the first, which starts the workers, and the last, which is what was left."""

    def steady(self, outcome: Outcome) -> list[float]:
        return [epoch.seconds for epoch in counted(outcome.epochs)]


def counted(epochs: Sequence[Epoch]) -> Sequence[Epoch]:
    """The epochs that count, whatever their size; all of them where there are no others."""
    return epochs[1:-1] or epochs


class Runs:
    """The runs of one contestant.

    Args:
        work: the work.
        contestant: who does it.

    Attributes:
        name: the contestant's.
    """

    def __init__(self, work: Work, contestant: Contestant) -> None:
        self._work = work
        self._contestant = contestant
        self._outcomes: list[Outcome] = []
        self._memory = Peaks()
        self.name = contestant.name

    def add_one(self, lab: Lab) -> None:
        """Let it do the work once more."""
        outcome, peaks = lab.run(self._work, self._contestant)
        self._outcomes.append(outcome)
        self._memory.merge(peaks)

    def measured(self) -> Measured:
        """The figures over all runs; epochs differ in size, so records are those of the mean one."""
        records = fmean(epoch.records for outcome in self._outcomes for epoch in counted(outcome.epochs))
        return replace(measured(self._work, self._outcomes, self._memory), records=round(records))


def race(lab: Lab, runs: Sequence[Runs], rounds: int) -> dict[str, Measured]:
    """Let all do their work in turn; the figures of each by its name."""
    for _ in range(rounds):
        for each in runs:
            each.add_one(lab)
    return {each.name: each.measured() for each in runs}


def rate(found: Measured) -> float:
    """Records a second."""
    return found.records / found.mean_seconds
