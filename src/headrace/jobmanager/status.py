"""The status of a job: an immutable snapshot that events change, what the run was like, and the store of both."""

from __future__ import annotations

import heapq
import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Final, NamedTuple

from headrace.common.errors import JobCancelledError
from headrace.common.job_execution_result import JobFailure
from headrace.common.job_status import JobStatus
from headrace.common.logs import get_logger
from headrace.jobmanager.events import (
    CommitsAcknowledged,
    EpochFailed,
    EpochHeld,
    EpochReleased,
    EpochStarted,
    EpochStatistics,
    FailuresRecorded,
    JobCancelling,
    JobEnd,
    JobEvent,
    JobFailing,
    JobIdentified,
    JobRestart,
    JobStart,
    RuntimeStarted,
    RuntimeStarting,
    SavepointStatus,
    ServerStarted,
    SubmissionFailed,
)
from headrace.jobmanager.metrics import SplitProgress
from headrace.jobmanager.workload import Reading, Workload
from headrace.metrics.registry import LATE_DROPPED
from headrace.plan.job_plan import JobPlan
from headrace.time.clock import SystemClock

logger = get_logger(__name__)

_EPOCHS_KEPT: Final = 40
_SAVEPOINTS_KEPT: Final = 20
_RESUMPTIONS_KEPT: Final = 20


_MOST_POINTS: Final = 180
"""The most points that are kept: of more every other one is forgotten."""

_FIRST_APART: Final = 1_000
"""Milliseconds between the first points; at least twice as many each time that every other point is forgotten."""

_MOST_SPLITS: Final = 12
"""The largest number of splits in a point: those that are furthest behind."""

_MOST_STATES: Final = 12
"""The largest number of states in a point: the largest ones."""


class SplitPoint(NamedTuple):
    """A split at a moment.

    Attributes:
        uid: its source.
        split_id: its id.
        watermark: how far its event time has come.
        pending: the number of records that are there and not read; None where that is not known.
    """

    uid: str
    split_id: str
    watermark: int
    pending: int | None


class HistoryPoint(NamedTuple):
    """A run at a moment.

    Attributes:
        time: the moment, in milliseconds of the system's clock.
        clock: the reading of the job's clock, which watermarks are compared with.
        epoch: the last epoch.
        records: the number of records that the run has read.
        watermark: the lowest event time of all sources.
        pending: the number of records that are there and not read; None where that is not known.
        state: bytes of the largest states, by uid and name of the store.
        late: the number of late records that were dropped, since the job's first start.
        rejected: the number of records that could not be read or written, likewise.
        splits: those that are furthest behind.
    """

    time: int
    clock: int
    epoch: int
    records: int
    watermark: int
    pending: int | None
    state: Mapping[tuple[str, str], int]
    late: int
    rejected: int
    splits: tuple[SplitPoint, ...]


def split_points(splits: Iterable[SplitProgress]) -> tuple[SplitPoint, ...]:
    """The splits that are furthest behind, in the order of their sources."""
    slowest = heapq.nsmallest(_MOST_SPLITS, splits, key=lambda split: split.watermark)
    points = (SplitPoint(s.uid, s.split_id, s.watermark, s.pending.records) for s in slowest)
    return tuple(sorted(points, key=lambda point: point[:2]))


