"""``SHOW JOBS``, ``DESCRIBE JOB`` and ``STOP JOB``: statements on the jobs of this process."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from headrace.client import running
from headrace.client.job_client import JobClient
from headrace.common.errors import InvalidProgramError
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.table.environment.static import STRING, done, static_result
from headrace.table.environment.table_result import TableResult
from headrace.table.parse.tree.statements import DescribeJob, StopJob

_COLUMNS: Final[tuple[tuple[str, LogicalType], ...]] = (
    ("job id", STRING),
    ("job name", STRING),
    ("status", STRING),
    ("start time", AtomicType(TypeRoot.TIMESTAMP_LTZ, 3)),
)


def show_jobs() -> TableResult:
    """The jobs that run."""
    return _described(running.jobs())


def describe_job(statement: DescribeJob) -> TableResult:
    """One of the jobs that run.

    Raises:
        InvalidProgramError: when no job has the id.
    """
    return _described([_job(statement.job)])


def stop_job(statement: StopJob) -> TableResult:
    """End a job after its current epoch, with or without a savepoint.

    Raises:
        InvalidProgramError: when no job has the id.
        SavepointError: when no savepoint can be taken; the job then continues.
    """
    job = _job(statement.job)
    if not statement.with_savepoint:
        job.stop(drain=statement.with_drain).result()
        return done()
    path = job.stop_with_savepoint(advance_to_end_of_event_time=statement.with_drain).result()
    return static_result([("savepoint path", STRING)], [(path,)])


def _described(jobs: Iterable[JobClient]) -> TableResult:
    rows = []
    for job in sorted(jobs, key=lambda job: job.snapshot().history[0].time):
        snapshot = job.snapshot()
        started = datetime.fromtimestamp(snapshot.history[0].time / 1000, UTC)
        rows.append((str(job.get_job_id()), snapshot.name, snapshot.status.name, started))
    return static_result(_COLUMNS, rows)


def _job(job_id: str) -> JobClient:
    found = next((job for job in running.jobs() if str(job.get_job_id()) == job_id), None)
    if found is None:
        raise InvalidProgramError(f"no job with the id '{job_id}' runs in this process: SHOW JOBS lists those that do")
    return found
