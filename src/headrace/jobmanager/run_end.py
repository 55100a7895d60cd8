"""How a run of a job ends: why it really did, and what becomes of its checkpoints then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.errors import EXITS, JobCancelledError, JobExecutionError, JobSupersededError
from headrace.common.logs import get_logger
from headrace.jobmanager.checkpoints.retention import Ending

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
        ending = self._ending(error, has_run)
        if ending is not None and self._supervisor.settings.retention.deletes(ending):
            try:
                self._supervisor.checkpoints.discard()
            except Exception:
                logger.warning("job %r: deleting its checkpoints failed", self._supervisor.plan.name, exc_info=True)

    def _ending(self, error: BaseException | None, has_run: bool) -> Ending | None:
        """How the run ended; None when the checkpoints are somebody else's, or it failed before it had an epoch."""
        if error is None:
            return Ending.FINISHED if self._supervisor.checkpoints.known().finished else Ending.STOPPED
        if isinstance(error, JobCancelledError):
            return Ending.CANCELLED
        return None if isinstance(error, JobSupersededError) or not has_run else Ending.FAILED
