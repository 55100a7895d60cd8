"""The status of a job: an immutable snapshot, the events that change it, and the store that publishes both."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.checkpoint.manifest import OperatorCounters
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import JobCancelledError, JobSupersededError
from headrace.common.job_execution_result import JobFailure
from headrace.common.job_status import JobStatus
from headrace.common.logs import get_logger
from headrace.jobmanager.history import (
    HistoryPoint,
    RunHistory,
    RunningParts,
    StateSizes,
    largest_states,
    split_points,
)
from headrace.jobmanager.metrics import FunctionMetrics, MetricKey, SourceProgress, WatermarkProgress
from headrace.jobmanager.workload import OperatorTimes, Reading, Workload
from headrace.metrics.registry import LATE_DROPPED, RECORDS_IN_ERRORS, SEND_ERRORS
from headrace.plan.job_plan import JobPlan
from headrace.savepoint.metadata import SavepointFormat
from headrace.time.clock import SystemClock

logger = get_logger(__name__)

_EPOCHS_KEPT: Final = 40
_SAVEPOINTS_KEPT: Final = 20
_RESUMPTIONS_KEPT: Final = 20


class JobEvent:
    """Something that has happened to a job."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class RuntimeStarting(JobEvent):
    """The job waits until something that takes seconds has started: Spark, say."""

    what: str


@dataclass(frozen=True, slots=True)
class RuntimeStarted(JobEvent):
    """The runtime of the job is there.

    Attributes:
        what: where tasks run: ``Spark, master local[2]``.
        web_url: where that is shown; empty for nowhere.
    """

    what: str
    web_url: str = ""


@dataclass(frozen=True, slots=True)
class ServerStarted(JobEvent):
    """The job is served to the network at an address: ``http://localhost:8081``."""

    address: str


@dataclass(frozen=True, slots=True)
class JobIdentified(JobEvent):
    """The job's checkpoint directory was looked into, so it has an id."""

    job_id: str


@dataclass(frozen=True, slots=True)
class SubmissionFailed(JobEvent):
    """The job does not begin; whoever submits it gets the error."""


@dataclass(frozen=True, slots=True)
class JobStart(JobEvent):
    """A job is open, and about to run its first epoch.

    Attributes:
        name: the job's name.
        job_id: the job's id.
        restored_epoch: the epoch that it goes on from; None when it starts afresh.
        generation: how often it was taken over.
        finished: whether it had come to its end before, so that nothing is left to do.
        savepoint: the savepoint that it starts from; empty for none.
        plan: its plan.
        operator_counters: what its operators have counted before, as in :class:`EpochStatistics`.
    """

    name: str
    job_id: str
    restored_epoch: int | None = None
    generation: int = 0
    finished: bool = False
    savepoint: str = ""
    plan: JobPlan | None = field(default=None, repr=False)
    operator_counters: OperatorCounters = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        """Return whether the job starts afresh or goes on."""
        had_ended = ", which had come to its end: nothing is left to do" if self.finished else ""
        if self.restored_epoch is None and self.savepoint:
            return f"job {self.name!r} starts from {self.savepoint} (job id {self.job_id}){had_ended}"
        if self.restored_epoch is None:
            return f"job {self.name!r} starts afresh (job id {self.job_id})"
        known = f"(job id {self.job_id}, generation {self.generation})"
        return f"restored epoch {self.restored_epoch} of job {self.name!r} {known}{had_ended}"


@dataclass(frozen=True, slots=True)
class EpochStarted(JobEvent):
    """An epoch is planned, and begins to run.

    Attributes:
        epoch: its number.
        records: how many records it is to read, by the enumerators' word.
        time: when, in milliseconds of the system's clock; the snapshot knows.
    """

    epoch: int
    records: int
    time: int = 0


