"""Checkpoints of a job: every epoch ends in one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.checkpoint.manifest_folder import name_of
from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.jobmanager.events import EpochStatistics, SavepointStatus
from headrace.jobmanager.status import JobSnapshot
from headrace.plan.job_plan import PlannedOperator
from headrace.server.errors import not_found
from headrace.server.job_metrics import percentile
from headrace.server.requests import RestRequest
from headrace.server.vertices import JobVertex, vertex_of, vertices_of
from headrace.server.wire import model, parts_of, wire


@model
class CheckpointCounts:
    """The checkpoints of this run, counted."""

    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


@model
class StatsSummary:
    """The distribution of some numbers."""

    min: int
    max: int
    avg: int
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float


@model
class CheckpointSummary:
    """A summary of the last checkpoints."""

    checkpointed_size: StatsSummary
    state_size: StatsSummary
    end_to_end_duration: StatsSummary
    alignment_buffered: StatsSummary
    processed_data: StatsSummary
    persisted_data: StatsSummary


@model
class TaskCheckpointStatistics:
    """The part of one vertex in a checkpoint; the sizes of vertices are not measured."""

    id: int
    status: str
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int


@model
class CheckpointStatistics:
    """One checkpoint; ``checkpointed_size`` is that of all its state, to whose files it refers."""

    class_name: str = wire("className")
    id: int
    status: str
    is_savepoint: bool
    savepoint_format: str | None = wire("savepointFormat")
    trigger_timestamp: int
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    checkpoint_type: str
    tasks: Mapping[str, TaskCheckpointStatistics]
    external_path: str | None = wire("external_path", omits_none=True)
    discarded: bool | None = wire("discarded", omits_none=True)
    failure_timestamp: int | None = wire("failure_timestamp", omits_none=True)
    failure_message: str | None = wire("failure_message", omits_none=True)


@model
class RestoredCheckpoint:
    """The checkpoint that the job has gone on from."""

    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str | None


@model
class LatestCheckpoints:
    """The last one of each kind."""

    completed: CheckpointStatistics | None
    savepoint: CheckpointStatistics | None
    failed: CheckpointStatistics | None
    restored: RestoredCheckpoint | None


@model
class CheckpointingStatistics:
    """The checkpoints of this run."""

    counts: CheckpointCounts
    summary: CheckpointSummary
    latest: LatestCheckpoints
    history: Sequence[CheckpointStatistics]


@model
class Externalization:
    """The externalization of checkpoints: whether they outlast the job."""

    enabled: bool
    delete_on_cancellation: bool


@model
class CheckpointConfiguration:
    """The configuration of checkpoints; settings that only Flink has are as they are there by default."""

    mode: str
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool
    state_changelog_enabled: bool
    changelog_periodic_materialization_interval: int
    changelog_storage: str


@model
class SubtaskCheckpointStatistics:
    """The part of one subtask in a checkpoint."""

    class_name: str = wire("className")
    index: int
    status: str
    ack_timestamp: int
    end_to_end_duration: int
    checkpointed_size: int
    state_size: int
    checkpoint: Mapping[str, int]
    alignment: Mapping[str, int]
    start_delay: int
    unaligned_checkpoint: bool
    aborted: bool


@model
class SubtasksSummary:
    """The distribution of the parts of the subtasks."""

    checkpointed_size: StatsSummary
    state_size: StatsSummary
    end_to_end_duration: StatsSummary
    checkpoint_duration: Mapping[str, StatsSummary]
    alignment: Mapping[str, StatsSummary]
    start_delay: StatsSummary


@model
class VertexCheckpointStatistics(TaskCheckpointStatistics):
    """The part of one vertex in a checkpoint, subtask by subtask."""

    summary: SubtasksSummary
    subtasks: Sequence[SubtaskCheckpointStatistics]


_COMPLETED: Final = "COMPLETED"
_PERCENTILES: Final = (50, 90, 95, 99, 99.9)


def checkpoints(request: RestRequest) -> CheckpointingStatistics:
    """Return the checkpoints of this run, the last ones one by one."""
    served = request.job()
    job, configuration = served.snapshot(), served.configuration
    completed = [_completed(epoch, job, configuration) for epoch in reversed(job.epochs)]
    failed = _last_failed(job)
    savepoint = next((each for each in reversed(job.savepoints) if each.place), None)
    return CheckpointingStatistics(
        counts=_counts(job),
        summary=_summary(job.epochs),
        latest=LatestCheckpoints(
            completed=completed[0] if completed else None,
            savepoint=None if savepoint is None else _savepoint(savepoint, job),
            failed=failed,
            restored=_restored(job, configuration),
        ),
        history=completed,
    )


def checkpoint_details(request: RestRequest) -> CheckpointStatistics:
    """Return one checkpoint, with the parts of all vertices."""
    served = request.job()
    job, epoch = served.snapshot(), _epoch(request)
    tasks = {vertex.id: _of_vertex(vertex, epoch) for vertex in vertices_of(served.plan())}
    return replace(_completed(epoch, job, served.configuration), tasks=tasks)


def checkpoint_of_vertex(request: RestRequest) -> VertexCheckpointStatistics:
    """Return the part of one vertex in a checkpoint, subtask by subtask."""
    served, epoch = request.job(), _epoch(request)
    vertex = vertex_of(served.plan(), request.parameters["vertexid"])
    own, nothing = _of_vertex(vertex, epoch), _spread([0])
    sizes, duration = state_sizes(vertex.planned, epoch), _spread([_millis(epoch.checkpointing)])
    spread = _spread(sizes)
    parts = ("buffered", "processed", "persisted", "duration")
    subtasks = [
        SubtaskCheckpointStatistics(
            class_name="completed",
            index=index,
            status="completed",
            ack_timestamp=own.latest_ack_timestamp,
            end_to_end_duration=own.end_to_end_duration,
            checkpointed_size=sizes[index],
            state_size=sizes[index],
            checkpoint={"sync": own.end_to_end_duration, "async": 0},
            alignment=dict.fromkeys(parts, 0),
            start_delay=0,
            unaligned_checkpoint=False,
            aborted=False,
        )
        for index in range(own.num_subtasks)
    ]
    summary = SubtasksSummary(
        checkpointed_size=spread,
        state_size=spread,
        end_to_end_duration=duration,
        checkpoint_duration={"sync": duration, "async": nothing},
        alignment=dict.fromkeys(parts, nothing),
        start_delay=nothing,
    )
    return VertexCheckpointStatistics(**parts_of(own), summary=summary, subtasks=subtasks)


def checkpoint_configuration(request: RestRequest) -> CheckpointConfiguration:
    """Return how checkpoints are made."""
    configuration = request.job().configuration
    directory = configuration.get(options.CHECKPOINT_DIR)
    retention = configuration.get(options.CHECKPOINT_RETENTION)
    interval = configuration.get(options.CHECKPOINT_INTERVAL)
    return CheckpointConfiguration(
        mode="exactly_once",
        interval=configuration.get(options.EPOCH_TARGET_DURATION) if interval is None else interval,
        timeout=configuration.get(options.CHECKPOINT_TIMEOUT),
        min_pause=configuration.get(options.MIN_PAUSE),
        max_concurrent=1,
        externalization=Externalization(directory is not None, retention != "RETAIN_ON_CANCELLATION"),
        state_backend=configuration.get(options.STATE_BACKEND),
        checkpoint_storage="temporary folder" if directory is None else directory,
        unaligned_checkpoints=False,
        tolerable_failed_checkpoints=configuration.get(options.TOLERABLE_FAILED_CHECKPOINTS),
        aligned_checkpoint_timeout=0,
        checkpoints_after_tasks_finish=True,
        state_changelog_enabled=False,
        changelog_periodic_materialization_interval=0,
        changelog_storage="",
    )


def _counts(job: JobSnapshot) -> CheckpointCounts:
    begun_from = job.start is not None and (job.start.restored_epoch is not None or bool(job.start.savepoint))
    running = sum(1 for each in job.savepoints if not each.is_over)
    return CheckpointCounts(
        restored=job.restarts + job.rescales + begun_from,
        total=job.completed + job.failed + running,
        in_progress=running,
        completed=job.completed,
        failed=job.failed,
    )


def _summary(epochs: Sequence[EpochStatistics]) -> CheckpointSummary:
    sizes = _spread([epoch.state_bytes for epoch in epochs])
    durations = _spread([_millis(epoch.checkpointing) for epoch in epochs])
    nothing = _spread([0])
    return CheckpointSummary(sizes, sizes, durations, nothing, nothing, nothing)


def _spread(numbers: Sequence[int]) -> StatsSummary:
    found = sorted(numbers) or [0]
    percentiles = (percentile(found, part) for part in _PERCENTILES)
    return StatsSummary(found[0], found[-1], sum(found) // len(found), *percentiles)


def _epoch(request: RestRequest) -> EpochStatistics:
    number = request.parameters["checkpointid"]
    for epoch in request.job().snapshot().epochs:
        if str(epoch.epoch) == number:
            return epoch
    raise not_found(f"Could not find checkpointing statistics for checkpoint {number}.")


def _completed(epoch: EpochStatistics, job: JobSnapshot, configuration: Configuration) -> CheckpointStatistics:
    tasks = _tasks(job)
    begun = _triggered(epoch)
    return CheckpointStatistics(
        class_name="completed",
        id=epoch.epoch,
        status=_COMPLETED,
        is_savepoint=False,
        savepoint_format=None,
        trigger_timestamp=begun,
        latest_ack_timestamp=begun + _millis(epoch.checkpointing),
        checkpointed_size=epoch.state_bytes,
        state_size=epoch.state_bytes,
        end_to_end_duration=_millis(epoch.checkpointing),
        alignment_buffered=0,
        processed_data=0,
        persisted_data=0,
        num_subtasks=tasks,
        num_acknowledged_subtasks=tasks,
        checkpoint_type="CHECKPOINT",
        tasks={},
        external_path=place_of(epoch.epoch, configuration),
        discarded=is_discarded(epoch, job, configuration),
        failure_timestamp=None,
        failure_message=None,
    )


def is_discarded(epoch: EpochStatistics, job: JobSnapshot, configuration: Configuration) -> bool:
    """Return whether the files of a checkpoint are gone, since newer ones took its place."""
    kept = configuration.get(options.CHECKPOINTS_RETAINED)
    return job.latest is not None and epoch.epoch <= job.latest.epoch - kept


def _savepoint(savepoint: SavepointStatus, job: JobSnapshot) -> CheckpointStatistics:
    of_epoch = next((epoch for epoch in job.epochs if epoch.epoch == savepoint.epoch), None)
    size, tasks = 0 if of_epoch is None else of_epoch.state_bytes, _tasks(job)
    return CheckpointStatistics(
        class_name="completed",
        id=savepoint.epoch,
        status=_COMPLETED,
        is_savepoint=True,
        savepoint_format=savepoint.format.upper(),
        trigger_timestamp=savepoint.begun,
        latest_ack_timestamp=savepoint.ended,
        checkpointed_size=size,
        state_size=size,
        end_to_end_duration=savepoint.ended - savepoint.begun,
        alignment_buffered=0,
        processed_data=0,
        persisted_data=0,
        num_subtasks=tasks,
        num_acknowledged_subtasks=tasks,
        checkpoint_type="SAVEPOINT",
        tasks={},
        external_path=savepoint.place,
        discarded=False,
        failure_timestamp=None,
        failure_message=None,
    )


def _last_failed(job: JobSnapshot) -> CheckpointStatistics | None:
    """The last epoch that has failed, and so has no checkpoint."""
    if not job.failures:
        return None
    failure = job.failures[-1]
    return CheckpointStatistics(
        class_name="failed",
        id=failure.epoch,
        status="FAILED",
        is_savepoint=False,
        savepoint_format=None,
        trigger_timestamp=failure.time,
        latest_ack_timestamp=-1,
        checkpointed_size=0,
        state_size=0,
        end_to_end_duration=0,
        alignment_buffered=0,
        processed_data=0,
        persisted_data=0,
        num_subtasks=_tasks(job),
        num_acknowledged_subtasks=0,
        checkpoint_type="CHECKPOINT",
        tasks={},
        external_path=None,
        discarded=None,
        failure_timestamp=failure.time,
        failure_message=f"{failure.error}: {failure.message}",
    )


def _restored(job: JobSnapshot, configuration: Configuration) -> RestoredCheckpoint | None:
    start = job.start
    if start is None or job.restored is None:
        if start is None or not start.savepoint:
            return None
        return RestoredCheckpoint(0, job.history[0].time, True, start.savepoint)
    number = start.restored_epoch or 0
    return RestoredCheckpoint(number, job.restored, False, place_of(number, configuration))


def state_sizes(planned: PlannedOperator, epoch: EpochStatistics) -> list[int]:
    """Return the bytes of state of each subtask of an operator in a checkpoint; it may have had more of them then."""
    sizes = epoch.task_sizes.get(planned.uid, ())
    own, more = sizes[: planned.parallelism], sizes[planned.parallelism :]
    return [*own, *more] if any(more) else [*own, *[0] * (planned.parallelism - len(own))]


def _of_vertex(vertex: JobVertex, epoch: EpochStatistics) -> TaskCheckpointStatistics:
    sizes = state_sizes(vertex.planned, epoch)
    return TaskCheckpointStatistics(
        id=epoch.epoch,
        status=_COMPLETED,
        latest_ack_timestamp=_triggered(epoch) + _millis(epoch.checkpointing),
        checkpointed_size=sum(sizes),
        state_size=sum(sizes),
        end_to_end_duration=_millis(epoch.checkpointing),
        alignment_buffered=0,
        processed_data=0,
        persisted_data=0,
        num_subtasks=len(sizes),
        num_acknowledged_subtasks=len(sizes),
    )


def _triggered(epoch: EpochStatistics) -> int:
    """Return the time at which the work of an epoch was done, so that its checkpoint could begin."""
    return epoch.processing_time + _millis(epoch.running)


def place_of(epoch: int, configuration: Configuration) -> str | None:
    """Return the place of a checkpoint; None where it is in a temporary folder."""
    directory = configuration.get(options.CHECKPOINT_DIR)
    return None if directory is None else f"{directory}/manifests/{name_of(epoch)}"


def _tasks(job: JobSnapshot) -> int:
    return 0 if job.plan is None else sum(planned.parallelism for planned in job.plan.operators())


def _millis(seconds: float) -> int:
    return round(seconds * 1000)
