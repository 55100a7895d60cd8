"""What a job has failed with."""

from collections.abc import Mapping, Sequence

from headrace.server.wire import model, wire


@model
class ExceptionInfo:
    """One failure."""

    exception_name: str = wire("exceptionName")
    stacktrace: str
    timestamp: int
    failure_labels: Mapping[str, str] = wire("failureLabels")
    task_name: str | None = wire("taskName", omits_none=True)
    endpoint: str | None = wire("endpoint", omits_none=True)
    task_manager_id: str | None = wire("taskManagerId", omits_none=True)
    concurrent_exceptions: Sequence[str] = wire("concurrentExceptions")


@model
class ExceptionHistory:
    """The last failures, the newest first."""

    entries: Sequence[ExceptionInfo]
    truncated: bool


@model
class JobExceptions:
    """What a job has failed with."""

    exception_history: ExceptionHistory = wire("exceptionHistory")


@model
class ApplicationExceptionInfo:
    """One failure of a job of an application."""

    exception_name: str = wire("exceptionName")
    stacktrace: str
    timestamp: int
    job_id: str = wire("jobId")


@model
class ApplicationExceptionHistory:
    """The last failures, the newest first."""

    entries: Sequence[ApplicationExceptionInfo]


@model
class ApplicationExceptions:
    """What the job of an application has failed with."""

    exception_history: ApplicationExceptionHistory = wire("exceptionHistory")
