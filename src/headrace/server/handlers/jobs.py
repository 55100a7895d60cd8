"""Jobs: lists of them, all about one of them, and its plan."""

import time

from headrace.common.job_status import JobStatus
from headrace.jobmanager.status import JobSnapshot
from headrace.server.measured import metrics_of
from headrace.server.models.jobs import (
    JobDetails,
    JobDetailsInfo,
    JobIdsWithStatusOverview,
    JobIdWithStatus,
    JobPlanInfo,
    JobStatusInfo,
    MultipleJobsDetails,
)
from headrace.server.requests import RestRequest
from headrace.server.vertices import (
    counted,
    duration_of,
    end_of,
    plan_info,
    start_of,
    vertex_details,
    vertices_of,
)


def now_millis() -> int:
    """The time of the system's clock."""
    return time.time_ns() // 1_000_000


def job_ids(request: RestRequest) -> JobIdsWithStatusOverview:
    """Return all jobs by their ids."""
    jobs = [job.snapshot() for job in request.service.jobs.all()]
    return JobIdsWithStatusOverview([JobIdWithStatus(job.job_id, job.status.name) for job in jobs])


def jobs_overview(request: RestRequest) -> MultipleJobsDetails:
    """Return all jobs, a line each."""
    now = now_millis()
    return MultipleJobsDetails([_line(job.snapshot(), now) for job in request.service.jobs.all()])


def _line(job: JobSnapshot, now: int) -> JobDetails:
    tasks = 0 if job.plan is None else sum(planned.parallelism for planned in job.plan.operators())
    return JobDetails(
        jid=job.job_id,
        name=job.name,
        start_time=start_of(job),
        end_time=end_of(job),
        duration=duration_of(job, now),
        state=job.status.name,
        last_modification=job.history[-1].time,
        tasks={"total": tasks, **{state.lower(): number for state, number in counted(tasks, job).items()}},
        pending_operators=0,
        job_type=_type(job),
    )


def _type(job: JobSnapshot) -> str:
    return "BATCH" if job.plan is not None and job.plan.settings.is_batch else "STREAMING"


def job_details(request: RestRequest) -> JobDetailsInfo:
    """Return all about a job that pages begin with."""
    served, now = request.job(), now_millis()
    plan, job = served.plan(), served.snapshot()
    metrics = metrics_of(job, now)
    vertices = [vertex_details(vertex, job, metrics, now) for vertex in vertices_of(plan)]
    return JobDetailsInfo(
        jid=job.job_id,
        name=job.name,
        is_stoppable=True,
        state=job.status.name,
        job_type=_type(job),
        start_time=start_of(job),
        end_time=end_of(job),
        duration=duration_of(job, now),
        max_parallelism=plan.settings.max_parallelism,
        now=now,
        timestamps={status.name: _reached(job, status) for status in JobStatus},
        vertices=vertices,
        status_counts=counted(len(vertices), job),
        plan=plan_info(plan, job.job_id).plan,
        pending_operators=0,
    )


def _reached(job: JobSnapshot, status: JobStatus) -> int:
    """When a job had a status last; 0 where it never had."""
    return max((change.time for change in job.history if change.status is status), default=0)


def job_plan(request: RestRequest) -> JobPlanInfo:
    """Return the graph of a job."""
    served = request.job()
    return plan_info(served.plan(), served.snapshot().job_id)


def job_status(request: RestRequest) -> JobStatusInfo:
    """Return how a job fares."""
    return JobStatusInfo(request.job().snapshot().status.name)
