"""All that headrace itself measures, under Flink's names: of a job as a whole, of operators, and of splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from headrace.common.job_status import JobStatus
from headrace.jobmanager.events import EpochStatistics
from headrace.jobmanager.status import JobSnapshot
from headrace.metrics import registry
from headrace.metrics.samples import MetricKind, MetricValue
from headrace.metrics.scopes import ScopeKind

_Reading: TypeAlias = Callable[[JobSnapshot, int], MetricValue]

_NOT_YET: Final = -1
"""What Flink tells of a checkpoint, or of a running job, that is not there."""


@dataclass(frozen=True, slots=True)
class JobMetric:
    """A metric of a job as a whole.

    Attributes:
        name: its name.
        description: what it says, for people.
        read: gives it as of a snapshot and a moment, in milliseconds of the system's clock.
        kind: its kind.
    """

    name: str
    description: str
    read: _Reading
    kind: MetricKind = MetricKind.GAUGE


def _uptime(job: JobSnapshot, now: int) -> int:
    if job.status is JobStatus.RUNNING:
        return max(0, now - job.history[-1].time)
    return _NOT_YET if job.status.is_terminal_state() else 0


def _downtime(job: JobSnapshot, now: int) -> int:
    if job.status in (JobStatus.RUNNING, JobStatus.CREATED):
        return 0
    return _NOT_YET if job.status.is_terminal_state() else max(0, now - job.history[-1].time)


def _of_latest(read: Callable[[EpochStatistics], int]) -> _Reading:
    return lambda job, _: _NOT_YET if job.latest is None else read(job.latest)


JOB_METRICS: Final = (
    JobMetric("uptime", "Milliseconds since the job runs without interruption; -1 when it has ended.", _uptime),
    JobMetric("downtime", "Milliseconds since the job does not run; -1 when it has ended.", _downtime),
    JobMetric("numRestarts", "Restarts after failures, of this run.", lambda job, _: job.restarts),
    JobMetric("numRescales", "Changes of parallelism, of this run.", lambda job, _: job.rescales),
    JobMetric("numberOfCompletedCheckpoints", "Epochs that this run has completed.", lambda job, _: job.completed),
    JobMetric("numberOfFailedCheckpoints", "Epochs of this run that have failed.", lambda job, _: job.failed),
    JobMetric(
        "totalNumberOfCheckpoints", "Epochs of this run, failed ones too.", lambda job, _: job.completed + job.failed
    ),
    JobMetric("lastCompletedCheckpointId", "The number of the last epoch.", _of_latest(lambda latest: latest.epoch)),
    JobMetric(
        "lastCheckpointDuration",
        "Milliseconds that the last checkpoint took, behind the work of its epoch.",
        _of_latest(lambda latest: round(latest.checkpointing * 1000)),
    ),
    JobMetric(
        "lastCheckpointFullSize",
        "Bytes of all state at the last checkpoint.",
        _of_latest(lambda each: each.state_bytes),
    ),
    JobMetric(
        "lastCheckpointRestoreTimestamp",
        "When the job has last gone on from a checkpoint, in milliseconds since 1970; -1 when it has not.",
        lambda job, _: _NOT_YET if job.restored is None else job.restored,
    ),
    JobMetric(
        "pendingCommittables",
        "Epochs of sinks that are complete and not committed yet.",
        lambda job, _: 0 if job.latest is None else job.latest.pending_commits,
    ),
    JobMetric(
        "lastEpochDuration",
        "Milliseconds that the last epoch took, with its checkpoint.",
        _of_latest(lambda latest: round(latest.seconds * 1000)),
    ),
    JobMetric(
        "lastEpochPlanningTime",
        "Milliseconds of that in which the sources were asked what there is to read.",
        _of_latest(lambda latest: round(latest.planning * 1000)),
    ),
    JobMetric(
        "lastEpochRunningTime",
        "Milliseconds of that in which tasks ran.",
        _of_latest(lambda latest: round(latest.running * 1000)),
    ),
    JobMetric(
        "lastEpochWaitingTime",
        "Milliseconds of that in which the job waited for sinks that have to commit earlier epochs.",
        _of_latest(lambda latest: round(latest.waiting * 1000)),
    ),
    JobMetric("lastEpochRecords", "Records that the last epoch has read.", _of_latest(lambda latest: latest.records)),
)
"""The metrics of a job, in the scope ``jobmanager.job``."""

JOB_MANAGER_METRICS: Final = (
    JobMetric(
        "numRunningJobs",
        "1 while the job runs: each job has a driver of its own.",
        lambda job, _: int(job.status is JobStatus.RUNNING),
    ),
)
"""The metrics of the driver, in the scope ``jobmanager``."""

MEASURED_STATUSES: Final = tuple(
    status for status in JobStatus if not (status.is_terminal_state() or status is JobStatus.RECONCILING)
)
"""The statuses whose times are told."""


def _state(status: JobStatus) -> _Reading:
    return lambda job, _: int(job.status is status)


def _time(status: JobStatus) -> _Reading:
    return lambda job, now: max(0, now - job.history[-1].time) if job.status is status else 0


def _total(status: JobStatus) -> _Reading:
    def read(job: JobSnapshot, now: int) -> int:
        ends = [*(change.time for change in job.history[1:]), now]
        spans = zip(job.history, ends, strict=True)
        return sum(max(0, end - change.time) for change, end in spans if change.status is status)

    return read


STATUS_METRICS: Final[Mapping[str, tuple[str, str, Callable[[JobStatus], _Reading]]]] = {
    "STATE": ("State", "1 while the job has this status, else 0.", _state),
    "CURRENT_TIME": ("Time", "Milliseconds since the job has this status; 0 when it has another.", _time),
    "TOTAL_TIME": ("TimeTotal", "Milliseconds for which this run has had this status altogether.", _total),
}
"""By the values of ``metrics.job.status.enable``: what stands behind the name of a status, what it says, and how."""


@dataclass(frozen=True, slots=True)
class OperatorMetric:
    """A metric of an operator.

    Attributes:
        description: what it says, for people.
        kind: its kind.
        scopes: where it is; a task is one operator of one subtask.
    """

    description: str
    kind: MetricKind = MetricKind.GAUGE
    scopes: tuple[ScopeKind, ...] = (ScopeKind.OPERATOR,)


_OF_TASKS: Final = (ScopeKind.TASK,)
_OF_BOTH: Final = (ScopeKind.TASK, ScopeKind.OPERATOR)
_COUNTER: Final = MetricKind.COUNTER
_METER: Final = MetricKind.METER

OPERATOR_METRICS: Final[Mapping[str, OperatorMetric]] = {
    registry.RECORDS_IN: OperatorMetric(
        "Records that went into the operator; of a source, that it has read.", _COUNTER, _OF_BOTH
    ),
    registry.RECORDS_OUT: OperatorMetric("Records that it has emitted.", _COUNTER, _OF_BOTH),
    registry.BYTES_IN: OperatorMetric("Bytes of records that came to it from other tasks.", _COUNTER, _OF_TASKS),
    registry.BYTES_OUT: OperatorMetric("Bytes of records that went from it to other tasks.", _COUNTER, _OF_TASKS),
    registry.RECORDS_IN_RATE: OperatorMetric("`numRecordsIn` in a second, over the last minute.", _METER, _OF_BOTH),
    registry.RECORDS_OUT_RATE: OperatorMetric("`numRecordsOut` in a second, likewise.", _METER, _OF_BOTH),
    registry.BYTES_IN_RATE: OperatorMetric("`numBytesIn` in a second, likewise.", _METER, _OF_TASKS),
    registry.BYTES_OUT_RATE: OperatorMetric("`numBytesOut` in a second, likewise.", _METER, _OF_TASKS),
    registry.BUSY_RATE: OperatorMetric(
        "Milliseconds of a second in which it was at work, over the last minute.", scopes=_OF_TASKS
    ),
    registry.IDLE_RATE: OperatorMetric("Milliseconds of a second in which it had nothing to do.", scopes=_OF_TASKS),
    registry.BACK_PRESSURED_RATE: OperatorMetric(
        "Milliseconds of a second in which it had more to do, and waited for those behind it.", scopes=_OF_TASKS
    ),
    registry.BUSY_TIME: OperatorMetric("Milliseconds in which it was at work, since the run began.", scopes=_OF_TASKS),
    registry.IDLE_TIME: OperatorMetric("Milliseconds in which it had nothing to do, likewise.", scopes=_OF_TASKS),
    registry.BACK_PRESSURED_TIME: OperatorMetric(
        "Milliseconds in which it waited for those behind it, likewise.", scopes=_OF_TASKS
    ),
    registry.RECORDS_IN_ERRORS: OperatorMetric("Messages that no record could be made of.", _COUNTER),
    registry.SEND_ERRORS: OperatorMetric("Records that no message could be made of.", _COUNTER),
    registry.LATE_DROPPED: OperatorMetric("Records that came too late and went to no side output.", _COUNTER),
    registry.RULES_REJECTED: OperatorMetric(
        "Records of a stream of rules that changed nothing, and went to no side output.", _COUNTER
    ),
    registry.ROWS_DROPPED: OperatorMetric(
        "Rows of windows that are now declared differently, which were dropped.", _COUNTER
    ),
    registry.ROWS_MOVED: OperatorMetric("The same, where they have gone to the windows that there are now.", _COUNTER),
    registry.FILES_MISSING: OperatorMetric("Files that were gone when they were to be read.", _COUNTER),
    registry.FILES_CORRUPT: OperatorMetric("Files that could not be read to their end.", _COUNTER),
    registry.LOOKUP_CACHE_HITS: OperatorMetric("Records whose key was found in the cache.", _COUNTER),
    registry.LOOKUP_MISSES: OperatorMetric("Records whose key nothing was found for.", _COUNTER),
    registry.VIOLATIONS: OperatorMetric("Records that violate an expectation.", _COUNTER),
    registry.ASYNC_TIMEOUTS: OperatorMetric("Requests that had no result in time.", _COUNTER),
    registry.ASYNC_RETRIES: OperatorMetric("Attempts of requests that were not the first.", _COUNTER),
    registry.INPUT_WATERMARK: OperatorMetric(
        "The watermark that its inputs have reached, in milliseconds.", scopes=_OF_BOTH
    ),
    registry.OUTPUT_WATERMARK: OperatorMetric("The watermark that it has passed on, in milliseconds."),
    registry.WATERMARK_LAG: OperatorMetric("How far its watermark is behind the job's clock, in milliseconds."),
    registry.ALIGNMENT_DRIFT: OperatorMetric(
        "How far the fastest split is ahead of the slowest one of its group, in milliseconds."
    ),
    "pendingRecords": OperatorMetric("Records that a source has and has not read yet; may be an estimate."),
    "pendingBytes": OperatorMetric("Bytes that a source has and has not read yet."),
    "currentFetchEventTimeLag": OperatorMetric(
        "How old, by its timestamp, the last record was when the epoch began that read it, in milliseconds."
    ),
    "currentEmitEventTimeLag": OperatorMetric("How old it was when that epoch was complete, in milliseconds."),
    "sourceIdleTime": OperatorMetric("Milliseconds since something was last read from a source."),
    "isProcessingBacklog": OperatorMetric("1 while a source reads what is history, else 0."),
    "kafkaClustersCount": OperatorMetric("Clusters that a dynamic Kafka source reads from."),
}
"""The metrics of operators, in the scope ``taskmanager.job.task.operator``."""

SPLIT_METRICS: Final[Mapping[str, OperatorMetric]] = {
    registry.SPLIT_WATERMARK: OperatorMetric("The watermark of a split of a source, in milliseconds."),
}
"""The metrics of splits, in the groups ``split.<split>.watermark`` of their source."""
