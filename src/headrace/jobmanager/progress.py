"""What a job says about itself while it runs."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobStart:
    """A job that is about to run its first epoch.

    Attributes:
        name: the job's name.
        job_id: the job's id.
        restored_epoch: the epoch that it goes on from; None when it starts afresh.
        generation: how often it was taken over.
        finished: whether it had come to its end before, so that nothing is left to do.
    """

    name: str
    job_id: str
    restored_epoch: int | None = None
    generation: int = 0
    finished: bool = False


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
        pending_commits: epochs that wait for their sinks.
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

    @property
    def seconds(self) -> float:
        """The whole epoch."""
        return self.planning + self.running + self.checkpointing

    @property
    def watermark_lag(self) -> int | None:
        """Milliseconds by which event time is behind the clock; None before there is any, or at the end of input."""
        if self.watermark in (MIN_WATERMARK, MAX_WATERMARK):
            return None
        return self.processing_time - self.watermark


class JobListener(Protocol):
    """Is told what a job does; called by the job manager's thread, so it has to be quick."""

    def job_started(self, start: JobStart) -> None:
        """The job is about to run its first epoch."""

    def epoch_completed(self, statistics: EpochStatistics) -> None:
        """An epoch's manifest exists."""

    def epoch_failed(self, epoch: int, error: BaseException, retry_in: float) -> None:
        """Something failed that may pass; the epoch is run again in so many seconds."""

    def job_ended(self, epoch: int, error: BaseException | None) -> None:
        """The job is over; ``epoch`` is the one that it would go on from."""


class LoggingListener:
    """Logs what goes wrong, for jobs whose progress nobody shows."""

    def job_started(self, start: JobStart) -> None:
        """Nothing."""

    def epoch_completed(self, statistics: EpochStatistics) -> None:
        """Nothing."""

    def epoch_failed(self, epoch: int, error: BaseException, retry_in: float) -> None:
        """A warning."""
        logger.warning("epoch %d failed, it is run again in %.1f s: %s", epoch, retry_in, error)

    def job_ended(self, epoch: int, error: BaseException | None) -> None:
        """Nothing: whoever waits for the job gets the error."""
