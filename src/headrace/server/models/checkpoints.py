"""Checkpoints: what an epoch's end is for Flink's clients."""

from collections.abc import Mapping, Sequence

from headrace.server.wire import model, wire


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
    """What the job has gone on from."""

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
    """Whether checkpoints outlast the job."""

    enabled: bool
    delete_on_cancellation: bool


@model
class CheckpointConfiguration:
    """How checkpoints are made; what only Flink has is told as it is there when it is not used."""

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
class VertexCheckpointStatistics:
    """The part of one vertex in a checkpoint, subtask by subtask."""

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
    summary: SubtasksSummary
    subtasks: Sequence[SubtaskCheckpointStatistics]
