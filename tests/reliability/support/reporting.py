"""What a program says while it runs, for who wants to kill it at some point."""

from __future__ import annotations

from headrace.jobmanager.progress import EpochStatistics, JobListener, JobStart


class Reporter(JobListener):
    """Prints ``started`` when the job is about to run its first epoch, and a line with ``epoch`` after each."""

    def job_started(self, start: JobStart) -> None:
        print("started" if start.restored_epoch is None else f"started from {start.restored_epoch}", flush=True)

    def epoch_completed(self, statistics: EpochStatistics) -> None:
        print(said(statistics.counters["numRecordsRead"]), flush=True)


def said(records: int) -> str:
    """The line after the epoch with which so many records were read, good and bad ones."""
    return f"epoch: {records} records in all"