@dataclass(frozen=True, slots=True)
class EpochStatistics(JobEvent):
    """An epoch is complete: its manifest exists.

    Attributes:
        epoch: its number.
        records: how many records were read.
        planning: seconds from the first look at the sources to the fixed context.
        running: seconds in the runtime.
        checkpointing: seconds for the manifest and what belongs to it.
        watermark: the lowest event time of all sources, in milliseconds.
        processing_time: the clock's reading, in milliseconds.
        state_bytes: bytes in all runs of the state.
        counters: totals of the job since its first start.
        operator_counters: those of its operators, by uid, name and subtask.
        pending: by uid of the sink, of how many epochs the manifest has output to be committed, of earlier ones too;
            the epoch's own commits begin when it exists.
        waiting: seconds behind the checkpoint, for sinks that have yet to commit epochs before: they hold the job back.
        event_time: where event time is, split by split and operator by operator; None where nobody has looked.
        sources: how far each source is behind.
        measured: what functions have measured in this run.
        times: where the time of operators has gone in this run.
        parts: where the time in the runtime has gone; None where the runtime does not tell.
        state_sizes: bytes of state, by uid, name of the store and task.
        ended: when the epoch was complete, in milliseconds of the system's clock; the snapshot knows.
    """

    epoch: int
    records: int
    planning: float
    running: float
    checkpointing: float
    watermark: int
    processing_time: int
    state_bytes: int
    counters: Mapping[str, int] = field(default_factory=dict)
    operator_counters: OperatorCounters = field(default_factory=dict, repr=False)
    pending: Mapping[str, int] = field(default_factory=dict)
    waiting: float = 0.0
    event_time: WatermarkProgress | None = field(default=None, repr=False)
    sources: tuple[SourceProgress, ...] = field(default=(), repr=False)
    measured: FunctionMetrics | None = field(default=None, repr=False)
    times: OperatorTimes = field(default_factory=dict, repr=False)
    parts: RunningParts | None = None
    state_sizes: StateSizes = field(default_factory=dict, repr=False)
    ended: int = 0

    @property
    def seconds(self) -> float:
        """The whole epoch."""
        return self.planning + self.running + self.checkpointing + self.waiting

    @property
    def pending_commits(self) -> int:
        """How many epochs of how many sinks are to be committed."""
        return sum(self.pending.values())

    def __str__(self) -> str:
        """Number, records, seconds and what is to be committed."""
        return (
            f"epoch {self.epoch}: {self.records} records in {self.seconds:.3f} s (planning {self.planning:.3f}, "
            f"running {self.running:.3f}, checkpoint {self.checkpointing:.3f}, waiting for sinks {self.waiting:.3f}); "
            f"state {self.state_bytes} bytes, {self.pending_commits} to be committed"
        )

    @property
    def pending_records(self) -> int | None:
        """How many records the sources have that are not read yet; None where one of them does not know."""
        known = [source.pending.records for source in self.sources if source.pending.records is not None]
        return sum(known) if self.sources and len(known) == len(self.sources) else None

    @property
    def is_processing_backlog(self) -> bool:
        """Return whether a source reads what is history, so that epochs are longer."""
        return any(source.is_processing_backlog for source in self.sources)

    @property
    def watermark_lag(self) -> int | None:
        """Milliseconds by which event time is behind the clock; None before there is any, or at the end of input."""
        if self.watermark in (MIN_WATERMARK, MAX_WATERMARK):
            return None
        return self.processing_time - self.watermark

    def metrics(self, now: int) -> dict[MetricKey, float]:
        """Where event time and sources are, and what functions have measured, at a reading of the job's clock."""
        found: dict[MetricKey, float] = {} if self.measured is None else self.measured.values(now)
        for source in self.sources:
            found |= source.metrics(now)
        return found if self.event_time is None else found | self.event_time.metrics()

    def summary(self) -> EpochStatistics:
        """The same without what only the newest epoch is asked for; it would keep plan and manifest in memory."""
        return replace(
            self,
            counters={},
            operator_counters={},
            event_time=None,
            sources=(),
            measured=None,
            times={},
            state_sizes={},
        )

    def rejected(self) -> int:
        """Return how many records could not be read or written, since the job's first start."""
        return sum(self.counters.get(name, 0) for name in (RECORDS_IN_ERRORS, SEND_ERRORS))


@dataclass(frozen=True, slots=True)
class CommitsAcknowledged(JobEvent):
    """While nothing is to be read, a manifest with a number of its own says what is still to be committed."""

    epoch: int
    pending: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EpochHeld(JobEvent):
    """An epoch waits before anything of it is published: records of it violate expectations.

    Attributes:
        epoch: its number.
        violations: by uid of the operator, the first violation that it has met.
    """

    epoch: int
    violations: Mapping[str, str]

    def __str__(self) -> str:
        """The epoch, and why it is held."""
        reason = next(iter(self.violations.values())).splitlines()
        return f"epoch {self.epoch} is held back until it is released: {' '.join(map(str.strip, reason))}"


@dataclass(frozen=True, slots=True)
class EpochReleased(JobEvent):
    """An epoch that was held is published, or dropped since the job stops before it."""

    epoch: int
    is_published: bool

    def __str__(self) -> str:
        """The epoch, and what becomes of it."""
        what = "is released" if self.is_published else "is dropped: the job runs it again when it goes on"
        return f"epoch {self.epoch} {what}"


