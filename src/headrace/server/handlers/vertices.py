"""Vertices of a job: their subtasks, counters, and how they spend their time."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from headrace.jobmanager.status import JobSnapshot
from headrace.metrics.registry import BACK_PRESSURED_RATE, BUSY_RATE, IDLE_RATE
from headrace.server.handlers.jobs import now_millis
from headrace.server.job_metrics import JobMetrics, percentile
from headrace.server.models.jobs import IOMetricsInfo
from headrace.server.requests import RestRequest
from headrace.server.vertices import (
    TASK_STATES,
    JobVertex,
    counted,
    duration_of,
    end_of,
    io_metrics,
    start_of,
    state_of_tasks,
    subtask_of,
    vertex_of,
)
from headrace.server.wire import model, wire, wire_fields


@model
class SubtaskInfo:
    """One subtask; all attempts of its epochs are one to clients."""

    subtask: int
    status: str
    attempt: int
    endpoint: str
    start_time: int = wire("start-time")
    start_time_too: int = wire("start_time")
    end_time: int = wire("end-time")
    duration: int
    metrics: IOMetricsInfo
    taskmanager_id: str = wire("taskmanager-id")
    status_duration: Mapping[str, int] = wire("status-duration")


@model
class Aggregated:
    """The aggregates of a number over subtasks."""

    metrics: Mapping[str, Mapping[str, int]]
    status_duration: Mapping[str, Mapping[str, int]] = wire("status-duration")


@model
class VertexInfo:
    """A vertex, subtask by subtask."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int = wire("maxParallelism")
    now: int
    subtasks: Sequence[SubtaskInfo]
    aggregated: Aggregated


@model
class SubtaskTimes:
    """The times at which a subtask had each state."""

    subtask: int
    endpoint: str
    duration: int
    timestamps: Mapping[str, int]


@model
class VertexTimes:
    """The times at which subtasks had each state."""

    id: str
    name: str
    now: int
    subtasks: Sequence[SubtaskTimes]


@model
class VertexOnTaskManager:
    """The subtasks of a vertex at one place."""

    endpoint: str
    status: str
    start_time: int = wire("start-time")
    end_time: int = wire("end-time")
    duration: int
    metrics: IOMetricsInfo
    status_counts: Mapping[str, int] = wire("status-counts")
    taskmanager_id: str = wire("taskmanager-id")
    aggregated: Aggregated


@model
class VertexTaskManagers:
    """The processes in which a vertex runs."""

    id: str
    name: str
    now: int
    taskmanagers: Sequence[VertexOnTaskManager]


@model
class Accumulator:
    """A counter of the program."""

    name: str
    type: str
    value: str


@model
class VertexAccumulators:
    """The counters of a vertex."""

    id: str
    user_accumulators: Sequence[Accumulator] = wire("user-accumulators")


@model
class SubtaskAccumulators:
    """The counters of a subtask."""

    subtask: int
    attempt: int
    endpoint: str
    user_accumulators: Sequence[Accumulator] = wire("user-accumulators")


@model
class SubtasksAccumulators:
    """The counters of a vertex, subtask by subtask."""

    id: str
    parallelism: int
    subtasks: Sequence[SubtaskAccumulators]


@model
class JobAccumulators:
    """The counters of a job."""

    job_accumulators: Sequence[Any] = wire("job-accumulators")
    user_task_accumulators: Sequence[Accumulator] = wire("user-task-accumulators")
    serialized_user_task_accumulators: Mapping[str, str] = wire("serialized-user-task-accumulators")


Level = Literal["ok", "low", "high"]


@model
class SubtaskBackPressure:
    """The time of a subtask, in parts of it."""

    subtask: int
    level: Level = wire("backpressureLevel")
    level_too: Level = wire("backpressure-level")
    ratio: float
    idle_ratio: float = wire("idleRatio")
    busy_ratio: float = wire("busyRatio")


@model
class BackPressure:
    """The time of subtasks; ``deprecated`` while it is not measured."""

    status: Literal["ok", "deprecated"]
    level: Level | None = wire("backpressureLevel", omits_none=True)
    level_too: Level | None = wire("backpressure-level", omits_none=True)
    end_timestamp: int | None = wire("end-timestamp", omits_none=True)
    subtasks: Sequence[SubtaskBackPressure] | None = wire("subtasks", omits_none=True)


@model
class FlameGraph:
    """The flame graph of a vertex: not measured."""

    end_timestamp: int = wire("endTimestamp")


_LITTLE: Final = 0.1
_MUCH: Final = 0.5
"""Above these parts of its time that a subtask has to wait for others, Flink calls its back-pressure low, and high."""


def vertex(request: RestRequest) -> VertexInfo:
    """Return a vertex, subtask by subtask."""
    known, job, _, now = _seen(request)
    subtasks = [_subtask(request, known, number) for number in range(known.planned.parallelism)]
    planned = known.planned
    return VertexInfo(
        id=known.id,
        name=planned.node.name,
        parallelism=planned.parallelism,
        max_parallelism=planned.max_parallelism,
        now=now,
        subtasks=subtasks,
        aggregated=_aggregated([each.metrics for each in subtasks], job, now),
    )


def subtask(request: RestRequest) -> SubtaskInfo:
    """Return one subtask."""
    known, _, _, _ = _seen(request)
    return _subtask(request, known, subtask_of(known, request.parameters["subtaskindex"]))


def subtask_times(request: RestRequest) -> VertexTimes:
    """Return when subtasks had which state."""
    known, job, _, now = _seen(request)
    times = dict.fromkeys(TASK_STATES, 0) | {"CREATED": start_of(job), state_of_tasks(job): job.history[-1].time}
    endpoint = request.job().place["host"]
    subtasks = [
        SubtaskTimes(number, endpoint, duration_of(job, now), times) for number in range(known.planned.parallelism)
    ]
    return VertexTimes(known.id, known.planned.node.name, now, subtasks)


