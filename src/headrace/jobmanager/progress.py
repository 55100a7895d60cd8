"""What a job says about itself while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import JobCancelledError
from headrace.common.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.checkpoint.manifest import Manifest
    from headrace.jobmanager.sources.progress import SourceProgress
    from headrace.jobmanager.watermark_progress import WatermarkProgress

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class JobStart:
    """A job that is about to run its first epoch.

    Attributes:
        name: the job's name.
        job_id: the job's id.
        restored_epoch: the epoch that it goes on from; None when it starts afresh.
        generation: how often it was taken over.
        finished: whether it had come to its end before, so that nothing is left to do.
        savepoint: the savepoint that it starts from; empty for none.
    """

    name: str
    job_id: str
    restored_epoch: int | None = None
    generation: int = 0
    finished: bool = False
    savepoint: str = ""

    @staticmethod
    def of(name: str, manifest: Manifest, restored_epoch: int | None) -> JobStart:
        """The start of a job from a manifest; ``restored_epoch`` is that of the one that was found, if any."""
        return JobStart(
            name,
            manifest.job_id,
            restored_epoch,
            manifest.generation,
            manifest.finished,
            manifest.restored_from,
        )

    def __str__(self) -> str:
        """Whether the job starts afresh or goes on."""
        had_ended = ", which had come to its end: nothing is left to do" if self.finished else ""
        if self.restored_epoch is None and self.savepoint:
            return f"job {self.name!r} starts from {self.savepoint} (job id {self.job_id}){had_ended}"
        if self.restored_epoch is None:
            return f"job {self.name!r} starts afresh (job id {self.job_id})"
        known = f"(job id {self.job_id}, generation {self.generation})"
        return f"restored epoch {self.restored_epoch} of job {self.name!r} {known}{had_ended}"


@dataclass(frozen=True, slots=True)
class JobEnd:
    """A job that is over.

    Attributes:
        epoch: the epoch that it would go on from; None when it would begin afresh.
        finished: whether its input had come to an end, so that nothing is left to do.
        error: what it failed with, or that it was cancelled; None when it came to its end or was stopped.
        stopped_by: which request of another process has ended it; empty for none.
    """

    epoch: int | None
    finished: bool = True
    error: BaseException | None = None
    stopped_by: str = ""

    def __str__(self) -> str:
        """How it ended, and where."""
        if self.error is None:
            state = "ended" if self.finished else "stopped"
        else:
            state = "was cancelled" if isinstance(self.error, JobCancelledError) else "failed"
        where = state if self.epoch is None else f"{state} at epoch {self.epoch}"
        return f"{where} by {self.stopped_by}" if self.stopped_by and self.error is None else where


@dataclass(frozen=True, slots=True)
class EpochStatistics:
    """One epoch, as it was.

    Attributes:
        epoch: its number.
        records: how many records were read.
        planning: seconds from the first look at the sources to the fixed context.
        running: seconds in the runtime.
        checkpointing: seconds for the manifest and what belongs to it.
        watermark: the lowest event time of all sources, in milliseconds.
        processing_time: the clock's reading, in milliseconds.
        state_bytes: bytes in all runs of the state.
        counters: totals since the job's first start.
        pending_commits: what the manifest of the epoch has to be committed, of earlier epochs too; the epoch's own
            commits begin when it exists.
        waiting: seconds behind the checkpoint, for sinks that have yet to commit epochs before: they hold the job back.
        event_time: where event time is, split by split and operator by operator; None where nobody has looked.
        sources: how far each source is behind.
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
    pending_commits: int = 0
    waiting: float = 0.0
    event_time: WatermarkProgress | None = field(default=None, repr=False)
    sources: tuple[SourceProgress, ...] = field(default=(), repr=False)

    @property
    def seconds(self) -> float:
        """The whole epoch."""
        return self.planning + self.running + self.checkpointing + self.waiting

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
        """Whether a source reads what is history, so that epochs are longer."""
        return any(source.is_processing_backlog for source in self.sources)

    @property
    def watermark_lag(self) -> int | None:
        """Milliseconds by which event time is behind the clock; None before there is any, or at the end of input."""
        if self.watermark in (MIN_WATERMARK, MAX_WATERMARK):
            return None
        return self.processing_time - self.watermark


class JobListener:
    """Is told what a job does, by the job's own thread, so it has to be quick; does nothing unless overridden."""

    def starting(self, what: str) -> None:
        """Something that takes seconds is started for the job, and the job after it; called by who submits it."""

    def start_failed(self) -> None:
        """The job does not begin, since something that it needs could not be started; the caller raises the error."""

    def job_started(self, start: JobStart) -> None:
        """The job is about to run its first epoch."""

    def epoch_completed(self, statistics: EpochStatistics) -> None:
        """An epoch's manifest exists."""

    def commits_acknowledged(self, epoch: int, pending: int) -> None:
        """While nothing is to be read, a manifest with a number of its own says what has been committed."""

    def epoch_failed(self, epoch: int, error: BaseException, retry_in: float) -> None:
        """Something failed that may pass; the epoch is run again in so many seconds."""

    def job_restarted(self, epoch: int) -> None:
        """The job goes on from this epoch after a failure."""

    def job_ended(self, end: JobEnd) -> None:
        """The job is over; it may not have started."""


class LoggingListener(JobListener):
    """Logs what a job does, and hands it on.

    What begins and ends a job is at INFO, epochs are at DEBUG, failures that may pass at WARNING. What a job fails with
    is raised to whoever waits for it, so it is at INFO here.

    Args:
        job: the job's name.
        shown_by: shows the same to the user.
    """

    def __init__(self, job: str, shown_by: JobListener | None = None) -> None:
        self._job = job
        self._shown_by = shown_by or JobListener()
        self._has_started = False

    def job_started(self, start: JobStart) -> None:
        self._has_started = True
        logger.info("%s", start)
        self._shown_by.job_started(start)

    def epoch_completed(self, statistics: EpochStatistics) -> None:
        logger.debug("job %r: %s", self._job, statistics)
        self._shown_by.epoch_completed(statistics)

    def commits_acknowledged(self, epoch: int, pending: int) -> None:
        logger.debug("job %r: manifest %d says what is committed; %d to be committed", self._job, epoch, pending)
        self._shown_by.commits_acknowledged(epoch, pending)

    def epoch_failed(self, epoch: int, error: BaseException, retry_in: float) -> None:
        logger.warning("job %r: epoch %d failed, it is run again in %.1f s: %s", self._job, epoch, retry_in, error)
        self._shown_by.epoch_failed(epoch, error, retry_in)

    def job_restarted(self, epoch: int) -> None:
        logger.info("job %r goes on from epoch %d", self._job, epoch)
        self._shown_by.job_restarted(epoch)

    def job_ended(self, end: JobEnd) -> None:
        how = str(end) if self._has_started else "did not start"
        if end.error is None or isinstance(end.error, JobCancelledError):
            logger.info("job %r %s", self._job, how)
        else:
            logger.info("job %r %s: %s: %s", self._job, how, type(end.error).__name__, end.error)
        self._shown_by.job_ended(end)