@dataclass(frozen=True, slots=True)
class EpochFailed(JobEvent):
    """Something failed that may pass; the epoch is run again in so many seconds."""

    epoch: int
    error: BaseException
    retry_in: float


@dataclass(frozen=True, slots=True)
class FailuresRecorded(JobEvent):
    """The latest failures of the job, of earlier runs too, the last one at the end."""

    failures: tuple[JobFailure, ...]


@dataclass(frozen=True, slots=True)
class JobRestart(JobEvent):
    """The job goes on from an epoch, after a failure or with another plan."""

    epoch: int
    plan: JobPlan | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SavepointStatus(JobEvent):
    """A savepoint was begun, is complete, or has failed.

    Attributes:
        number: counts the savepoints of this run.
        directory: where it was asked for.
        epoch: the epoch whose state it holds.
        place: where it is; empty until it is complete.
        error: why there is none; empty unless it has failed.
        format: canonical or native.
        begun: when it was begun, in milliseconds of the system's clock; the snapshot knows.
        ended: when it was complete, or had failed; 0 before.
    """

    number: int
    directory: str
    epoch: int
    place: str = ""
    error: str = ""
    format: SavepointFormat = "canonical"
    begun: int = 0
    ended: int = 0

    @property
    def is_over(self) -> bool:
        """Return whether it is complete, or has failed."""
        return bool(self.place or self.error)


@dataclass(frozen=True, slots=True)
class JobCancelling(JobEvent):
    """Somebody has given the job up."""


@dataclass(frozen=True, slots=True)
class JobFailing(JobEvent):
    """The job has failed for good, and lets go of what it holds."""


@dataclass(frozen=True, slots=True)
class JobEnd(JobEvent):
    """A job is over; it may not have started.

    Attributes:
        epoch: the epoch that it would go on from; None when it would begin afresh.
        finished: whether its input had come to an end, so that nothing is left to do.
        error: what it failed with, or that it was cancelled; None when it came to its end or was stopped.
        stopped_by: which request of another process has ended it; empty for none.
        savepoint: the savepoint that it was stopped with; empty for none.
    """

    epoch: int | None
    finished: bool = True
    error: BaseException | None = None
    stopped_by: str = ""
    savepoint: str = ""

    @property
    def status(self) -> JobStatus:
        """The last status of the job: a job that was stopped can go on, and one that was taken over does."""
        if self.error is None:
            return JobStatus.FINISHED if self.finished or self.savepoint else JobStatus.SUSPENDED
        if isinstance(self.error, JobSupersededError):
            return JobStatus.SUSPENDED
        return JobStatus.CANCELED if isinstance(self.error, JobCancelledError) else JobStatus.FAILED

    def __str__(self) -> str:
        """How it ended, and where."""
        if self.error is None:
            state = "ended" if self.finished else "stopped"
        else:
            state = "was cancelled" if isinstance(self.error, JobCancelledError) else "failed"
        where = state if self.epoch is None else f"{state} at epoch {self.epoch}"
        return f"{where} by {self.stopped_by}" if self.stopped_by and self.error is None else where


@dataclass(frozen=True, slots=True)
class Resumption:
    """The job has gone on from a checkpoint within a run.

    Attributes:
        time: when, in milliseconds of the system's clock.
        epoch: from which epoch.
        is_rescaled: whether it has got another plan; else it was after a failure.
        parallelism: that of operators that have none of their own; 0 where there is no plan.
    """

    time: int
    epoch: int
    is_rescaled: bool
    parallelism: int


