"""``JobClient``: a handle on a job that runs."""

import sys
import threading
import time
from os import PathLike, fspath
from typing import Any, Final

from headrace.client import running
from headrace.common import options
from headrace.common.call_site import innermost
from headrace.common.completable_future import CompletableFuture
from headrace.common.errors import ConfigurationError, JobCancelledError, SavepointError, StateCorruptedError, expect
from headrace.common.job_execution_result import JobExecutionResult, JobFailure
from headrace.common.job_id import JobID
from headrace.common.job_status import JobStatus
from headrace.common.logs import get_logger
from headrace.common.notebooks import framed
from headrace.common.public_module import public
from headrace.common.typeinfo import DeclaredType
from headrace.jobmanager.job_manager import JobManager
from headrace.jobmanager.savepoints import EMPTY_PLACE, NO_PLACE, SavepointRequest
from headrace.jobmanager.status import JobSnapshot
from headrace.savepoint.metadata import SavepointFormat, savepoint_format
from headrace.savepoint.stored_job import query, read_with_retries
from headrace.state.descriptors import StateDescriptor

logger = get_logger(__name__)

CANCEL_SECONDS: Final = 15.0
"""The time that a job has to end after it was cancelled; then its thread is left behind, whatever it does."""


@public
class JobClient:
    """Runs a job manager on a thread of its own, and has its status; names as in PyFlink.

    Args:
        manager: the job, not started yet.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> _ = env.from_collection([1, 2, 3]).filter(lambda n: n > 5).print()
        >>> client = env.execute_async("numbers")
        >>> client.get_job_execution_result().result().get_accumulator_result("numRecordsRead")
        3
        >>> client.get_job_status().result()
        <JobStatus.FINISHED: 6>
    """

    def __init__(self, manager: JobManager) -> None:
        self._manager = manager
        self._is_over = False
        self._lock = threading.Lock()
        self._result: CompletableFuture[JobExecutionResult] = CompletableFuture()
        self._job_id = JobID()
        self._is_interrupted = False
        self._thread = threading.Thread(target=self._run, name=f"headrace-job-{manager.plan.name}", daemon=True)

    def start(self) -> None:
        """Begin to run."""
        running.register(self)
        self._thread.start()

    def get_job_id(self) -> JobID:
        """The job's id, from now on to its result: that of its checkpoint directory, where an earlier run has left one.

        Waits until the job has looked there.
        """
        self._manager.wait_until_identified()
        manifest = self._manager.manifest
        return self._job_id if manifest is None else JobID(manifest.job_id)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return how the job fares now."""
        return CompletableFuture.completed(self._manager.status().status)

    def snapshot(self) -> JobSnapshot:
        """All that is known of this run of the job at this moment."""
        return self._manager.status()

    def cancel(self) -> CompletableFuture[None]:
        """Give up the epoch that runs and end the job; what was committed stays committed.

        The job's result is then a ``JobCancelledError``. A job that has ended already stays as it is. One that does not
        end within a quarter of a minute, because a function sleeps, say, is left behind in its thread: it writes
        nothing any more.
        """
        status = self._manager.status().status
        self._manager.cancel()
        if not (status.is_terminal_state() or status is JobStatus.CANCELLING):
            threading.Thread(target=self._leave_behind, name=f"{self._thread.name}-cancel", daemon=True).start()
        return self._when_ended()

    def abandon(self) -> threading.Thread:
        """Give up the epoch that runs while the process ends: there no thread is started, from Python 3.12 on.

        Returns:
            The thread that the job runs on, which comes to its end.
        """
        self._manager.cancel()
        return self._thread

    def stop(self, *, drain: bool = False) -> CompletableFuture[None]:
        """End the job at the end of the epoch that runs; it can go on from there.

        Args:
            drain: whether all sources are to end where they are. One more epoch then brings event time to its end, so
                that all its windows and timers fire, and the job has finished: it does not go on from there.
        """
        expect(drain, bool, "stop: drain")
        self._manager.stop(drain=drain)
        return self._when_ended()

    def rescale(self, parallelism: int) -> CompletableFuture[None]:
        """Have the job go on at another parallelism, from the end of the epoch that runs; the session stays.

        Operators for which the program sets a parallelism keep it. Flink's REST API has this for its adaptive scheduler
        (``/jobs/:jobid/resource-requirements``), PyFlink has not.

        Args:
            parallelism: how many subtasks all other operators have from then on.

        Returns:
            Done when the job goes on. An ``InvalidProgramError`` when it cannot be planned so, above its maximum
            parallelism, say: then it goes on as it was. A ``JobExecutionError`` when it has ended before.
        """
        expect(parallelism, int, "rescale: parallelism")
        return self._manager.rescale(parallelism)

    def release_epoch(self) -> int:
        """Publishes the epoch that is held back since records of it violate an expectation; not in PyFlink.

        Returns:
            Its number.

        Raises:
            JobExecutionError: when none is held.
        """
        return self._manager.release_epoch()

    def trigger_checkpoint(self) -> CompletableFuture[int]:
        """Complete an epoch, and so a checkpoint, at once, though nothing is to be read; PyFlink has no such method.

        Returns:
            The number of the checkpoint; a ``JobExecutionError`` when the job ends before.
        """
        return self._manager.trigger_checkpoint()

    def trigger_savepoint(
        self, savepoint_directory: str | PathLike[str] | None = None, format_type: SavepointFormat = "canonical"
    ) -> CompletableFuture[str]:
        """Take a savepoint at the end of the epoch that runs, while the job goes on.

        Args:
            savepoint_directory: where its directory is made, under a new name; what
                ``execution.checkpointing.savepoint-dir`` says when left out.
            format_type: ``"canonical"`` for files of its own that any backend can start from, ``"native"`` for
                references to files of the checkpoint directory, which is done at once.

        Returns:
            The place of the savepoint, once it is complete; a ``SavepointError`` when it was not taken.
        """
        return self._manager.take_savepoint(self._wanted("trigger_savepoint", savepoint_directory, format_type))

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | PathLike[str] | None = None,
        format_type: SavepointFormat = "canonical",
    ) -> CompletableFuture[str]:
        """Take a savepoint, and end the job with it.

        Args:
            advance_to_end_of_event_time: whether all sources are to end where they are first, as for
                :meth:`stop` with ``drain``. A job that starts from such a savepoint has nothing left to do.
            savepoint_directory: as for :meth:`trigger_savepoint`.
            format_type: as for :meth:`trigger_savepoint`.

        Returns:
            The place of the savepoint, once it is complete and the job has ended. When none could be taken it is a
            ``SavepointError``, and the job goes on, unless it has come to its end.
        """
        expect(advance_to_end_of_event_time, bool, "stop_with_savepoint: advance_to_end_of_event_time")
        wanted = self._wanted("stop_with_savepoint", savepoint_directory, format_type)
        drains = advance_to_end_of_event_time
        return self._with_the_end(self._manager.take_savepoint(wanted, stops=True, drains=drains))

    def _with_the_end(self, savepoint: CompletableFuture[str]) -> CompletableFuture[str]:
        """The same, not before the job has ended."""
        ended: CompletableFuture[str] = CompletableFuture()

        def complete(taken: CompletableFuture[str]) -> None:
            error = taken.exception()
            if error is not None:
                ended.set_exception(error)
            else:
                self._result.add_done_callback(lambda _: ended.set_result(taken.result()))

        savepoint.add_done_callback(complete)
        return ended

    def _wanted(self, method: str, directory: str | PathLike[str] | None, format_type: str) -> SavepointRequest:
        if directory is None:
            directory = self._manager.savepoint_directory
        if directory is None:
            raise ConfigurationError(NO_PLACE)
        place = fspath(directory) if isinstance(directory, PathLike) else directory
        expect(place, str, f"{method}: savepoint_directory")
        if not place.strip():
            raise ConfigurationError(f"{method}: {EMPTY_PLACE}")
        expect(format_type, str, f"{method}: format_type")
        return SavepointRequest(place, savepoint_format(format_type))

    def query_state(self, uid: str, descriptor: StateDescriptor, key: Any, key_type: DeclaredType | None = None) -> Any:
        """Read the state of one key as of the newest checkpoint of the job; other keys are not read.

        Java's ``QueryableStateClient`` is the model, which queries tasks; here state files are read, and the job does
        not notice. Of a job in another process :meth:`SavepointReader.query` reads the checkpoint directory.

        Arguments and result are those of :meth:`SavepointReader.query`.

        Raises:
            StateMigrationError: when the state was stored with another type, or with other keys.
            SavepointError: when the job has completed no epoch yet, has no such operator, or nothing under the name of
                the state, or has ended and had no checkpoint directory (``execution.checkpointing.dir``).
        """
        job = self._manager.stored_job()
        try:
            _, found = read_with_retries(job, lambda job: query(job, uid, descriptor, key, key_type))
        except StateCorruptedError as error:
            raise SavepointError(
                f"the state of {job.location} cannot be read: {error}. Without {options.CHECKPOINT_DIR.key} it is kept "
                "until the job ends"
            ) from error
        return found

    def interrupt(self) -> CompletableFuture[None]:
        """Stop as for :meth:`stop`, at the wish of a signal and not of the program, which may not know of it."""
        self._is_interrupted = True
        return self.stop()

    def interruption(self) -> JobCancelledError | None:
        """The error to raise where the program wants all results of a job that a signal has stopped.

        None when it has finished, has failed, or was stopped by the program itself.
        """
        end = self._manager.status().end
        if not self._is_interrupted or end is None or end.finished or end.error is not None:
            return None
        return JobCancelledError(
            f"job {self._manager.plan.name!r} was stopped by a signal (Ctrl-C, SIGTERM) after epoch {end.epoch or 0}, "
            "before the end of its input: its results are not complete"
        )

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """The job's counters up to now."""
        return CompletableFuture.completed(self._manager.shown_counters())

    def get_metrics(self) -> CompletableFuture[dict[str, float]]:
        """The job's counters, and where event time and sources are, as of the last epoch; all times are milliseconds.

        Counters of an operator are ``<operator>.numRecordsIn``, ``<operator>.numLateRecordsDropped`` and so on. Event
        time is in ``<operator>.currentInputWatermark``, ``<operator>.currentOutputWatermark`` (of the slowest
        subtask), ``<operator>.watermarkLag`` (how far that is behind the job's clock),
        ``<operator>.watermarkAlignmentDrift`` (how far its fastest split is ahead of the slowest one of its group), and
        ``<source>.<split>.currentWatermark``. The lowest number stands for no watermark yet, the highest one for the
        end of input.

        How far a source is behind is in ``<source>.pendingRecords`` and ``<source>.pendingBytes`` (what is there
        and not read yet, where the connector knows), ``<source>.currentFetchEventTimeLag`` and
        ``<source>.currentEmitEventTimeLag`` (how old, by its timestamp, the last record was when its epoch began, and
        when that was complete), ``<source>.watermarkLag``, ``<source>.sourceIdleTime`` (since when nothing has come)
        and ``<source>.isProcessingBacklog`` (1 while what is read is history).

        What functions measure with ``RuntimeContext.get_metrics_group()`` is ``<operator>.<name>``, with the names of
        groups before the name; of gauges ``<operator>.<subtask>.<name>``.
        """
        return CompletableFuture.completed(self._manager.shown_metrics())

    def get_exception_history(self) -> CompletableFuture[list[JobFailure]]:
        """The latest failures of the job, the last one at the end; how many says ``web.exception-history-size``.

        With a checkpoint directory those of earlier runs are among them.
        """
        return CompletableFuture.completed(list(self._manager.status().failures))

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """The result, when the job has ended; the error, when it has failed; a ``JobCancelledError`` when cancelled."""
        return self._result

    def _repr_html_(self) -> str:
        """The HTML for notebooks: the status of the job and its counters."""
        manifest = self._manager.manifest
        facts: dict[str, object] = {"name": self._manager.plan.name, "status": self._manager.status().status.name}
        if manifest is not None:
            counters = sorted(self._manager.shown_counters().items())
            facts |= {"job": manifest.job_id, "epoch": manifest.epoch, **dict(counters)}
        return framed(type(self).__name__, facts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._manager.plan.name!r}, {self._manager.status().status.name})"

    def _run(self) -> None:
        started = time.monotonic()
        try:
            manifest = self._manager.run()
        except BaseException as error:
            if self._ends():
                self._result.set_exception(error)
        else:
            millis = int((time.monotonic() - started) * 1000)
            if self._ends():
                counters = self._manager.shown_counters()
                self._result.set_result(JobExecutionResult(JobID(manifest.job_id), millis, counters))

    def _leave_behind(self) -> None:
        """See to it that a job that was cancelled has an end."""
        self._thread.join(CANCEL_SECONDS)
        where = innermost(sys._current_frames().get(self._thread.ident or 0))
        if self._ends():
            error = JobCancelledError(
                f"job {self._manager.plan.name!r} was cancelled and has not ended within {CANCEL_SECONDS:g} s: its "
                f"thread is left behind, at {where}"
            )
            logger.warning("%s", error)
            self._manager.leave_behind(error)
            self._result.set_exception(error)

    def _ends(self) -> bool:
        """The job has come to its end; False when it had before."""
        running.unregister(self)
        with self._lock:
            ends, self._is_over = not self._is_over, True
            return ends

    def _when_ended(self) -> CompletableFuture[None]:
        ended: CompletableFuture[None] = CompletableFuture()
        self._result.add_done_callback(lambda _: ended.set_result(None))
        return ended
