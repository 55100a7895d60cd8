"""How a run of a job ends: why it really did, and what becomes of its checkpoints then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.errors import EXITS, JobCancelledError, JobExecutionError, JobSupersededError
from headrace.common.job_status import JobStatus
from headrace.common.logs import get_logger
from headrace.jobmanager.status import JobEnd

if TYPE_CHECKING:
    import threading

    from headrace.jobmanager.supervisor import ExecutionSupervisor

logger = get_logger(__name__)


class RunEnd:
    """The end of a run.

    Args:
        supervisor: has run the job.
        cancelled: set when somebody has given it up.
    """

    def __init__(self, supervisor: ExecutionSupervisor, cancelled: threading.Event) -> None:
        self._supervisor = supervisor
        self._cancelled = cancelled

    def cancellation(self) -> JobCancelledError:
        """What a run ends with that was given up."""
        newest = self._supervisor.checkpoints.newest
        epoch = 0 if newest is None else newest.epoch
        return JobCancelledError(f"job {self._supervisor.plan.name!r} was cancelled after epoch {epoch}")

    def explained(self, failure: BaseException) -> BaseException:
        """Why the run really ended.

        Who has been superseded may come to grief before its next manifest: its state files are being deleted. And what
        fails while a job is being cancelled fails for that reason.
        """
        name = self._supervisor.plan.name
        try:
            self._supervisor.checkpoints.check_owner()
        except JobSupersededError as superseded:
            return failure if isinstance(failure, JobSupersededError) else superseded
        except OSError:
            logger.info("whether job %r has been taken over cannot be told", name, exc_info=True)
        if self._cancelled.is_set():
            return self.cancellation()
        if isinstance(failure, EXITS):
            return JobExecutionError(
                f"job {name!r}: the driver's half of a source or a sink raised {type(failure).__name__}: {failure}; it "
                "has to raise an exception instead"
            )
        return failure

    def discard_checkpoints(self, error: BaseException | None, *, has_run: bool) -> None:
        """Delete the checkpoints, when the configuration wants that after such an end.

        Args:
            error: why the run has ended; None where nothing failed.
            has_run: whether it has completed an epoch.
        """
        finished = error is None and self._supervisor.checkpoints.known().finished
        status = JobEnd(None, finished, error).status  # without the savepoint of a stop, which may refer to them
        if status is JobStatus.FAILED and not has_run:  # it may have failed because they are somebody else's
            return
        if self._supervisor.settings.retention.deletes(status):
            try:
                self._supervisor.checkpoints.discard()
            except Exception:
                logger.warning("job %r: deleting its checkpoints failed", self._supervisor.plan.name, exc_info=True)
