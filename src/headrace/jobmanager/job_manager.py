"""The life of a job: epoch after epoch, commands in between, until it ends or is stopped.

The same code drives every runtime. What an epoch is, :class:`headrace.jobmanager.epochs.JobExecution` says.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from headrace.checkpoint.failure_history import FailureHistory
from headrace.checkpoint.manifest import Manifest, PendingCommit
from headrace.checkpoint.store import CheckpointStore, TemporaryStore
from headrace.common.completable_future import CompletableFuture
from headrace.common.errors import (
    CheckpointFailedError,
    InfrastructureError,
    JobCancelledError,
    JobExecutionError,
    JobSupersededError,
    SavepointError,
    UnsupportedOperationError,
)
from headrace.common.job_status import JobStatus
from headrace.common.logs import LogFields, get_logger, logging_of
from headrace.jobmanager import events
from headrace.jobmanager.autoscaler import rescaler_of
from headrace.jobmanager.checkpoints import CheckpointCoordinator, EpochGate, discard_checkpoints
from headrace.jobmanager.compaction import CompactionCoordinator
from headrace.jobmanager.control import CommandQueue, RequestWatch
from headrace.jobmanager.epoch_plan import EpochPlan, EpochSizer, JobServices
from headrace.jobmanager.epochs import JobExecution
from headrace.jobmanager.events import EpochStatistics, JobEnd
from headrace.jobmanager.failover import FailureHandler, FailureRecorder, cancellation, root_cause
from headrace.jobmanager.metrics import FunctionMetrics, MetricKey, WatermarkProgress, by_shown_name, counters_of
from headrace.jobmanager.recovery import check_compatible, holds_state
from headrace.jobmanager.runtime import Runtime
from headrace.jobmanager.savepoints import LOOK_SECONDS, SavepointCoordinator, SavepointRequest, recover, too_late
from headrace.jobmanager.settings import PlannedJob, Replan
from headrace.jobmanager.sinks import JobSinks
from headrace.jobmanager.sources import SourceCoordinator
from headrace.jobmanager.status import JobSnapshot, JobStatusStore
from headrace.plan.job_plan import JobPlan
from headrace.runtime.task.messages import SerializedJob
from headrace.savepoint.stored_job import StoredJob
from headrace.time.clock import Clock, SystemClock

logger = get_logger(__name__)

T = TypeVar("T")

ACKNOWLEDGE_SECONDS = 0.25
"""After so long without an epoch, whose manifest would say it, one of its own says what has been committed."""


class JobManager:
    """Runs one job, and does what others ask of it.

    The client of the program, requests of other processes and whatever serves a job to the network share what may be
    called from any thread, so that a savepoint or a stop means the same wherever it comes from.

    It keeps an execution of the job going. After a failure that may pass, whatever it came from, the job begins again
    as a new process would: another execution goes on from the newest manifest, under a new generation. So it does when
    it gets another plan.

    Args:
        job: the job.
        runtime: where epochs are executed.
        store: where manifests are kept.
        status: where its status is published.
        clock: tells processing time; the system's clock, carried on from the manifest, when left out.
        replan: plans the job at another parallelism; it cannot be rescaled when left out.
    """

    _services: JobServices
    """State shared by all executions, from :meth:`open` on."""

    _failures: FailureHandler
    """Decides what becomes of a failure, likewise."""

    def __init__(
        self,
        job: PlannedJob,
        runtime: Runtime,
        store: CheckpointStore | TemporaryStore,
        status: JobStatusStore | None = None,
        clock: Clock | None = None,
        replan: Replan | None = None,
    ) -> None:
        self._job = job
        self._runtime = runtime
        self._store = store
        self._status = status or JobStatusStore(job.plan.name)
        self._clock = clock
        self._log_fields = LogFields(job.plan.name)
        self._replan = replan
        rescaling = job.settings.rescaling
        self._rescaler = None if rescaling is None else rescaler_of(rescaling, runtime, self._status)
        self._stop = threading.Event()
        self._drains = threading.Event()
        self._cancelled = threading.Event()
        self._wake = threading.Event()
        self._is_identified = threading.Event()
        self._commands = CommandQueue(self._wake)
        self._sinks = JobSinks(job.plan, job.blob, runtime)
        self._checkpoints = CheckpointCoordinator(job, self._sinks, store)
        self._started: SerializedJob | None = None
        self._execution: JobExecution | None = None
        self._transient: list[PendingCommit] = []
        self._measured = FunctionMetrics()
        self._gate = EpochGate(self._status.publish, self._stop, self._while_held)
        self._savepoints = SavepointCoordinator(self._status.publish)
        self._last_savepoint = ""
        # Nobody else knows the folder of a job without a checkpoint directory, so nobody leaves requests there.
        self._requests = RequestWatch(store.storage, job.settings.savepoint_directory) if store.outlasts_job else None
        self._has_unseen_state = False
        self._active_at = 0.0

    @property
    def plan(self) -> JobPlan:
        """The job's plan; another one after :meth:`rescale`."""
        return self._job.plan

    @property
    def savepoint_directory(self) -> str | None:
        """The directory of savepoints whose request names none; None where a request has to name one."""
        return self._job.settings.savepoint_directory

    def status(self) -> JobSnapshot:
        """All that is known of this run; from any thread, before the job starts and after its end."""
        return self._status.snapshot

    def metrics(self) -> dict[MetricKey, float]:
        """All that the job measures; counters are those of its newest manifest, which an earlier run may have left."""
        latest = self.status().latest
        rest = {} if latest is None else latest.metrics(self._services.now())
        return {**counters_of(self.manifest), **rest}

    def shown_metrics(self) -> dict[str, float]:
        """The same under the names that programs see."""
        return by_shown_name(self.metrics(), self.plan.shown_names())

    def shown_counters(self) -> dict[str, int]:
        """The counters alone."""
        return by_shown_name(counters_of(self.manifest), self.plan.shown_names())

    @property
    def manifest(self) -> Manifest | None:
        """The newest manifest that is known to exist, or what a fresh directory began with; None before it is open."""
        return self._checkpoints.newest

    def stored_job(self) -> StoredJob:
        """The job as of its newest checkpoint; files of it may go while they are read, when there is a newer one.

        Raises:
            SavepointError: when it has completed no epoch yet.
        """
        self.wait_until_identified()
        newest, location = self.manifest, f"job {self.plan.name!r}"
        if newest is None or not newest.stages:
            raise SavepointError(f"{location} has completed no epoch yet: ask again later")
        return StoredJob(location, newest, state=self._store.state, later=self.stored_job)

    # --- for others --------------------------------------------------------------------------------------------------

    def run(self) -> Manifest:
        """Run the job to its end, or until it is stopped; from where an earlier run had come to.

        Raises:
            JobCancelledError: when it was cancelled before its end.
            HeadraceError: why the job failed.
        """
        error: BaseException | None = None
        with logging_of(self._log_fields):
            try:
                self.open()
                self._loop()
                if self._cancelled.is_set() and not self._checkpoints.known().finished:
                    raise cancellation(self.plan.name, self.manifest)
                return self._checkpoints.known()
            except BaseException as failure:
                cancelled = cancellation(self.plan.name, self.manifest) if self._cancelled.is_set() else None
                error = root_cause(failure, self.plan.name, self._checkpoints.check_owner, cancelled)
                if self._job_end(error).status is JobStatus.FAILED:
                    self._status.publish(events.JobFailing())
                if error is failure:
                    raise
                raise error from failure
            finally:
                self._is_identified.set()
                self._commands.close()
                self._savepoints.close(is_superseded=isinstance(error, JobSupersededError))
                if self._requests is not None:
                    self._requests.close(error)
                self.close()
                retention, has_run = self._job.settings.retention, self._status.snapshot.latest is not None
                discard_checkpoints(self._checkpoints, retention, self.plan.name, error, has_run=has_run)
                end = self._job_end(error)
                self._log_fields.epoch = end.epoch or 0
                self._status.publish(end)

    def wait_until_identified(self) -> None:
        """Wait until the job's checkpoint directory was looked into, or the job has ended before; from any thread."""
        self._is_identified.wait()

    def stop(self, *, drain: bool = False) -> None:
        """Stop at the end of the epoch that runs; with ``drain`` one more epoch ends all sources where they are."""
        (self._drains if drain else self._stop).set()
        self._wake.set()

    def cancel(self) -> None:
        """Give up the epoch that runs and stop; from any thread."""
        self._status.publish(events.JobCancelling())
        self._cancelled.set()
        self.stop()
        self._runtime.cancel()

    def leave_behind(self, error: JobCancelledError) -> None:
        """The job was canceled and does not end: publish its end all the same."""
        self._status.publish(self._job_end(error))

    def request(self, command: Callable[[], T]) -> CompletableFuture[T]:
        """Have something done between two epochs; from any thread.

        Returns:
            The outcome; a ``JobExecutionError`` when the job ends before.
        """
        return self._commands.add(command)

    def take_savepoint(
        self, wanted: SavepointRequest, *, stops: bool = False, drains: bool = False
    ) -> CompletableFuture[str]:
        """Take a savepoint between two epochs; from any thread.

        Args:
            wanted: where, and of which format.
            stops: whether the job stops there.
            drains: whether all sources end where they are first, and so the job.

        Returns:
            The place of the savepoint, once it is complete; a ``SavepointError`` when none was taken.
        """

        def begin(outcome: CompletableFuture[str]) -> None:
            if drains:
                self._savepoints.begin_at_end(wanted, outcome)
                self.stop(drain=True)
                return
            self._savepoints.begin(self._running(), wanted, outcome, self._stop_with if stops else None)

        return self._commands.add_lasting(begin, too_late(wanted))

    def _stop_with(self, savepoint: str) -> None:
        self._last_savepoint = savepoint
        self.stop()

    def rescale(self, parallelism: int) -> CompletableFuture[None]:
        """Go on at another parallelism from the end of the epoch that runs; from any thread.

        Returns:
            The outcome: ``UnsupportedOperationError`` when the job cannot be planned anew, ``InvalidProgramError`` or
            ``StateMigrationError`` when it cannot be planned so; then it goes on as it was.
        """
        return self.request(partial(self._rescale, parallelism))

    def release_epoch(self) -> int:
        """Publish the epoch that is held back since it violates expectations; from any thread.

        Returns:
            Its number.

        Raises:
            JobExecutionError: when none is held.
        """
        return self._gate.release()

    def _while_held(self) -> None:
        """An epoch is held back: it may be taken over, cancelled or released by others meanwhile."""
        if self._cancelled.is_set():
            raise JobCancelledError(f"job {self.plan.name!r} was cancelled while an epoch was held back")
        if self._requests is not None:
            self._requests.look(self, only_stops=True)
        self._checkpoints.check_owner()

    def trigger_checkpoint(self) -> CompletableFuture[int]:
        """Complete an epoch at once, though nothing is to be read; from any thread.

        Returns:
            Its number, which is that of the checkpoint; a ``JobExecutionError`` when the job ends before.
        """
        return self.request(self._checkpoint)

    def _checkpoint(self) -> int:
        is_ending = self._stop.is_set() or self._savepoints.holds_epochs or self._checkpoints.known().finished
        statistics = None if is_ending else self._guard(partial(self._step, force=True))
        if statistics is None:
            raise JobExecutionError(f"job {self.plan.name!r} ends, and completes no checkpoint before")
        return statistics.epoch

    def open(self) -> None:
        """Restore or begin, take the directory over, commit what is pending."""
        restored = self._restored()
        self._status.publish(events.JobIdentified(self._checkpoints.known().job_id))
        self._is_identified.set()
        self._prepare(self._checkpoints.known())
        if isinstance(self._store, CheckpointStore):  # the folder of any other store is this run's alone
            recover(self._services, self._store)
        self._checkpoints.take_in(self._runtime, restored)
        manifest = self._checkpoints.known()
        self._has_unseen_state = holds_state(manifest)
        restored_epoch = None if restored is None else restored.epoch
        self._log_fields.job_id, self._log_fields.epoch = manifest.job_id, restored_epoch
        known = manifest.job_id, restored_epoch, manifest.generation, manifest.finished, manifest.restored_from
        self._status.publish(events.JobStart(self.plan.name, *known, self.plan, manifest.operator_counters))
        if self._requests is not None:
            self._requests.begin(manifest.generation)
        try:
            # Without a manifest it is not fenced off from one that began before, which may still write the first.
            self._begin_execution(recovers=restored is not None)
        except Exception as error:
            self._recover_from(error)

    def run_epoch(self, *, force: bool = False) -> EpochStatistics | None:
        """Run one epoch if there is a reason to, or if ``force`` wants one.

        Returns:
            How it went; None when there was nothing to do, or when the job was stopped before a failed epoch was due to
            be run again.
        """
        return self._guard(partial(self._epoch, force=force))

    def wait_for_commits(self) -> None:
        """Wait until all sinks have committed the epochs so far."""
        self._running().commits.drain()

    def complete_commits(self) -> None:
        """Wait until all sinks have committed; at the job's end let them remove what they kept for themselves.

        Then a last manifest says so, and the next start need not commit it again.

        Raises:
            CommitRefusedError: when a commit was refused for good.
        """
        # Without one the job was stopped before it could begin again, and the manifest knows.
        if self._execution is not None:
            self._guard(lambda: self._running().complete_commits(), is_required=True)

    def source(self, uid: str) -> SourceCoordinator:
        """One of the job's sources, as soon as the job is open."""
        return next(source for source in self._running().sources if source.planned.uid == uid)

    def event_time(self) -> WatermarkProgress:
        """Return where event time is, as soon as the job is open."""
        return self._running().event_time(self._checkpoints.known())

    def close(self) -> None:
        """Close execution, runtime and store; what is not committed stays in the manifest."""
        if self._cancelled.is_set():
            self._runtime.cancel()  # what runs beside the epochs
        execution = () if self._execution is None else (self._execution.close,)
        for close in (*execution, self._runtime.close, self._store.close):
            try:
                close()
            except Exception:
                logger.warning("job %r: closing it failed", self.plan.name, exc_info=True)

    # --- executions --------------------------------------------------------------------------------------------------

    def _restored(self) -> Manifest | None:
        """The manifest that the job goes on from, if any.

        Sinks check whether it is the newest. Where a service that they query is away, a job that has run before waits
        as it would later. One that has not fails at once: the program may name a wrong server.
        """
        failures: FailureHandler | None = None
        while True:
            try:
                return self._checkpoints.restore()
            except InfrastructureError as error:
                epoch = self._checkpoints.epoch_before
                failures = failures or self._new_failures(self._clock or SystemClock(0), self.plan.name)
                if not epoch or not failures.await_restart(error, epoch + 1):
                    raise

    def _prepare(self, manifest: Manifest) -> None:
        """Make what lasts from here to the end of the run, whatever fails meanwhile."""
        clock, settings = self._clock or SystemClock(manifest.processing_time), self._job.settings
        limit = settings.exception_history_size
        history = FailureHistory(self._store.storage, limit) if self._store.outlasts_job else None
        publish = self._status.publish
        recorder = FailureRecorder(history, settings.enrichers, manifest, clock.now, limit, publish)
        self._failures = self._new_failures(clock, manifest.job_id, recorder)
        self._start_runtime()
        self._services = JobServices(
            planned=self._job,
            runtime=self._runtime,
            store=self._store,
            checkpoints=self._checkpoints,
            sinks=self._sinks,
            sizer=EpochSizer(settings.limits),
            compaction=CompactionCoordinator(self._runtime, self._store.state, self.plan.settings.state_backend),
            clock=clock,
            cancelled=self._cancelled,
            gate=self._gate,
        )

    def _start_runtime(self) -> None:
        """Make the runtime ready for the plan, unless it is."""
        if self._started is not self._job.blob:
            self._runtime.start(self._job.blob)
            self._started = self._job.blob

    def _begin_execution(self, *, recovers: bool) -> None:
        self._start_runtime()
        latest = self._status.snapshot.latest
        times = {} if latest is None else latest.times
        self._execution = JobExecution(self._services, self._transient, self._measured, times)
        self._transient = []
        self._execution.start(recovers=recovers)

    def _running(self) -> JobExecution:
        """The execution, which there is as soon as the job is open, unless it was stopped after a failure."""
        assert self._execution is not None, "open() comes first"
        return self._execution

    def _guard(self, work: Callable[[], T], *, is_required: bool = False) -> T | None:
        """Do something, from a manifest that is known to exist, and again after failures that may pass.

        Returns:
            None when the job was stopped after a failure; then the failure is raised of what is required all the same.
        """
        while True:
            try:
                if self._checkpoints.in_doubt is not None:  # for a savepoint a manifest was written, or was not
                    self._restart()
                return work()
            except Exception as error:
                if not self._recover_from(error):
                    if is_required:
                        raise
                    return None

    def _recover_from(self, failure: Exception) -> bool:
        """Begin again after a failure, and after those that hinder that; False when the job was stopped before.

        Raises:
            Exception: what ends the job.
        """
        while True:
            with contextlib.suppress(OSError):  # it cannot be told while the directory cannot be read
                self._checkpoints.check_owner()
            is_checkpointing = self._execution is not None and self._execution.is_checkpointing
            of_checkpoint = isinstance(failure, CheckpointFailedError) or is_checkpointing
            epoch = self._checkpoints.known().epoch + 1
            if not self._failures.await_restart(failure, epoch, is_of_checkpoint=of_checkpoint):
                return False
            try:
                self._restart()
            except Exception as another:
                failure = another
            else:
                return True

    def _restart(self) -> None:
        """Abandon the execution, which may be ahead of the manifests, and begin another from the newest one."""
        if self._execution is not None:
            self._transient, self._measured = self._execution.abandon(), self._execution.measured
            self._execution = None
        self._transient += self._checkpoints.restart()
        self._begin_execution(recovers=True)
        self._status.publish(events.JobRestart(self._checkpoints.known().epoch, self.plan))

    def _rescale(self, parallelism: int) -> None:
        """Go on with another plan of the job, from the newest manifest.

        Raises:
            StateMigrationError: when the plan cannot go on from there; the job goes on as it was.
        """
        if self._replan is None:
            raise UnsupportedOperationError(f"job {self.plan.name!r} cannot be planned anew, so it cannot be rescaled")
        planned = self._replan(parallelism)
        ignores = self._job.settings.ignore_unclaimed_state
        check_compatible(self._checkpoints.known(), planned.plan, ignore_unclaimed=ignores)
        self._job, self._sinks = planned, JobSinks(planned.plan, planned.blob, self._runtime)
        self._checkpoints.replan(planned, self._sinks)
        sizer = EpochSizer(planned.settings.limits)
        self._services = replace(self._services, planned=planned, sinks=self._sinks, sizer=sizer)
        try:
            self._restart()
        except Exception as error:
            self._recover_from(error)
        logger.info("job %r goes on at parallelism %d", self.plan.name, parallelism)

    def _new_failures(self, clock: Clock, seed: str, recorder: FailureRecorder | None = None) -> FailureHandler:
        return FailureHandler(
            self._job.settings.restart.begin(clock, random.Random(seed)),
            self._status.publish,
            self._stop,
            cancelled=self._cancelled,
            rules=self._job.settings.rules,
            recorder=recorder,
            meanwhile=None if self._requests is None else partial(self._requests.look, self, only_stops=True),
        )

    # --- the loop ----------------------------------------------------------------------------------------------------

    def _job_end(self, error: BaseException | None) -> JobEnd:
        manifest, stopped_by = self.manifest, "" if self._requests is None else self._requests.stopped_by
        epoch, finished = (None, False) if manifest is None else (manifest.epoch or None, manifest.finished)
        return JobEnd(epoch, finished, error, stopped_by, self._last_savepoint)

    def _loop(self) -> None:
        while not (self._stop.is_set() or self._checkpoints.known().finished):
            if not self._has_unseen_state:  # else the manifest is still that of the program before
                self._commands.run_all()
            if self._stop.is_set():  # behind the savepoint that the job ends with, nothing may be shown any more
                break
            if self._rescaler is not None:
                self._rescaler.look(self.plan, self._rescale)
            statistics = self._guard(self._step)
            if self._execution is not None:
                self._savepoints.look(self._execution)
            if self._requests is not None:
                self._requests.look(self)
            if self._stop.is_set():
                break
            self._rest(self._idle_seconds() if statistics is None else self._pause_after(statistics))
        self._commands.run_all()
        self.complete_commits()
        if self._execution is not None:
            self._savepoints.finish(self._execution)

    def _step(self, *, force: bool = False) -> EpochStatistics | None:
        """Run an epoch if there is a reason to, or if ``force`` wants one; else look whose the job is.

        And then what has been committed.
        """
        statistics = None if self._savepoints.holds_epochs else self._epoch(force=force)
        execution = self._running()
        execution.commits.check()
        if statistics is not None:
            self._active_at = time.monotonic()
        else:
            self._runtime.check()
            self._checkpoints.check_owner()
            if time.monotonic() - self._active_at >= ACKNOWLEDGE_SECONDS and execution.acknowledge_commits():
                manifest = self._checkpoints.known()
                self._status.publish(events.CommitsAcknowledged(manifest.epoch, manifest.pending_by_sink()))
        return statistics

    def _epoch(self, *, force: bool = False) -> EpochStatistics | None:
        execution = self._running()
        # Only functions that are opened in tasks declare their state, so one epoch shows whether they take what is
        # stored. Else a program that does not would seem to run until there is input.
        if self._drains.is_set():
            planned: EpochPlan | None = execution.planner.last()
        else:
            planned = execution.planner.plan(force=force or self._has_unseen_state)
        self._failures.is_begun = True
        if planned is None:
            return None
        self._log_fields.epoch = planned.context.epoch
        self._status.publish(events.EpochStarted(planned.context.epoch, planned.records))
        statistics = execution.run(planned)
        if statistics is None:
            return None
        self._failures.epoch_completed()
        self._has_unseen_state = False
        self._status.publish(statistics)
        return statistics

    def _pause_after(self, last: EpochStatistics) -> float:
        """Return how long the next epoch has to wait."""
        if self._checkpoints.known().finished:
            return 0.0
        return max(
            self._job.settings.min_interval_seconds - last.seconds,
            # The next one, which is taken to work as long as the last, is to end so long after the last checkpoint.
            self._job.settings.min_pause_seconds - last.planning - last.running,
        )

    def _idle_seconds(self) -> float:
        """Return how long nothing can happen of itself: until the next look at the sources, or the next timer."""
        if self._savepoints.holds_epochs:
            return LOOK_SECONDS
        due, poll = self._running().planner.seconds_to_next_due(), self._job.settings.poll_seconds
        return poll if due is None else min(poll, due)

    def _rest(self, seconds: float) -> None:
        """Wait; meanwhile run the commands that come."""
        until = time.monotonic() + seconds
        while not (self._stop.is_set() or self._drains.is_set()) and (left := until - time.monotonic()) > 0:
            if self._wake.wait(left):
                self._wake.clear()
                self._commands.run_all()
