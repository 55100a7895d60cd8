"""Jobs: lists of them, all about one of them, its plan, and what it has failed with."""

import time
from collections.abc import Mapping
from typing import Any, Final

from headrace.common import scheduler_options as options
from headrace.common.configuration import masked
from headrace.common.job_execution_result import JobFailure
from headrace.common.job_status import JobStatus
from headrace.jobmanager.status import JobSnapshot
from headrace.plan.job_plan import JobPlan, PlanSettings
from headrace.server.archives import to_document
from headrace.server.errors import bad_request, conflict, failure_cause, not_found
from headrace.server.jobs import LOGS
from headrace.server.models.cluster import TextFile
from headrace.server.models.jobs import (
    Application,
    ApplicationDetails,
    ApplicationExceptionHistory,
    ApplicationExceptionInfo,
    ApplicationExceptions,
    Applications,
    ExceptionHistory,
    ExceptionInfo,
    ExecutionConfigInfo,
    JobConfig,
    JobDetails,
    JobDetailsInfo,
    JobExceptions,
    JobExecutionResultBody,
    JobIdsWithStatusOverview,
    JobIdWithStatus,
    JobPlanInfo,
    JobResultInfo,
    JobStatusInfo,
    MultipleJobsDetails,
)
from headrace.server.models.operations import QueueStatus
from headrace.server.requests import RestRequest
from headrace.server.topics import JobTopics
from headrace.server.vertices import counted, duration_of, end_of, plan_info, start_of, vertex_details, vertices_of


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
        scheduler_type="Default",
    )


def _type(job: JobSnapshot) -> str:
    return "BATCH" if job.plan is not None and job.plan.settings.is_batch else "STREAMING"


