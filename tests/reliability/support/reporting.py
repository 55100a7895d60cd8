"""What a program says while it runs, for who wants to kill it at some point."""

from __future__ import annotations

from headrace.jobmanager.events import EpochStatistics, JobEvent, JobStart
from headrace.jobmanager.status import JobSnapshot


class Reporter:
    """Prints ``started`` when the job is about to run its first epoch, and a line with ``epoch`` after each."""

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        if isinstance(event, JobStart):
            print("started" if event.restored_epoch is None else f"started from {event.restored_epoch}", flush=True)
        elif isinstance(event, EpochStatistics):
            print(said(event.counters["numRecordsRead"]), flush=True)


def said(records: int) -> str:
    """The line after the epoch with which so many records were read, good and bad ones."""
    return f"epoch: {records} records in all"
