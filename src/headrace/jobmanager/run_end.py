"""The root cause of a run's end, and what happens to its checkpoints afterwards."""

from headrace.checkpoint.manifest import Manifest
from headrace.common.errors import EXITS, JobCancelledError, JobExecutionError, JobSupersededError
from headrace.common.job_status import JobStatus
from headrace.common.logs import get_logger
from headrace.jobmanager.checkpoints import CheckpointCoordinator
from headrace.jobmanager.settings import Retention
from headrace.jobmanager.status import JobEnd

logger = get_logger(__name__)


def explained(
    failure: BaseException, checkpoints: CheckpointCoordinator, name: str, *, is_cancelled: bool
) -> BaseException:
    """The root cause of a run's end.

    A job manager that was superseded may fail before its next manifest, since its state files are being deleted. And
    what fails while a job is being cancelled fails for that reason.
    """
    try:
        checkpoints.check_owner()
    except JobSupersededError as superseded:
        return failure if isinstance(failure, JobSupersededError) else superseded
    except OSError:
        logger.info("whether job %r has been taken over cannot be told", name, exc_info=True)
    if is_cancelled:
        return cancellation(name, checkpoints.newest)
    if isinstance(failure, EXITS):
        return JobExecutionError(
            f"job {name!r}: the driver's half of a source or a sink raised {type(failure).__name__}: {failure}; it has "
            "to raise an exception instead"
        )
    return failure


def cancellation(name: str, newest: Manifest | None) -> JobCancelledError:
    """The error of a cancelled run."""
    return JobCancelledError(f"job {name!r} was cancelled after epoch {0 if newest is None else newest.epoch}")


def discard_checkpoints(
    checkpoints: CheckpointCoordinator, retention: Retention, name: str, error: BaseException | None, *, has_run: bool
) -> None:
    """Delete the checkpoints of a job, when the configuration wants that after such an end.

    Args:
        checkpoints: the chain of its manifests.
        retention: after which ends they are deleted.
        name: the job's name.
        error: why the run has ended; None where nothing failed.
        has_run: whether it has completed an epoch.
    """
    finished = error is None and checkpoints.known().finished
    status = JobEnd(None, finished, error).status  # without the savepoint of a stop, which may refer to them
    # A job that fails before its first epoch may have failed because they are another's.
    if retention.deletes(status) and (has_run or status is not JobStatus.FAILED):
        try:
            checkpoints.discard()
        except Exception:
            logger.warning("job %r: deleting its checkpoints failed", name, exc_info=True)
