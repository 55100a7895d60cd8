"""The events of a job, which are published to all that show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.checkpoint.manifest import OperatorCounters
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import JobCancelledError, JobSupersededError
from headrace.common.job_execution_result import JobFailure
from headrace.common.job_status import JobStatus
from headrace.jobmanager.epoch_reports import StateSizes
from headrace.jobmanager.metrics import FunctionMetrics, MetricKey, SourceProgress, WatermarkProgress
from headrace.jobmanager.workload import OperatorTimes, RunningParts
from headrace.metrics.registry import RECORDS_IN_ERRORS, SEND_ERRORS
from headrace.plan.job_plan import JobPlan
from headrace.savepoint.metadata import SavepointFormat


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
    """The job does not begin; its submission raises the error."""


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
        event_time: the event time of each split and operator; None where it was not computed.
        sources: how far each source is behind.
        measured: what functions have measured in this run.
        times: where the time of operators has gone in this run.
        parts: where the time in the runtime has gone; None where the runtime does not tell.
        state_sizes: bytes of state, by uid, name of the store and task.
        task_sizes: bytes of state, by uid and task; of summaries, which have no sizes of stores.
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
    task_sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict, repr=False)
    ended: int = 0

    @property
    def seconds(self) -> float:
        """The whole epoch."""
        return self.planning + self.running + self.checkpointing + self.waiting

    @property
    def pending_commits(self) -> int:
        """Return how many epochs of how many sinks are to be committed."""
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
        """Return how many records the sources have that are not read yet; None where one of them does not know."""
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
        """Return event time, sources and what functions have measured, at a reading of the job's clock."""
        found: dict[MetricKey, float] = {} if self.measured is None else self.measured.values(now)
        for source in self.sources:
            found |= source.metrics(now)
        return found if self.event_time is None else found | self.event_time.metrics()

    def summary(self) -> EpochStatistics:
        """The same without what is shown of the newest epoch alone; it would keep plan and manifest in memory."""
        return replace(
            self,
            counters={},
            operator_counters={},
            event_time=None,
            sources=(),
            measured=None,
            times={},
            state_sizes={},
            task_sizes={uid: tuple(map(sum, zip(*by.values(), strict=True))) for uid, by in self.state_sizes.items()},
        )

    def rejected(self) -> int:
        """Return how many records could not be read or written, since the job's first start."""
        return self.counters.get(RECORDS_IN_ERRORS, 0) + self.counters.get(SEND_ERRORS, 0)


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
        directory: the place that was requested.
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
    """The job is being cancelled."""


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
        """Return how it ended, and where."""
        if self.error is None:
            state = "ended" if self.finished else "stopped"
        else:
            state = "was cancelled" if isinstance(self.error, JobCancelledError) else "failed"
        where = state if self.epoch is None else f"{state} at epoch {self.epoch}"
        return f"{where} by {self.stopped_by}" if self.stopped_by and self.error is None else where
