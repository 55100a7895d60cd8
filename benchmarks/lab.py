"""Where contestants run: one after the other, several times in turn, each in a process of its own, each one checked."""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.data import DataSpec, dataset, first_files
from benchmarks.findings import Measured
from benchmarks.launch import launch
from benchmarks.memory import Peaks
from benchmarks.outcome import Assignment, Outcome, median, steady_seconds
from benchmarks.truth import check

if TYPE_CHECKING:
    from rich.console import Console

Truth = Callable[[Path, Mapping[str, float]], Mapping[str, float]]
"""What the totals have to be, of the files and of the totals that were found (which say how far a program came)."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """Somebody who does the work.

    Attributes:
        name: for people.
        program: the module in :mod:`benchmarks.programs`.
        options: what the program wants to know.
        files: only so many files of the input, for those who are too slow for all of it.
        python: the interpreter, for those who cannot run in this one.
        truth: what has to come out, for those who do something else with the input.
    """

    name: str
    program: str
    options: Mapping[str, Any] = field(default_factory=dict)
    files: int | None = None
    python: str = sys.executable
    truth: Truth | None = None

    @property
    def is_headrace(self) -> bool:
        """Whether this is what is measured, not what it is measured against."""
        return self.program.startswith("headrace")

    @property
    def is_rival(self) -> bool:
        """Whether headrace is measured against it; who is neither is only shown beside them."""
        return self.program.startswith("spark")


@dataclass(frozen=True, slots=True)
class Work:
    """The work to do, the same for all contestants.

    Attributes:
        data: the input.
        records_per_epoch: how many records an epoch has; None where they differ.
        truth: what has to come out.
        warm_up: how many epochs do not count.
        counted: how many epochs count at most; the rest only keeps the end of input away from them.
        after: only epochs count that begin after so many records.
    """

    data: DataSpec
    records_per_epoch: int | None
    truth: Truth
    warm_up: int = 1
    counted: int | None = None
    after: int = 0

    def steady(self, outcome: Outcome) -> list[float]:
        """The times of the epochs that count."""
        return steady_seconds(outcome.epochs, self.records_per_epoch, self.warm_up, self.after)[: self.counted]


class Lab:
    """Runs contestants.

    Args:
        folder: for the input, which is kept, and for what programs write, which is not.
        console: where progress is shown.

    Attributes:
        folder: as above.
        peaks: the most memory so far, of headrace (True) and of those whom it is measured against.
    """

    def __init__(self, folder: Path, console: Console) -> None:
        self.folder = folder.absolute()
        self._console = console
        self.peaks: dict[bool, Peaks] = {True: Peaks(), False: Peaks()}

    def say(self, text: str) -> None:
        """Tell people something besides the figures."""
        self._console.print(f"    {text}", markup=False)

    def race(self, work: Work, contestants: Sequence[Contestant], rounds: int) -> dict[str, Measured]:
        """Let contestants do the same work in turn (A B A B) and check what each of them computed.

        Raises:
            ProgramFailedError: when one does not come to its end.
            WrongResultError: when one computes something else.
        """
        outcomes: dict[str, list[Outcome]] = {each.name: [] for each in contestants}
        memory = {each.name: Peaks() for each in contestants}
        for _ in range(rounds):
            for each in contestants:
                outcome, peaks = self.run(work, each)
                outcomes[each.name].append(outcome)
                memory[each.name].merge(peaks)
        return {name: measured(work, found, memory[name]) for name, found in outcomes.items()}

    def run(self, work: Work, contestant: Contestant) -> tuple[Outcome, Peaks]:
        """One run of one contestant, checked."""
        started = time.monotonic()
        source = self._input(work, contestant)
        assignment = Assignment(source, work.records_per_epoch, self.folder / "run", contestant.options)
        outcome, peaks = launch(contestant.program, assignment, python=contestant.python)
        truth = contestant.truth or work.truth
        check(contestant.name, outcome.totals, truth(source, outcome.totals))
        if contestant.is_headrace or contestant.is_rival:
            self.peaks[contestant.is_headrace].merge(peaks)
        steady = work.steady(outcome)
        self._console.print(
            f"    {contestant.name:<16} {median(steady):8.3f} s an epoch, {len(steady)} epochs; "
            f"[dim]{time.monotonic() - started:.0f} s in all, results right[/]"
        )
        return outcome, peaks

    def _input(self, work: Work, contestant: Contestant) -> Path:
        whole = dataset(work.data, self.folder / "data")
        if contestant.files is None:
            return whole
        part = self.folder / "part"
        shutil.rmtree(part, ignore_errors=True)
        return first_files(whole, contestant.files, part)


def measured(work: Work, outcomes: Sequence[Outcome], peaks: Peaks) -> Measured:
    """The figures of one contestant over all its runs."""
    runs = [work.steady(outcome) for outcome in outcomes]
    every = [seconds for run in runs for seconds in run]
    records = work.records_per_epoch
    if records is None:
        records = round(statistics.fmean(epoch.records for outcome in outcomes for epoch in outcome.epochs))
    return Measured(
        seconds=median(every),
        mean_seconds=statistics.fmean(every) if every else float("nan"),
        slowest_seconds=max(every, default=float("nan")),
        records=records,
        epochs=len(every),
        runs=tuple(median(run) for run in runs),
        memory_mib=peaks.mebibytes(),
        details=outcomes[-1].details,
    )


def best_rival(found: Mapping[str, Measured], contestants: Sequence[Contestant]) -> Measured:
    """The fastest of those whom headrace is measured against: only that one counts."""
    return min((found[each.name] for each in contestants if each.is_rival), key=lambda each: each.seconds)