def task_managers(request: RestRequest) -> VertexTaskManagers:
    """Return where a vertex runs: the process of the job, which has its tasks run."""
    known, job, measured, now = _seen(request)
    each = [io_metrics(measured, known.planned.uid, number) for number in range(known.planned.parallelism)]
    place = request.job().place
    there = VertexOnTaskManager(
        endpoint=place["host"],
        status=state_of_tasks(job),
        start_time=start_of(job),
        end_time=end_of(job),
        duration=duration_of(job, now),
        metrics=io_metrics(measured, known.planned.uid),
        status_counts=counted(known.planned.parallelism, job),
        taskmanager_id=place["tm_id"],
        aggregated=_aggregated(each, job, now),
    )
    return VertexTaskManagers(known.id, known.planned.node.name, now, [there])


def accumulators(request: RestRequest) -> VertexAccumulators:
    """Return the counters of a vertex."""
    known, job, _, _ = _seen(request)
    return VertexAccumulators(known.id, _counters(job, known.planned.uid))


def subtask_accumulators(request: RestRequest) -> SubtasksAccumulators:
    """Return the counters of a vertex, subtask by subtask."""
    known, job, _, _ = _seen(request)
    endpoint, uid = request.job().place["host"], known.planned.uid
    each = [
        SubtaskAccumulators(number, job.restarts, endpoint, _counters(job, uid, number))
        for number in range(known.planned.parallelism)
    ]
    return SubtasksAccumulators(known.id, known.planned.parallelism, each)


def job_accumulators(request: RestRequest) -> JobAccumulators:
    """Return the counters of a job, of operators under their names."""
    served = request.job()
    job, names = served.snapshot(), served.plan().shown_names()
    found = [Accumulator(name, "LongCounter", str(total)) for name, total in _own_counters(job).items()]
    for uid, name in names.items():
        found += [Accumulator(f"{name}.{each.name}", each.type, each.value) for each in _counters(job, uid)]
    return JobAccumulators((), found, {})


def back_pressure(request: RestRequest) -> BackPressure:
    """Return how the subtasks of a vertex spend their time."""
    known, job, measured, now = _seen(request)
    by_subtask = measured.of_operator(known.planned.uid)
    found = [_spent(number, dict(each)) for number, each in sorted(by_subtask.items()) if BUSY_RATE in each]
    if not found or job.status.is_terminal_state():
        return BackPressure("deprecated", None, None, None, None)
    level = _level(max(each.ratio for each in found))
    return BackPressure("ok", level, level, now, found)


def flame_graph(request: RestRequest) -> FlameGraph:
    """Return that there are no flame graphs, as Flink does where they are off."""
    return FlameGraph(_OFF)


_OFF: Final = -2


def _spent(number: int, measured: dict[str, object]) -> SubtaskBackPressure:
    def ratio(name: str) -> float:
        value = measured.get(name)
        return value / 1000 if isinstance(value, int | float) else 0.0

    waits = ratio(BACK_PRESSURED_RATE)
    return SubtaskBackPressure(number, _level(waits), _level(waits), waits, ratio(IDLE_RATE), ratio(BUSY_RATE))


def _level(ratio: float) -> Level:
    return "high" if ratio > _MUCH else "low" if ratio > _LITTLE else "ok"


def _seen(request: RestRequest) -> tuple[JobVertex, JobSnapshot, JobMetrics, int]:
    served = request.job()
    known = vertex_of(served.plan(), request.parameters["vertexid"])
    return known, served.snapshot(), served.measured(), now_millis()


def _subtask(request: RestRequest, known: JobVertex, number: int) -> SubtaskInfo:
    served, now = request.job(), now_millis()
    job, place = served.snapshot(), served.place
    return SubtaskInfo(
        subtask=number,
        status=state_of_tasks(job),
        attempt=job.restarts,
        endpoint=place["host"],
        start_time=start_of(job),
        start_time_too=start_of(job),
        end_time=end_of(job),
        duration=duration_of(job, now),
        metrics=io_metrics(served.measured(), known.planned.uid, number),
        taskmanager_id=place["tm_id"],
        status_duration={state_of_tasks(job): max(0, now - job.history[-1].time)},
    )


def _aggregated(each: Sequence[IOMetricsInfo], job: JobSnapshot, now: int) -> Aggregated:
    names = {name: field for field, name, _ in wire_fields(IOMetricsInfo) if not name.endswith("-complete")}
    metrics = {name: _spread([int(getattr(one, field)) for one in each]) for name, field in names.items()}
    lasted = _spread([max(0, now - job.history[-1].time)] * len(each))
    return Aggregated(metrics, {state_of_tasks(job): lasted})


def _spread(numbers: Sequence[int]) -> dict[str, int]:
    found = sorted(numbers) or [0]
    parts = {"median": 50, "p25": 25, "p75": 75, "p95": 95}
    statistics = {"min": found[0], "max": found[-1], "avg": sum(found) // len(found), "sum": sum(found)}
    return statistics | {name: int(percentile(found, part)) for name, part in parts.items()}


def _own_counters(job: JobSnapshot) -> dict[str, int]:
    return {} if job.latest is None else dict(job.latest.counters)


def _counters(job: JobSnapshot, uid: str, subtask: int | None = None) -> list[Accumulator]:
    counters = {} if job.latest is None else job.latest.operator_counters.get(uid, {})
    totals = {
        name: sum(values) if subtask is None else (values[subtask] if subtask < len(values) else 0)
        for name, values in counters.items()
    }
    return [Accumulator(name, "LongCounter", str(total)) for name, total in totals.items()]
