"""``JobClient``: a handle on a job that runs."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from headrace.client import running
from headrace.common.completable_future import CompletableFuture
from headrace.common.errors import JobCancelledError, UnsupportedOperationError
from headrace.common.job_execution_result import JobExecutionResult
from headrace.common.job_id import JobID
from headrace.common.job_status import JobStatus

if TYPE_CHECKING:
    from headrace.jobmanager.job_manager import JobManager


class JobClient:
    """Runs a job manager on a thread of its own and tells how it fares; names as in PyFlink.

    Args:
        manager: the job, not started yet.
    """

    def __init__(self, manager: JobManager) -> None:
        self._manager = manager
        self._status = JobStatus.CREATED
        self._status_lock = threading.Lock()
        self._result: CompletableFuture[JobExecutionResult] = CompletableFuture()
        self._job_id = JobID()
        self._thread = threading.Thread(target=self._run, name=f"headrace-job-{manager.plan.name}", daemon=True)

    def start(self) -> None:
        """Begin to run."""
        running.register(self._manager)
        self._status = JobStatus.RUNNING
        self._thread.start()

    def get_job_id(self) -> JobID:
        """The job's id; known for good once the job has looked into its checkpoint directory."""
        manifest = self._manager.manifest
        return self._job_id if manifest is None else JobID(manifest.job_id)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """How the job fares now."""
        return CompletableFuture.completed(self._status)

    def cancel(self) -> CompletableFuture[None]:
        """Give up the epoch that runs and end the job; what was committed stays committed.

        The job's result is then a ``JobCancelledError``. A job that has ended already stays as it is.
        """
        with self._status_lock:
            if not self._status.is_terminal_state():
                self._status = JobStatus.CANCELLING
        self._manager.cancel()
        return self._when_ended()

    def stop(self) -> CompletableFuture[None]:
        """End the job at the end of the epoch that runs; it can go on from there."""
        self._manager.stop()
        return self._when_ended()

    def stop_with_savepoint(self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None) -> Any:
        """Not there yet.

        Raises:
            UnsupportedOperationError: always.
        """
        raise UnsupportedOperationError("savepoints are not supported yet; stop() leaves a checkpoint to go on from")

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> Any:
        """Not there yet.

        Raises:
            UnsupportedOperationError: always.
        """
        raise UnsupportedOperationError(
            "savepoints are not supported yet; every epoch leaves a checkpoint to go on from"
        )

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """The job's counters up to now."""
        manifest = self._manager.manifest
        return CompletableFuture.completed({} if manifest is None else dict(manifest.counters))

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """The result, when the job has ended; the error, when it has failed; a ``JobCancelledError`` when cancelled."""
        return self._result

    def _run(self) -> None:
        started = time.monotonic()
        try:
            manifest = self._manager.run()
        except BaseException as error:
            self._ended(JobStatus.CANCELED if isinstance(error, JobCancelledError) else JobStatus.FAILED)
            self._result.set_exception(error)
        else:
            millis = int((time.monotonic() - started) * 1000)
            self._ended(JobStatus.FINISHED if manifest.finished else JobStatus.CANCELED)
            self._result.set_result(JobExecutionResult(JobID(manifest.job_id), millis, dict(manifest.counters)))
        finally:
            running.unregister(self._manager)

    def _ended(self, status: JobStatus) -> None:
        with self._status_lock:
            self._status = status

    def _when_ended(self) -> CompletableFuture[None]:
        ended: CompletableFuture[None] = CompletableFuture()
        self._result.add_done_callback(lambda _: ended.set_result(None))
        return ended
