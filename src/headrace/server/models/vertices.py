"""Vertices, their subtasks, and where these run."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from headrace.server.models.jobs import IOMetricsInfo
from headrace.server.wire import model, wire


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
    """What the numbers of subtasks come to."""

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
    """How a subtask spends its time, in parts of it."""

    subtask: int
    level: Level = wire("backpressureLevel")
    level_too: Level = wire("backpressure-level")
    ratio: float
    idle_ratio: float = wire("idleRatio")
    busy_ratio: float = wire("busyRatio")


@model
class BackPressure:
    """How subtasks spend their time; ``deprecated`` while that is not measured."""

    status: Literal["ok", "deprecated"]
    level: Level | None = wire("backpressureLevel", omits_none=True)
    level_too: Level | None = wire("backpressure-level", omits_none=True)
    end_timestamp: int | None = wire("end-timestamp", omits_none=True)
    subtasks: Sequence[SubtaskBackPressure] | None = wire("subtasks", omits_none=True)


@model
class FlameGraph:
    """Where the time of a vertex goes: not measured."""

    end_timestamp: int = wire("endTimestamp")