def job_details(request: RestRequest) -> JobDetailsInfo:
    """Return all about a job that pages begin with; without vertices before it has begun."""
    served, now = request.job(), now_millis()
    job, measured = served.snapshot(), served.measured()
    plan = job.plan or _no_plan(job)
    vertices = [vertex_details(vertex, job, measured, now) for vertex in vertices_of(plan)]
    return JobDetailsInfo(
        jid=job.job_id,
        name=job.name,
        is_stoppable=True,
        state=job.status.name,
        job_type=_type(job),
        scheduler_type="Default",
        application_id=job.job_id,
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


def _no_plan(job: JobSnapshot) -> JobPlan:
    """The plan of a job that is not planned yet."""
    return JobPlan(PlanSettings(job.name, 1, -1), (), 0)


def _reached(job: JobSnapshot, status: JobStatus) -> int:
    """Return the time at which a job had a status last; 0 where it never had."""
    return max((change.time for change in job.history if change.status is status), default=0)


def job_plan(request: RestRequest) -> JobPlanInfo:
    """Return the graph of a job."""
    served = request.job()
    return plan_info(served.plan(), served.snapshot().job_id)


def job_status(request: RestRequest) -> JobStatusInfo:
    """Return how a job fares."""
    return JobStatusInfo(request.job().snapshot().status.name)


def job_archive(request: RestRequest) -> dict[str, Any]:
    """Return all that is known of a job, as archives have it; secrets are masked."""
    served = request.job()
    return to_document(served.snapshot(), served.configuration, served.lineage(), served.at_work(), served.waits_for())


def job_lineage(request: RestRequest) -> dict[str, Any]:
    """Return the datasets of a job with their fields, and what each field that is written is made of."""
    found = request.job().lineage()
    if found is None:
        raise conflict("the job has not begun yet, or its archive is of a version without lineage")
    return dict(found)


def job_topics(request: RestRequest) -> JobTopics:
    """Return the topics that a job reads and writes, and their other readers."""
    return request.job().topics()


def job_log(request: RestRequest) -> TextFile:
    """Return the end of a log of a job of a dispatcher: `log`, or `stdout` for what its program has printed."""
    name = request.parameters["filename"]
    found = request.job().log(name, request.query.get("after", "")) if name in LOGS else None
    if found is None:
        raise not_found(f"there is no log {name!r} of the job: of a dispatcher's jobs there are {' and '.join(LOGS)}")
    return TextFile(found.text, found.position)


def job_configuration(request: RestRequest) -> JobConfig:
    """Return what a job was given; secrets are masked."""
    served = request.job()
    job, plan = served.snapshot(), served.plan()
    strategy = served.configuration.get(options.RESTART_STRATEGY) or "exponential-delay"
    given = ExecutionConfigInfo(strategy, plan.settings.parallelism, False, masked(plan.settings.parameters))
    return JobConfig(job.job_id, job.name, given)


def execution_result(request: RestRequest) -> JobExecutionResultBody:
    """Return how a job has ended, once it has."""
    job = request.job().snapshot()
    if job.end is None:
        return JobExecutionResultBody(QueueStatus("IN_PROGRESS"), None)
    cause = None if job.end.error is None else failure_cause(job.end.error)
    status = _APPLICATION_STATUS.get(job.status, "UNKNOWN")
    result = JobResultInfo(job.job_id, status, {}, duration_of(job, now_millis()), cause)
    return JobExecutionResultBody(QueueStatus("COMPLETED"), result)


_APPLICATION_STATUS: Final[Mapping[JobStatus, str]] = {
    JobStatus.FINISHED: "SUCCEEDED",
    JobStatus.CANCELED: "CANCELED",
    JobStatus.FAILED: "FAILED",
}


def applications(request: RestRequest) -> Applications:
    """Return all jobs as applications, of which each has one."""
    now = now_millis()
    return Applications([_application(job.snapshot(), now) for job in request.service.jobs.all()])


def application(request: RestRequest) -> ApplicationDetails:
    """Return a job as an application."""
    job, now = request.service.jobs.get(request.parameters["applicationid"]).snapshot(), now_millis()
    found = _application(job, now)
    names = ("CREATED", "RUNNING", "FAILING", "FAILED", "CANCELED", "FINISHED")
    return ApplicationDetails(
        id=found.id,
        name=found.name,
        status=found.status,
        start_time=found.start_time,
        end_time=found.end_time,
        duration=found.duration,
        timestamps={name: _reached(job, JobStatus[name]) for name in names} | {"CANCELING": 0},
        jobs=[_line(job, now)],
    )


def _application(job: JobSnapshot, now: int) -> Application:
    is_over = job.status.is_terminal_state()
    status = job.status.name if is_over or job.status is JobStatus.CREATED else JobStatus.RUNNING.name
    return Application(
        job.job_id, job.name, start_of(job), end_of(job), duration_of(job, now), status, {job.status.name: 1}
    )


_MOST_EXCEPTIONS: Final = 20
"""The number of exceptions that are shown unless the request says another."""


def exceptions(request: RestRequest) -> JobExceptions:
    """Return the last failures of a job, of earlier runs too, the newest first."""
    served = request.job()
    job, most, labels = served.snapshot(), request.number("maxExceptions", _MOST_EXCEPTIONS), _labels(request)
    chosen = [failure for failure in reversed(job.failures) if labels.items() <= failure.labels.items()]
    return JobExceptions(
        ExceptionHistory([_exception_info(each, job, served.place) for each in chosen[:most]], len(chosen) > most)
    )


def application_exceptions(request: RestRequest) -> ApplicationExceptions:
    """Return the last failures of the job of an application."""
    job = request.service.jobs.get(request.parameters["applicationid"]).snapshot()
    entries = [
        ApplicationExceptionInfo(failure.error, f"{failure.error}: {failure.message}", failure.time, job.job_id)
        for failure in reversed(job.failures)
    ]
    return ApplicationExceptions(ApplicationExceptionHistory(entries))


def _exception_info(failure: JobFailure, job: JobSnapshot, place: Mapping[str, str]) -> ExceptionInfo:
    origin = failure.origin
    return ExceptionInfo(
        exception_name=failure.error,
        stacktrace=f"{failure.error}: {failure.message}",
        timestamp=failure.time,
        failure_labels=failure.labels,
        task_name=None if origin is None else _task(origin.uid, origin.operator, origin.subtask, failure, job),
        endpoint=None if origin is None else origin.executor or place["host"],
        task_manager_id=None if origin is None else place["tm_id"],
        concurrent_exceptions=(),
    )


def _task(uid: str, name: str, subtask: int, failure: JobFailure, job: JobSnapshot) -> str:
    """A subtask as Flink names it: ``parse (2/4) - execution #0``."""
    planned = () if job.plan is None else job.plan.operators()
    parallelism = next((each.parallelism for each in planned if each.uid == uid), subtask + 1)
    return f"{name} ({subtask + 1}/{parallelism}) - execution #{failure.restarts}"


def _labels(request: RestRequest) -> dict[str, str]:
    """The labels that failures have to have, ``key:value,key:value``."""
    found = {}
    for pair in request.names("failureLabelFilter"):
        key, colon, value = pair.partition(":")
        if not colon:
            raise bad_request(f"failureLabelFilter: pairs such as type:user, not {pair!r}")
        found[key] = value
    return found
