"""A job's progress as plain lines: for logs, pipes and terminals that cannot be redrawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.progress import wording
from headrace.common.job_status import JobStatus

if TYPE_CHECKING:
    from headrace.client.progress.job_progress import JobProgress
    from headrace.jobmanager.progress import JobEnd


def progress_line(job: JobProgress) -> str:
    """Where the job is now."""
    latest = job.latest
    status = f"{JobStatus.RESTARTING.name}, " if job.is_restarting else ""
    if latest is None:
        return f"{job.name}: {status}{', '.join(filter(None, ('no epoch yet', job.silence)))}{_trouble(job)}"
    parts = [
        f"epoch {latest.epoch}",
        wording.count(job.records, "record"),
        wording.rate(job.meter.rate()),
        f"watermark {wording.watermark(latest.watermark, latest.watermark_lag)}{', idle' if job.is_idle else ''}",
        f"state {wording.size(latest.state_bytes)}",
        f"{wording.count(job.late_records, 'late record')} dropped",
    ]
    if latest.pending_records:
        parts.append(f"{wording.count(latest.pending_records, 'record')} pending")
    if latest.is_processing_backlog:
        parts.append("processing a backlog")
    if job.skipped_files:
        parts.append(job.skipped_files)
    if latest.pending_commits:
        parts.append(wording.count(latest.pending_commits, "pending commit"))
    if job.silence:
        parts.append(job.silence)
    return f"{job.name}: {status}{', '.join(parts)}{_trouble(job)}"


def _trouble(job: JobProgress) -> str:
    return f"; {job.note}" if job.note else ""


def last_line(job: JobProgress, end: JobEnd) -> str:
    """How the job ended, and what it has done in this run."""
    seconds = job.seconds
    rate = wording.rate(job.records / seconds if seconds > 0 else 0.0)
    what = f"{wording.count(job.records, 'record')} in {wording.span(seconds)} ({rate})"
    late = f", {wording.count(job.late_records, 'late record')} dropped" if job.late_records else ""
    skipped = f", {job.skipped_files}" if job.skipped_files else ""
    return f"job {job.name!r} {end}: {what}{late}{skipped}"
