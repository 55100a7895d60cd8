"""The process: its overview, and what dashboards have to know."""

import time
from collections import Counter
from typing import Final

import headrace
from headrace.common import options
from headrace.common.job_status import JobStatus
from headrace.jobmanager.status import JobSnapshot
from headrace.server.models.cluster import (
    ClusterOverview,
    DashboardConfiguration,
    DashboardFeatures,
    Health,
)
from headrace.server.requests import RestRequest

FLINK_VERSION: Final = "2.3.0"
"""The version of Flink whose API this is; its clients look at it."""


def overview(request: RestRequest) -> ClusterOverview:
    """How many slots and jobs there are."""
    jobs = [job.snapshot() for job in request.service.jobs.all()]
    statuses = Counter(job.status for job in jobs)
    ended = sum(number for status, number in statuses.items() if status.is_terminal_state())
    plans = [job.plan for job in jobs if job.plan is not None and not job.status.is_terminal_state()]
    slots = sum(max(stage.parallelism for stage in plan.stages) for plan in plans)
    return ClusterOverview(
        taskmanagers=1 if plans else 0,
        taskmanagers_blocked=0,
        slots_total=slots,
        slots_available=0,
        slots_free_and_blocked=0,
        jobs_running=len(jobs) - ended,
        jobs_finished=statuses[JobStatus.FINISHED] + statuses[JobStatus.SUSPENDED],
        jobs_cancelled=statuses[JobStatus.CANCELED],
        jobs_failed=statuses[JobStatus.FAILED],
        flink_version=FLINK_VERSION,
        flink_commit=f"headrace {headrace.__version__}",
    )


def dashboard_configuration(request: RestRequest) -> DashboardConfiguration:
    """What a dashboard asks for first."""
    offset = time.localtime().tm_gmtoff
    return DashboardConfiguration(
        refresh_interval=options.REFRESH_INTERVAL.default,
        timezone_name=time.localtime().tm_zone,
        timezone_offset=offset * 1000,
        flink_version=FLINK_VERSION,
        flink_revision=f"headrace {headrace.__version__}",
        features=DashboardFeatures(web_submit=False, web_cancel=True, web_rescale=True, web_history=False),
    )


def health(request: RestRequest) -> Health:
    """Whether the server answers: it does."""
    return Health("ok", {job.name: job.status.name for job in _snapshots(request)})


def _snapshots(request: RestRequest) -> list[JobSnapshot]:
    return [job.snapshot() for job in request.service.jobs.all()]