@dataclass(frozen=True, slots=True)
class StatusChange:
    """Since when, in milliseconds of the system's clock, a job has had a status."""

    status: JobStatus
    time: int


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """All that is known of one run of a job at one moment; it never changes, so any thread may read it.

    Attributes:
        name: the job's name.
        run_id: tells this run from others of this process, also of the same job.
        history: the statuses of the run, the present one at the end.
        job_id: the job's id; empty until its checkpoint directory was looked into.
        start: how it started; None before.
        plan: its plan; None before the start.
        latest: the last epoch of this run; None before the first one.
        epochs: the last ones, as summaries.
        completed: how many epochs this run has completed.
        records: how many records this run has read.
        workload: what operators have done in the last minute.
        failed: how many epochs of this run have failed, and their checkpoints with them.
        restarts: how often this run has begun again after a failure.
        rescales: how often it has got another plan.
        restored: when it has last begun to go on from a checkpoint, in milliseconds of the system's clock; None when it
            has not.
        held: the epoch that waits for its release; None when none does.
        failure: what is being repaired; None when nothing is.
        failures: the latest failures, of earlier runs too.
        savepoints: the last ones of this run.
        end: how it ended; None before.
        runtime: where its tasks run; None until that is there.
        running: the epoch that runs; None between two epochs.
        past: what the run was like.
        resumptions: the last times at which it has gone on from a checkpoint, in this run.
    """

    name: str
    run_id: str
    history: tuple[StatusChange, ...]
    job_id: str = ""
    start: JobStart | None = None
    plan: JobPlan | None = field(default=None, repr=False)
    latest: EpochStatistics | None = None
    epochs: tuple[EpochStatistics, ...] = ()
    completed: int = 0
    records: int = 0
    workload: Workload = field(default=Workload(), repr=False)
    failed: int = 0
    restarts: int = 0
    rescales: int = 0
    restored: int | None = None
    held: EpochHeld | None = None
    failure: EpochFailed | None = None
    failures: tuple[JobFailure, ...] = ()
    savepoints: tuple[SavepointStatus, ...] = ()
    end: JobEnd | None = None
    runtime: RuntimeStarted | None = None
    running: EpochStarted | None = None
    past: RunHistory = field(default=RunHistory(), repr=False)
    resumptions: tuple[Resumption, ...] = ()

    @property
    def status(self) -> JobStatus:
        """The present status."""
        return self.history[-1].status

    def after(self, event: JobEvent, time: int) -> JobSnapshot:
        """The job after something has happened at a time; unchanged when it had ended before."""
        if self.status.is_terminal_state():
            return self
        return self._changed(event, time)._held_after(event)._moved(event, time)

    def _changed(self, event: JobEvent, time: int) -> JobSnapshot:
        after = self._begun(event, time)
        match event:
            case EpochStarted():
                after = replace(self, running=replace(event, time=time))
            case EpochStatistics():
                after = self._after_epoch(replace(event, ended=time))
            case CommitsAcknowledged() if self.latest is not None:
                after = replace(self, latest=replace(self.latest, epoch=event.epoch, pending=event.pending))
            case EpochFailed():
                after = replace(self, failure=event, failed=self.failed + 1, running=None)
            case FailuresRecorded():
                after = replace(self, failures=event.failures)
            case JobRestart():
                after = self._after_restart(event, time)
            case SavepointStatus():
                after = replace(self, savepoints=self._savepoints_after(event, time))
            case JobEnd():
                after = replace(self, end=event, running=None)
        return after

    def _begun(self, event: JobEvent, time: int) -> JobSnapshot:
        match event:
            case RuntimeStarted():
                return replace(self, runtime=event)
            case JobIdentified():
                return replace(self, job_id=event.job_id)
            case JobStart():
                return replace(
                    self,
                    job_id=event.job_id,
                    start=event,
                    plan=event.plan,
                    workload=Workload().after(Reading(time, event.operator_counters, {})),
                    restored=None if event.restored_epoch is None else time,
                )
        return self

    def _after_epoch(self, epoch: EpochStatistics) -> JobSnapshot:
        records = self.records + epoch.records
        return replace(
            self,
            latest=epoch,
            epochs=(*self.epochs, epoch.summary())[-_EPOCHS_KEPT:],
            completed=self.completed + 1,
            records=records,
            workload=self.workload.after(Reading(epoch.ended, epoch.operator_counters, epoch.times)),
            failure=None,
            running=None,
            past=self.past.after(_point(epoch, records)) if self.past.is_due(epoch.ended) else self.past,
        )

    def points(self) -> tuple[HistoryPoint, ...]:
        """Return what the run was like, from its first epoch to the newest one."""
        known, latest = self.past.points, self.latest
        if latest is None or not known or latest.ended <= known[-1].time:
            return known
        return (*known, _point(latest, self.records))

    def _after_restart(self, event: JobRestart, time: int) -> JobSnapshot:
        is_rescaled = event.plan is not self.plan
        parallelism = 0 if event.plan is None else event.plan.settings.parallelism
        resumption = Resumption(time, event.epoch, is_rescaled, parallelism)
        return replace(
            self,
            plan=event.plan,
            restarts=self.restarts + (not is_rescaled),
            rescales=self.rescales + is_rescaled,
            restored=time,
            running=None,
            resumptions=(*self.resumptions, resumption)[-_RESUMPTIONS_KEPT:],
        )

    def _held_after(self, event: JobEvent) -> JobSnapshot:
        if isinstance(event, EpochHeld):
            return replace(self, held=event)
        if self.held is not None and isinstance(event, EpochReleased | EpochFailed | JobEnd):
            return replace(self, held=None)
        return self

    def _savepoints_after(self, event: SavepointStatus, time: int) -> tuple[SavepointStatus, ...]:
        others = tuple(each for each in self.savepoints if each.number != event.number)
        begun = next((each.begun for each in self.savepoints if each.number == event.number), time)
        known = replace(event, begun=begun, ended=time if event.is_over else 0)
        return (*others, known)[-_SAVEPOINTS_KEPT:]

    def _moved(self, event: JobEvent, time: int) -> JobSnapshot:
        status = event.status if isinstance(event, JobEnd) else _STATUS_AFTER.get(type(event), self.status)
        ends = status in _ENDING or status.is_terminal_state()
        if status is self.status or (self.status in _ENDING and not ends):
            return self
        return replace(self, history=(*self.history, StatusChange(status, time)))


