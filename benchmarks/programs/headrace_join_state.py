"""What a join keeps in its checkpoint at the end of each epoch. Option: ``join``, as of :mod:`.headrace_join`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.kept_state import Kept
from benchmarks.outcome import Assignment, Outcome
from benchmarks.programs.headrace_job import EpochTimes
from benchmarks.programs.headrace_join import UID, run_join
from headrace.checkpoint.manifest import Manifest

if TYPE_CHECKING:
    from headrace.jobmanager.events import EpochStatistics


class StateOfEpochs(EpochTimes):
    """Looks at the newest manifest when an epoch has ended.

    Args:
        checkpoints: the checkpoint directory, or one above it.

    Attributes:
        kept: what there was, epoch by epoch.
    """

    def __init__(self, checkpoints: Path) -> None:
        super().__init__()
        self._checkpoints = checkpoints
        self._records = 0
        self.kept: list[Kept] = []

    def epoch_completed(self, statistics: EpochStatistics) -> None:
        super().epoch_completed(statistics)
        self._records += statistics.records
        newest = max(self._checkpoints.rglob("manifests/*.json"))
        manifest = Manifest.from_bytes(newest.read_bytes(), newest.name)
        tasks = [task for stage in manifest.stages for task in stage.partitions]
        watermark = min(task.progress[UID].watermark for task in tasks if UID in task.progress)
        sizes = [(newest.parents[1] / "state" / name).stat().st_size for name in set(manifest.state_files())]
        inside = [len(task.version.inline) for task in tasks if task.version is not None]
        self.kept.append(Kept(self._records, watermark, sum(sizes) + sum(inside)))


def run(assignment: Assignment) -> Outcome:
    """Run the job over all input."""
    states = StateOfEpochs(assignment.work / "checkpoints")
    totals = run_join(assignment, states)
    return Outcome(tuple(states.epochs), totals, {"kept": states.kept})
