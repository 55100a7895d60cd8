"""The driver of :mod:`benchmarks.programs.headrace_recovery`: it notes when it has come how far."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.outcome import Assignment
from benchmarks.programs.headrace_job import run_job
from benchmarks.programs.headrace_latency import ClockedEpochs, job_of_numbers
from benchmarks.programs.headrace_recovery import NOTES
from headrace.client import submission

if TYPE_CHECKING:
    from headrace.jobmanager.events import EpochStatistics, JobStart


class Notes(ClockedEpochs):
    """Writes down when the session was there, the job was open, and each epoch was over, in seconds of the clock.

    Args:
        path: the file, which always is whole.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._noted: dict[str, Any] = {"epochs": []}

    def session_started(self) -> None:
        """Spark's session is there."""
        self._noted["session"] = time.time()

    def job_started(self, start: JobStart) -> None:
        super().job_started(start)
        self._noted["opened"] = time.time()

    def epoch_completed(self, statistics: EpochStatistics) -> None:
        super().epoch_completed(statistics)
        self._noted["epochs"].append(time.time())
        unfinished = self._path.with_suffix(".new")
        unfinished.write_text(json.dumps(self._noted))
        os.replace(unfinished, self._path)


def main(told: str) -> None:
    """Run the job."""
    assignment = Assignment.from_json(Path(told).read_text())
    notes = Notes(assignment.work / NOTES)
    open_runtime = submission.open_runtime

    @functools.wraps(open_runtime)
    def noted(*arguments: Any) -> Any:
        opened = open_runtime(*arguments)
        notes.session_started()
        return opened

    submission.open_runtime = noted
    run_job(job_of_numbers(assignment), notes)


if __name__ == "__main__":
    main(*sys.argv[1:])