def _point(epoch: EpochStatistics, records: int) -> HistoryPoint:
    splits = () if epoch.event_time is None else epoch.event_time.splits
    return HistoryPoint(
        time=epoch.ended,
        clock=epoch.processing_time,
        epoch=epoch.epoch,
        records=records,
        watermark=epoch.watermark,
        pending=epoch.pending_records,
        state=largest_states(epoch.state_sizes),
        late=epoch.counters.get(LATE_DROPPED, 0),
        rejected=epoch.rejected(),
        splits=split_points(splits),
    )


_STATUS_AFTER: Final[Mapping[type, JobStatus]] = {
    JobStart: JobStatus.RUNNING,
    EpochStatistics: JobStatus.RUNNING,
    JobRestart: JobStatus.RUNNING,
    EpochFailed: JobStatus.RESTARTING,
    JobCancelling: JobStatus.CANCELLING,
    JobFailing: JobStatus.FAILING,
    SubmissionFailed: JobStatus.FAILED,
}

_ENDING: Final = (JobStatus.CANCELLING, JobStatus.FAILING)
"""From these a job does not return: only its end follows."""

JobListener = Callable[[JobEvent, JobSnapshot], None]
"""Is told what a job does, and what is known after that; by the job's own thread, so it has to be quick."""


class JobStatusStore:
    """Holds the snapshot of one run of a job, and tells listeners of every event.

    Nothing else holds a status. The job manager publishes an event and the snapshot is replaced, so readers never wait
    for the job, nor it for them, and everybody who shows a job shows the same.

    Args:
        name: the job's name.

    Attributes:
        snapshot: all that is known now.
    """

    def __init__(self, name: str) -> None:
        self._lock = threading.Lock()
        self._clock = SystemClock(0)
        self._listeners: list[JobListener] = [_log]
        self.snapshot = JobSnapshot(name, uuid.uuid4().hex, (StatusChange(JobStatus.CREATED, self._clock.now()),))

    def subscribe(self, listener: JobListener) -> None:
        """Have a listener told of every event from now on, after those that were there before."""
        self._listeners.append(listener)

    def publish(self, event: JobEvent) -> None:
        """Something has happened; from any thread. Behind the end of the job nobody is told any more."""
        with self._lock:
            if self.snapshot.status.is_terminal_state():
                return
            snapshot = self.snapshot = self.snapshot.after(event, self._clock.now())
        for listener in self._listeners:
            listener(event, snapshot)


def _log(event: JobEvent, job: JobSnapshot) -> None:
    """Log what a job does.

    What begins and ends a job is at INFO, epochs are at DEBUG, failures that may pass at WARNING. What a job fails with
    is raised to whoever waits for it, so it is at INFO here.
    """
    match event:
        case RuntimeStarting():
            logger.info("starting %s", event.what)
        case ServerStarted():
            logger.info("job %r is served at %s", job.name, event.address)
        case JobStart():
            logger.info("%s", event)
        case EpochStatistics():
            logger.debug("job %r: %s", job.name, event)
        case CommitsAcknowledged():
            number, left = event.epoch, sum(event.pending.values())
            logger.debug("job %r: manifest %d says what is committed; %d to be committed", job.name, number, left)
        case EpochHeld() | EpochReleased():
            logger.log(logging.WARNING if job.held else logging.INFO, "job %r: %s", job.name, event)
        case EpochFailed():
            told = "job %r: epoch %d failed, it is run again in %.1f s: %s"
            logger.warning(told, job.name, event.epoch, event.retry_in, event.error)
        case JobRestart():
            logger.info("job %r goes on from epoch %d", job.name, event.epoch)
        case JobEnd():
            _log_end(event, job)


def _log_end(end: JobEnd, job: JobSnapshot) -> None:
    how = str(end) if job.start is not None else "did not start"
    if end.error is None or isinstance(end.error, JobCancelledError):
        logger.info("job %r %s", job.name, how)
    else:
        logger.info("job %r %s: %s: %s", job.name, how, type(end.error).__name__, end.error)
