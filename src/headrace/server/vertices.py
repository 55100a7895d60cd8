"""The vertices of a job's graph, as Flink's REST API has them: an operator each.

In Flink a vertex is a chain of operators. Here a stage runs the operators of all branches, so a stage is no vertex of
the graph that the program made; an operator is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Final

from headrace.common.job_status import JobStatus
from headrace.jobmanager.status import JobSnapshot
from headrace.metrics.registry import (
    BACK_PRESSURED_TIME,
    BUSY_TIME,
    BYTES_IN,
    BYTES_OUT,
    IDLE_TIME,
    RECORDS_IN,
    RECORDS_OUT,
)
from headrace.plan.job_plan import JobPlan, PlannedEdge, PlannedOperator, operator_id
from headrace.server.errors import not_found
from headrace.server.job_metrics import JobMetrics
from headrace.server.models.jobs import (
    IOMetricsInfo,
    JobPlanInfo,
    JobVertexDetailsInfo,
    Plan,
    PlanInput,
    PlanNode,
)

TASK_STATES: Final = (
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
    "INITIALIZING",
)
"""The states of a task in Flink."""

_STATE_OF_TASKS: Final[Mapping[JobStatus, str]] = {
    JobStatus.CREATED: "INITIALIZING",
    JobStatus.RUNNING: "RUNNING",
    JobStatus.RESTARTING: "SCHEDULED",
    JobStatus.FAILING: "CANCELING",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELLING: "CANCELING",
    JobStatus.CANCELED: "CANCELED",
    JobStatus.FINISHED: "FINISHED",
    JobStatus.SUSPENDED: "FINISHED",
    JobStatus.RECONCILING: "RECONCILING",
}


@dataclass(frozen=True, slots=True)
class JobVertex:
    """An operator of a job.

    Attributes:
        id: 32 hexadecimal digits, as Flink's clients want them, made of the uid.
        planned: the operator.
    """

    id: str
    planned: PlannedOperator


def vertices_of(plan: JobPlan) -> list[JobVertex]:
    """All vertices, producers before consumers."""
    return [JobVertex(operator_id(planned.uid), planned) for planned in plan.operators()]


def vertex_of(plan: JobPlan, vertex: str) -> JobVertex:
    """A vertex by its id.

    Raises:
        RestError: when there is none.
    """
    for known in vertices_of(plan):
        if known.id == vertex:
            return known
    raise not_found(f"Vertex {vertex} not found")


def state_of_tasks(job: JobSnapshot) -> str:
    """The state that all tasks of a job have: in an epoch each of them runs once."""
    return _STATE_OF_TASKS[job.status]


def counted(tasks: int, job: JobSnapshot) -> dict[str, int]:
    """Return the number of tasks in each state."""
    return dict.fromkeys(TASK_STATES, 0) | {state_of_tasks(job): tasks}


def slots_of(jobs: list[JobSnapshot]) -> int:
    """Return the largest number of tasks that may run at the same time, of jobs that have not ended."""
    plans = [job.plan for job in jobs if job.plan is not None and not job.status.is_terminal_state()]
    return sum(max(stage.parallelism for stage in plan.stages) for plan in plans)


def tasks_of(job: JobSnapshot) -> int:
    """Return the number of subtasks of all operators; none of a job that has ended."""
    if job.plan is None or job.status.is_terminal_state():
        return 0
    return sum(planned.parallelism for planned in job.plan.operators())


def start_of(job: JobSnapshot) -> int:
    """Return the time at which this run was submitted, in milliseconds."""
    return job.history[0].time


def end_of(job: JobSnapshot) -> int:
    """Return the time at which the run ended; -1 before."""
    return job.history[-1].time if job.status.is_terminal_state() else -1


def duration_of(job: JobSnapshot, now: int) -> int:
    """Return the time that the job has run, in milliseconds."""
    return (now if end_of(job) < 0 else end_of(job)) - start_of(job)


def io_metrics(measured: JobMetrics, uid: str, subtask: int | None = None) -> IOMetricsInfo:
    """Return what came into an operator and left it, for one subtask or all; what is not measured is not complete."""

    def total(name: str) -> tuple[int, bool]:
        value = measured.total(uid, name, subtask)
        return (0, False) if value is None else (int(value), True)

    return IOMetricsInfo(
        *total(BYTES_IN),
        *total(BYTES_OUT),
        *total(RECORDS_IN),
        *total(RECORDS_OUT),
        total(BACK_PRESSURED_TIME)[0],
        total(IDLE_TIME)[0],
        float(total(BUSY_TIME)[0]),
    )


def vertex_details(vertex: JobVertex, job: JobSnapshot, measured: JobMetrics, now: int) -> JobVertexDetailsInfo:
    """A line of the list of vertices."""
    planned = vertex.planned
    return JobVertexDetailsInfo(
        id=vertex.id,
        slot_sharing_group_id=operator_id(f"stage {planned.stage}"),
        name=planned.node.name,
        max_parallelism=planned.max_parallelism,
        parallelism=planned.parallelism,
        status=state_of_tasks(job),
        start_time=start_of(job),
        end_time=end_of(job),
        duration=duration_of(job, now),
        tasks=counted(planned.parallelism, job),
        metrics=io_metrics(measured, planned.uid),
    )


def plan_info(plan: JobPlan, job_id: str) -> JobPlanInfo:
    """The graph of a job."""
    ids = {vertex.planned.node.id: vertex.id for vertex in vertices_of(plan)}
    nodes = tuple(_node(vertex, ids) for vertex in vertices_of(plan))
    kind = "BATCH" if plan.settings.is_batch else "STREAMING"
    return JobPlanInfo(Plan(job_id, plan.name, kind, nodes))


def _node(vertex: JobVertex, ids: Mapping[int, str]) -> PlanNode:
    planned = vertex.planned
    return PlanNode(
        id=vertex.id,
        parallelism=planned.parallelism,
        operator="",
        operator_strategy="",
        description=escape(planned.node.description or planned.node.name),
        inputs=tuple(_input(edge, ids) for edge in planned.inputs) or None,
        optimizer_properties={},
    )


def _input(edge: PlannedEdge, ids: Mapping[int, str]) -> PlanInput:
    exchange = "blocking" if edge.is_exchange else "chained"
    return PlanInput(edge.input_index, ids[edge.source], edge.partitioning.label, exchange)


def subtask_of(vertex: JobVertex, number: str) -> int:
    """A subtask by its number.

    Raises:
        RestError: when there is none.
    """
    if not number.isdecimal() or int(number[:9]) >= vertex.planned.parallelism or len(number) > 9:
        raise not_found(f"Invalid subtask index for vertex {vertex.id}: {number}")
    return int(number)
