"""Jobs, what they consist of, what they have failed with, and what they measure."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.server.models.operations import FailureCause, QueueStatus
from headrace.server.wire import model, wire


@model
class JobIdWithStatus:
    """A job and how it fares."""

    id: str
    status: str


@model
class JobIdsWithStatusOverview:
    """The answer of ``/jobs``."""

    jobs: Sequence[JobIdWithStatus]


@model
class JobStatusInfo:
    """The status of a job."""

    status: str


@model
class JobDetails:
    """One line of a list of jobs."""

    jid: str
    name: str
    start_time: int = wire("start-time")
    end_time: int = wire("end-time")
    duration: int
    state: str
    last_modification: int = wire("last-modification")
    tasks: Mapping[str, int]
    pending_operators: int = wire("pending-operators")
    job_type: str = wire("jobType")
    scheduler_type: str = wire("schedulerType")


@model
class MultipleJobsDetails:
    """All jobs, in lines."""

    jobs: Sequence[JobDetails]


@model
class IOMetricsInfo:
    """The input and output of a vertex or a subtask since the job's first start; times of this run."""

    read_bytes: int = wire("read-bytes")
    read_bytes_complete: bool = wire("read-bytes-complete")
    write_bytes: int = wire("write-bytes")
    write_bytes_complete: bool = wire("write-bytes-complete")
    read_records: int = wire("read-records")
    read_records_complete: bool = wire("read-records-complete")
    write_records: int = wire("write-records")
    write_records_complete: bool = wire("write-records-complete")
    accumulated_backpressured_time: int = wire("accumulated-backpressured-time")
    accumulated_idle_time: int = wire("accumulated-idle-time")
    accumulated_busy_time: float = wire("accumulated-busy-time")


@model
class JobVertexDetailsInfo:
    """An operator of a job, with all its subtasks."""

    id: str
    slot_sharing_group_id: str = wire("slotSharingGroupId")
    name: str
    max_parallelism: int = wire("maxParallelism")
    parallelism: int
    status: str
    start_time: int = wire("start-time")
    end_time: int = wire("end-time")
    duration: int
    tasks: Mapping[str, int]
    metrics: IOMetricsInfo


@model
class PlanInput:
    """The input of a vertex."""

    num: int
    id: str
    ship_strategy: str
    exchange: str


@model
class PlanNode:
    """A vertex of a plan."""

    id: str
    parallelism: int
    operator: str
    operator_strategy: str
    description: str
    inputs: Sequence[PlanInput] | None = wire("inputs", omits_none=True)
    optimizer_properties: Mapping[str, Any]


@model
class Plan:
    """The graph of a job: an operator a vertex."""

    jid: str
    name: str
    type: str
    nodes: Sequence[PlanNode]


@model
class JobPlanInfo:
    """The answer of ``/jobs/:jobid/plan``."""

    plan: Plan


@model
class JobDetailsInfo:
    """All about a job that pages begin with."""

    jid: str
    name: str
    is_stoppable: bool = wire("isStoppable")
    state: str
    job_type: str = wire("job-type")
    scheduler_type: str = wire("schedulerType")
    application_id: str = wire("application-id")
    start_time: int = wire("start-time")
    end_time: int = wire("end-time")
    duration: int
    max_parallelism: int = wire("maxParallelism")
    now: int
    timestamps: Mapping[str, int]
    vertices: Sequence[JobVertexDetailsInfo]
    status_counts: Mapping[str, int] = wire("status-counts")
    plan: Plan
    pending_operators: int = wire("pending-operators")


@model
class ExecutionConfigInfo:
    """The execution settings of a job, as far as Flink's clients read them."""

    restart_strategy: str = wire("restart-strategy")
    job_parallelism: int = wire("job-parallelism")
    object_reuse_mode: bool = wire("object-reuse-mode")
    user_config: Mapping[str, str] = wire("user-config")


@model
class JobConfig:
    """The configuration of a job; secrets are masked."""

    jid: str
    name: str
    execution_config: ExecutionConfigInfo = wire("execution-config")


@model
class JobResultInfo:
    """The end of a job."""

    id: str
    application_status: str = wire("application-status")
    accumulator_results: Mapping[str, str] = wire("accumulator-results")
    net_runtime: int = wire("net-runtime")
    failure_cause: FailureCause | None = wire("failure-cause", omits_none=True)


@model
class JobExecutionResultBody:
    """The end of a job, once it has ended."""

    status: QueueStatus
    result: JobResultInfo | None = wire("job-execution-result", omits_none=True)


@model
class Application:
    """A job as an application, of which each has one."""

    id: str
    name: str
    start_time: int = wire("start-time")
    end_time: int = wire("end-time")
    duration: int
    status: str
    jobs: Mapping[str, int]


@model
class Applications:
    """All jobs as applications."""

    applications: Sequence[Application]


@model
class ApplicationDetails:
    """A job as an application, and itself."""

    id: str
    name: str
    status: str
    start_time: int = wire("start-time")
    end_time: int = wire("end-time")
    duration: int
    timestamps: Mapping[str, int]
    jobs: Sequence[JobDetails]


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
    """The failures of a job."""

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
    """The failures of the job of an application."""

    exception_history: ApplicationExceptionHistory = wire("exceptionHistory")


@model
class MetricInfo:
    """A metric: its name, and its value if that was requested."""

    id: str
    value: str | None = wire("value", omits_none=True)


@model
class AggregatedMetric:
    """The aggregates of one metric over jobs or subtasks; those that were not requested are left out."""

    id: str
    min: float | None = wire("min", omits_none=True)
    max: float | None = wire("max", omits_none=True)
    avg: float | None = wire("avg", omits_none=True)
    sum: float | None = wire("sum", omits_none=True)
    skew: float | None = wire("skew", omits_none=True)
