"""The metrics of a job, as its last snapshot knows them."""

from headrace.jobmanager.metrics import MetricKey, totals
from headrace.jobmanager.status import JobSnapshot


def metrics_of(job: JobSnapshot, now: int) -> dict[MetricKey, float]:
    """All that a job measures, at a time in milliseconds; nothing before the first epoch of this run.

    Args:
        job: what is known of the job.
        now: the time; the job's clock may be ahead of it, and never goes back.
    """
    latest = job.latest
    if latest is None:
        return {}
    return {**totals(latest.counters, latest.operator_counters), **latest.metrics(max(now, latest.processing_time))}