@dataclass(frozen=True, slots=True)
class RunHistory:
    """Points of a run, from its first epoch on.

    Attributes:
        points: in the order of time.
        apart: milliseconds between two points, at least.
    """

    points: tuple[HistoryPoint, ...] = field(default=(), repr=False)
    apart: int = _FIRST_APART

    def is_due(self, time: int) -> bool:
        """Return whether the last point is so old that there may be another."""
        return not self.points or time - self.points[-1].time >= self.apart

    def after(self, point: HistoryPoint) -> RunHistory:
        """The same with another point."""
        if len(self.points) < _MOST_POINTS:
            return RunHistory((*self.points, point), self.apart)
        kept = self.points[::2]
        between = (kept[-1].time - kept[0].time) // (len(kept) - 1)
        return RunHistory((*kept, point), max(self.apart * 2, between))


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
        starting: what it waits for until that has started, Spark, say; empty for nothing.
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
    starting: str = ""
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

    @property
    def waits_for(self) -> str:
        """Return what it waits for before it begins; empty when it has begun."""
        if self.status is not JobStatus.CREATED:
            return ""
        if self.starting:
            return f"{self.starting}, starts"
        return "its state, sources and sinks are opened" if self.job_id else "its checkpoint directory is looked into"

    def after(self, event: JobEvent, time: int) -> JobSnapshot:
        """The job after something has happened at a time; unchanged when it had ended before."""
        if self.status.is_terminal_state():
            return self
        return self._changed(event, time)._moved(event, time)

    def _changed(self, event: JobEvent, time: int) -> JobSnapshot:
        match event:
            case RuntimeStarting():
                after = replace(self, starting=event.what)
            case RuntimeStarted():
                after = replace(self, runtime=event, starting="")
            case JobIdentified():
                after = replace(self, job_id=event.job_id)
            case JobStart():
                after = replace(
                    self,
                    job_id=event.job_id,
                    start=event,
                    plan=event.plan,
                    workload=Workload().after(Reading(time, event.operator_counters, {})),
                    restored=None if event.restored_epoch is None else time,
                )
            case FailuresRecorded():
                after = replace(self, failures=event.failures)
            case JobRestart():
                after = self._after_restart(event, time)
            case SavepointStatus():
                after = replace(self, savepoints=self._savepoints_after(event, time))
            case JobEnd():
                after = replace(self, end=event, running=None, held=None)
            case _:
                after = self._with_epoch(event, time)
        return after

    def _with_epoch(self, event: JobEvent, time: int) -> JobSnapshot:
        after = self
        match event:
            case EpochStarted():
                after = replace(self, running=replace(event, time=time))
            case EpochStatistics():
                after = self._after_epoch(replace(event, ended=time))
            case CommitsAcknowledged() if self.latest is not None:
                after = replace(self, latest=replace(self.latest, epoch=event.epoch, pending=event.pending))
            case EpochFailed():
                after = replace(self, failure=event, failed=self.failed + 1, running=None, held=None)
            case EpochHeld():
                after = replace(self, held=event)
            case EpochReleased():
                after = replace(self, held=None)
        return after

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
    sizes = {(uid, name): sum(each) for uid, by_name in epoch.state_sizes.items() for name, each in by_name.items()}
    return HistoryPoint(
        time=epoch.ended,
        clock=epoch.processing_time,
        epoch=epoch.epoch,
        records=records,
        watermark=epoch.watermark,
        pending=epoch.pending_records,
        state=dict(heapq.nlargest(_MOST_STATES, sizes.items(), key=itemgetter(1))),
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
"""Called with each event of a job and the snapshot after it; by the job's own thread, so it has to be quick."""


class JobStatusStore:
    """Holds the snapshot of one run of a job, and tells listeners of every event.

    Nothing else holds a status. The job manager publishes an event and the snapshot is replaced, so readers never wait
    for the job, nor it for them, and all that show a job show the same.

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
        """Have a listener called with every event from now on, after those that were there before."""
        self._listeners.append(listener)

    def publish(self, event: JobEvent) -> None:
        """Publish an event; from any thread. After the end of the job, listeners are not called any more."""
        with self._lock:
            if self.snapshot.status.is_terminal_state():
                return
            snapshot = self.snapshot = self.snapshot.after(event, self._clock.now())
        for listener in self._listeners:
            listener(event, snapshot)


def _log(event: JobEvent, job: JobSnapshot) -> None:
    """Log what a job does.

    What begins and ends a job is at INFO, epochs are at DEBUG, failures that may pass at WARNING. What a job fails with
    is raised where the program waits for it, so it is at INFO here.
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
            text = "job %r: epoch %d failed, it is run again in %.1f s: %s"
            logger.warning(text, job.name, event.epoch, event.retry_in, event.error)
        case JobRestart():
            logger.info("job %r goes on from epoch %d", job.name, event.epoch)
        case JobEnd():
            how = str(event) if job.start is not None else "did not start"
            failure = None if isinstance(event.error, JobCancelledError) else event.error
            why = "" if failure is None else f": {type(failure).__name__}: {failure}"
            logger.info("job %r %s%s", job.name, how, why)
