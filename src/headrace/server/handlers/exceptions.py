"""What jobs have failed with."""

from collections.abc import Mapping
from typing import Final

from headrace.common.job_execution_result import JobFailure
from headrace.jobmanager.status import JobSnapshot
from headrace.server.errors import bad_request
from headrace.server.models.jobs import (
    ApplicationExceptionHistory,
    ApplicationExceptionInfo,
    ApplicationExceptions,
    ExceptionHistory,
    ExceptionInfo,
    JobExceptions,
)
from headrace.server.requests import RestRequest

_MOST: Final = 20
"""The number of exceptions that are shown unless the request says another."""


def exceptions(request: RestRequest) -> JobExceptions:
    """Return the last failures of a job, of earlier runs too, the newest first."""
    served = request.job()
    job, most, labels = served.snapshot(), request.number("maxExceptions", _MOST), _labels(request)
    chosen = [failure for failure in reversed(job.failures) if labels.items() <= failure.labels.items()]
    return JobExceptions(
        ExceptionHistory([_told(each, job, served.place) for each in chosen[:most]], len(chosen) > most)
    )


def application_exceptions(request: RestRequest) -> ApplicationExceptions:
    """Return the last failures of the job of an application."""
    job = request.service.jobs.get(request.parameters["applicationid"]).snapshot()
    entries = [
        ApplicationExceptionInfo(failure.error, f"{failure.error}: {failure.message}", failure.time, job.job_id)
        for failure in reversed(job.failures)
    ]
    return ApplicationExceptions(ApplicationExceptionHistory(entries))


def _told(failure: JobFailure, job: JobSnapshot, place: Mapping[str, str]) -> ExceptionInfo:
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
