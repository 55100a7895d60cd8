"""The life of a job: epoch after epoch, commands in between, and a new beginning after every failure that may pass.

The same code drives every runtime. What an epoch is, :class:`headrace.jobmanager.execution.JobExecution` says. After a
failure, whatever it came from, the job begins again as a new process would: another execution goes on from the newest
manifest, under a new generation.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace.checkpoint.failure_history import FailureHistory
from headrace.common.errors import (
    EXITS,
    CheckpointFailedError,
    InfrastructureError,
    JobCancelledError,
    JobExecutionError,
    JobSupersededError,
    UnsupportedOperationError,
)
from headrace.common.logs import LogFields, get_logger, logging_of
from headrace.jobmanager.checkpoints import CheckpointCoordinator
from headrace.jobmanager.commands import CommandQueue
from headrace.jobmanager.compaction import CompactionCoordinator
from headrace.jobmanager.epoch_size import EpochSizer
from headrace.jobmanager.execution import JobExecution, JobServices
from headrace.jobmanager.failure_handler import FailureHandler, FailureRules
from headrace.jobmanager.failure_recorder import FailureRecorder
from headrace.jobmanager.progress import JobEnd, JobStart, LoggingListener
from headrace.jobmanager.recovery import check_compatible, holds_state
from headrace.jobmanager.request_watch import RequestWatch
from headrace.jobmanager.rescaling import SlotWatcher
from headrace.jobmanager.retention import Ending
from headrace.jobmanager.runtime import run_in_tasks
from headrace.jobmanager.savepoints import SavepointCoordinator
from headrace.jobmanager.sinks import JobSinks
from headrace.time.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.checkpoint.manifest import Manifest, PendingCommit
    from headrace.checkpoint.store import CheckpointStore
    from headrace.checkpoint.temporary_store import TemporaryStore
    from headrace.common.completable_future import CompletableFuture
    from headrace.common.job_failure import JobFailure
    from headrace.jobmanager.commands import Command
    from headrace.jobmanager.progress import EpochStatistics, JobListener
    from headrace.jobmanager.rescaling import PlannedJob, Replan
    from headrace.jobmanager.runtime import Runtime
    from headrace.jobmanager.savepoints import SavepointRequest
    from headrace.jobmanager.settings import JobSettings
    from headrace.jobmanager.sources import SourceCoordinator
    from headrace.jobmanager.watermark_progress import WatermarkProgress
    from headrace.runtime.task.messages import JobBlob
    from headrace.time.clock import Clock

T = TypeVar("T")

logger = get_logger(__name__)

ACKNOWLEDGE_SECONDS = 0.25
"""After so long without an epoch, whose manifest would say it, one of its own says what has been committed."""


class JobManager:
    """Runs one job.

    Args:
        job: the job.
        runtime: where epochs are executed.
        store: where manifests are kept.
        listener: is told what happens.
        clock: tells processing time; the system's clock, carried on from the manifest, when left out.
        replan: plans the job at another parallelism; it cannot be rescaled when left out.
    """

    def __init__(
        self,
        job: PlannedJob,
        runtime: Runtime,
        store: CheckpointStore | TemporaryStore,
        listener: JobListener | None = None,
        clock: Clock | None = None,
        replan: Replan | None = None,
    ) -> None:
        self.plan = job.plan
        self._blob = job.blob
        self._runtime = runtime
        self._store = store
        self._settings = job.settings
        self._listener = LoggingListener(self.plan.name, listener)
        self._log_fields = LogFields(self.plan.name)
        self._clock = clock
        self._replan = replan
        self._started: JobBlob | None = None
        self._slots = _slot_watcher(job.settings, runtime)
        self._stop = threading.Event()
        self._drains = threading.Event()
        self._cancelled = threading.Event()
        self._wake = threading.Event()
        self._is_identified = threading.Event()
        self._commands = CommandQueue(self._wake)
        self._sinks = self._new_sinks()
        ignores, start = self._settings.ignore_unclaimed_state, self._settings.start
        self._checkpoints = CheckpointCoordinator(store, self.plan, self._sinks, ignore_unclaimed=ignores, start=start)
        self._services: JobServices
        self._savepoints = SavepointCoordinator()
        self._requests = RequestWatch(store.storage)
        self._execution: JobExecution | None = None
        self._transient: list[PendingCommit] = []
        self._has_unseen_state = False
        self._active_at = 0.0
        self._latest: EpochStatistics | None = None
        self._recorder: FailureRecorder | None = None

    @property
    def latest(self) -> EpochStatistics | None:
        """The last epoch that this run has completed; None before the first one."""
        return self._latest

    def gauges(self) -> dict[str, int]:
        """Where event time is, and how far sources are behind, as of the last epoch; empty before the first one."""
        latest = self._latest
        if latest is None:
            return {}
        now = self._services.now()
        sources = (gauge for source in latest.sources for gauge in source.gauges(now))
        return dict(sources) | ({} if latest.event_time is None else latest.event_time.gauges())

    def failures(self) -> list[JobFailure]:
        """The latest failures of the job, of earlier runs too, the last one at the end; none before it is open."""
        return [] if self._recorder is None else self._recorder.recent()

    @property
    def manifest(self) -> Manifest | None:
        """The newest manifest that is known to exist, or what a fresh directory began with; None before it is open."""
        return self._checkpoints.newest

    # --- for others --------------------------------------------------------------------------------------------------

    def run(self) -> Manifest:
        """Run the job to its end, or until it is stopped; from where an earlier run had come to.

        Raises:
            JobCancelledError: when it was cancelled before its end.
            HeadraceError: why the job failed.
        """
        with logging_of(self._log_fields):
            return self._run()

    def wait_until_identified(self) -> None:
        """Wait until the job's checkpoint directory was looked into, or the job has ended before; from any thread."""
        self._is_identified.wait()

    def stop(self) -> None:
        """Stop at the end of the epoch that runs; from any thread."""
        self._stop.set()
        self._wake.set()

    def drain(self) -> None:
        """End all sources where they are, and so the job, after the epoch that runs; from any thread."""
        self._drains.set()
        self._wake.set()

    def cancel(self) -> None:
        """Give up the epoch that runs and stop; from any thread."""
        self._cancelled.set()
        self.stop()
        self._runtime.cancel()

    def request(self, command: Command[T]) -> CompletableFuture[T]:
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
            The place of the savepoint, once it is complete.
        """

        def begin(job: JobManager, outcome: CompletableFuture[str]) -> None:
            if drains:
                job._savepoints.begin_at_end(wanted, outcome)
                job.drain()
            elif job._savepoints.begin(job._services, job._running(), wanted, outcome) and stops:
                job.stop()

        return self._commands.add_lasting(begin)

    def open(self) -> None:
        """Restore or begin, take the directory over, commit what is pending."""
        restored = self._restored()
        self._is_identified.set()
        self._prepare(self._checkpoints.known())
        self._checkpoints.take_in(self._runtime, restored)
        manifest = self._checkpoints.known()
        self._has_unseen_state = holds_state(manifest)
        restored_epoch = None if restored is None else restored.epoch
        self._log_fields.job_id, self._log_fields.epoch = manifest.job_id, restored_epoch
        self._listener.job_started(JobStart.of(self.plan.name, manifest, restored_epoch))
        try:
            # A directory without a manifest may have been had before, too.
            self._begin_execution(recovers=restored is not None or manifest.generation > 0)
        except Exception as error:
            self._recover_from(error)

    def run_epoch(self, *, force: bool = False) -> EpochStatistics | None:
        """Run one epoch if there is a reason to, or if ``force`` wants one.

        Returns:
            How it went; None when there was nothing to do, or when the job was stopped before a failed epoch was due to
            be run again.
        """
        return self._with_restarts(partial(self._epoch, force=force))

    def wait_for_commits(self) -> None:
        """Wait until all sinks have committed the epochs so far."""
        self._running().commits.drain()

    def complete_commits(self) -> None:
        """Wait until all sinks have committed; at the job's end let them remove what they kept for themselves.

        Then a last manifest says so, and the next start need not commit it again.

        Raises:
            CommitRefusedError: when a commit was refused for good.
        """
        if self._execution is not None:  # else it was stopped before it could begin again, and the manifest knows
            self._with_restarts(self._complete_commits, is_required=True)

    def source(self, uid: str) -> SourceCoordinator:
        """One of the job's sources, as soon as the job is open."""
        return next(source for source in self._running().sources if source.planned.uid == uid)

    def event_time(self) -> WatermarkProgress:
        """Where event time is, as soon as the job is open."""
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

    # --- rescaling ---------------------------------------------------------------------------------------------------

    def rescale(self, parallelism: int) -> None:
        """Go on at another parallelism; between two epochs, so for others :class:`Rescale` is the command.

        Raises:
            UnsupportedOperationError: when the job cannot be planned anew.
            InvalidProgramError: when it cannot be planned so; it goes on as it was.
            StateMigrationError: likewise.
        """
        if self._replan is None:
            raise UnsupportedOperationError(f"job {self.plan.name!r} cannot be planned anew, so it cannot be rescaled")
        planned = self._replan(parallelism)
        manifest = self._checkpoints.known()
        check_compatible(manifest, planned.plan, ignore_unclaimed=self._settings.ignore_unclaimed_state)
        self._plan_for(planned)
        logger.info("job %r goes on from epoch %d at parallelism %d", self.plan.name, manifest.epoch, parallelism)
        try:
            self._restart()
        except Exception as error:
            self._recover_from(error)

    def _plan_for(self, planned: PlannedJob) -> None:
        """Put another plan of the job in the place of its plan; the next execution has it."""
        self.plan, self._blob, self._settings = planned.plan, planned.blob, planned.settings
        self._sinks = self._new_sinks()
        self._checkpoints = self._checkpoints.replanned(self.plan, self._sinks)
        self._services = replace(
            self._services,
            plan=self.plan,
            checkpoints=self._checkpoints,
            sinks=self._sinks,
            sizer=EpochSizer(self._settings.limits),
        )

    def _adapt(self) -> None:
        """In reactive mode, go on at the parallelism that the cluster offers."""
        if self._slots is not None:
            settings = self.plan.settings
            wanted = self._slots.wanted(settings.parallelism, settings.max_parallelism)
            if wanted is not None:
                self.rescale(wanted)

    # --- the loop ----------------------------------------------------------------------------------------------------

    def _run(self) -> Manifest:
        error: BaseException | None = None
        try:
            self.open()
            self._loop()
            if self._cancelled.is_set() and not self._checkpoints.known().finished:
                raise self._cancellation()
            return self._checkpoints.known()
        except BaseException as failure:
            error = self._explained(failure)
            if error is failure:
                raise
            raise error from failure
        finally:
            self._is_identified.set()
            self._commands.close()
            self._savepoints.close()
            self._requests.close()
            self.close()
            self._discard_checkpoints(error)
            manifest = self.manifest
            self._log_fields.epoch = 0 if manifest is None else manifest.epoch
            finished = manifest is not None and manifest.finished
            self._listener.job_ended(JobEnd(self._log_fields.epoch or None, finished, error))

    def _loop(self) -> None:
        while not (self._stop.is_set() or self._checkpoints.known().finished):
            self._commands.run_all(self)
            self._adapt()
            statistics = self._with_restarts(self._step)
            self._serve()
            if self._stop.is_set():
                break
            if statistics is None:
                self._rest(self._idle_seconds())
            else:
                self._rest(self._pause_after(statistics))
        self._commands.run_all(self)
        self.complete_commits()
        if self._execution is not None:
            self._savepoints.finish(self._services, self._execution)

    def _serve(self) -> None:
        """Go on with savepoints, and look what other processes ask for."""
        if self._execution is not None:
            self._savepoints.look(self._services, self._execution)
        self._requests.look(self)

    def _step(self) -> EpochStatistics | None:
        """Run an epoch if there is a reason to; else look whose the job is, and what has been committed."""
        statistics = self._epoch()
        execution = self._running()
        execution.commits.check()
        if statistics is not None:
            self._active_at = time.monotonic()
        else:
            self._runtime.check()
            self._checkpoints.check_owner()
            if time.monotonic() - self._active_at >= ACKNOWLEDGE_SECONDS and execution.acknowledge_commits():
                manifest = self._checkpoints.known()
                self._listener.commits_acknowledged(manifest.epoch, len(manifest.pending))
        return statistics

    def _epoch(self, *, force: bool = False) -> EpochStatistics | None:
        execution = self._running()
        # Only functions that are opened in tasks declare their state, so one epoch shows whether they take what is
        # stored. Else a program that does not would seem to run until there is input.
        planned = execution.plan(force=force or self._has_unseen_state, drains=self._drains.is_set())
        self._failures.is_begun = True
        if planned is None:
            return None
        self._log_fields.epoch = planned.context.epoch
        statistics = execution.run(planned)
        self._failures.epoch_completed()
        self._has_unseen_state = False
        self._latest = statistics
        self._listener.epoch_completed(statistics)
        return statistics

    def _pause_after(self, last: EpochStatistics) -> float:
        """How long the next epoch has to wait."""
        if self._checkpoints.known().finished:
            return 0.0
        return max(
            self._settings.min_interval_seconds - last.seconds,
            # The next one, which is taken to work as long as the last, is to end so long after the last checkpoint.
            self._settings.min_pause_seconds - last.planning - last.running,
        )

    def _idle_seconds(self) -> float:
        """How long nothing can happen of itself: until the next look at the sources, or the next timer."""
        due, poll = self._running().seconds_to_next_due(), self._settings.poll_seconds
        return poll if due is None else min(poll, due)

    def _rest(self, seconds: float) -> None:
        """Wait; meanwhile do what is asked for."""
        until = time.monotonic() + seconds
        while not (self._stop.is_set() or self._drains.is_set()) and (left := until - time.monotonic()) > 0:
            if self._wake.wait(left):
                self._wake.clear()
                self._commands.run_all(self)

    def _complete_commits(self) -> None:
        if self._checkpoints.is_in_doubt:
            self._restart()
        self._running().complete_commits()

    def _prepare(self, manifest: Manifest) -> None:
        """Make what lasts from here to the end of the run, whatever fails meanwhile."""
        clock = self._clock or SystemClock(manifest.processing_time)
        settings = self._settings
        self._recorder = self._new_recorder(manifest, clock)
        self._failures = self._new_failures(clock, seed=manifest.job_id, recorder=self._recorder)
        self._start_runtime()
        self._services = JobServices(
            plan=self.plan,
            runtime=self._runtime,
            store=self._store,
            checkpoints=self._checkpoints,
            sinks=self._sinks,
            sizer=EpochSizer(settings.limits),
            compaction=CompactionCoordinator(self._runtime, self._store.state, self.plan.settings.state_backend),
            clock=clock,
            cancelled=self._cancelled,
            epoch_timeout_seconds=settings.epoch_timeout_seconds,
            backlog_lag=settings.backlog_lag,
            storage_options=self._blob.storage_options,
        )

    def _new_sinks(self) -> JobSinks:
        blob = self._blob
        return JobSinks(self.plan, blob.storage_options, partial(run_in_tasks, self._runtime), blob.storage)

    def _start_runtime(self) -> None:
        """Make the runtime ready for the plan, unless it is."""
        if self._started is not self._blob:
            self._runtime.start(self._blob)
            self._started = self._blob

    def _new_recorder(self, manifest: Manifest, clock: Clock) -> FailureRecorder:
        limit = self._settings.exception_history_size
        history = FailureHistory(self._store.storage, limit)
        return FailureRecorder(history, self._settings.enrichers, manifest, clock.now, limit)

    def _new_failures(self, clock: Clock, seed: str, recorder: FailureRecorder | None = None) -> FailureHandler:
        settings = self._settings
        return FailureHandler(
            settings.restart.begin(clock, random.Random(seed)),
            self._listener,
            self._stop,
            cancelled=self._cancelled,
            rules=FailureRules(
                settings.restarts_functions, settings.most_deaths, settings.tolerable_checkpoint_failures
            ),
            recorder=recorder,
        )

    def _running(self) -> JobExecution:
        assert self._execution is not None, "open() comes first"
        return self._execution

    # --- failures ----------------------------------------------------------------------------------------------------

    def _restored(self) -> Manifest | None:
        """The manifest that the job goes on from, if any.

        Sinks are asked whether it is the newest. Where a service that they ask is away, a job that has run before waits
        as it would later. One that has not fails at once: whoever starts it may have named a wrong server.
        """
        failures: FailureHandler | None = None
        while True:
            try:
                return self._checkpoints.restore()
            except InfrastructureError as error:
                epoch = self._checkpoints.epoch_before
                if failures is None:
                    failures = self._new_failures(self._clock or SystemClock(0), seed=self.plan.name)
                if not epoch or not failures.await_restart(error, epoch + 1):
                    raise

    def _with_restarts(self, work: Callable[[], T], *, is_required: bool = False) -> T | None:
        """Do something, again after failures that may pass.

        Returns:
            None when the job was stopped after a failure; then the failure is raised of what is required all the same.
        """
        while True:
            try:
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
            of_checkpoint = isinstance(failure, CheckpointFailedError) or self._is_checkpointing()
            epoch = self._checkpoints.known().epoch + 1
            if not self._failures.await_restart(failure, epoch, is_of_checkpoint=of_checkpoint):
                return False
            try:
                self._restart()
            except Exception as another:
                failure = another
            else:
                return True

    def _is_checkpointing(self) -> bool:
        return self._execution is not None and self._execution.is_checkpointing

    def _restart(self) -> None:
        """Abandon the execution, which may be ahead of the manifests, and begin another from the newest one."""
        if self._execution is not None:
            self._transient = self._execution.abandon()
            self._execution = None
        self._transient += self._checkpoints.restart()
        self._begin_execution(recovers=True)
        self._listener.job_restarted(self._checkpoints.known().epoch)

    def _begin_execution(self, *, recovers: bool) -> None:
        self._start_runtime()
        self._execution = JobExecution.restore(self._services, self._transient)
        self._transient = []
        self._execution.start(recovers=recovers)

    def _explained(self, failure: BaseException) -> BaseException:
        """Why the job really ended.

        Who has been superseded may come to grief before its next manifest: its state files are being deleted. And what
        fails while a job is being cancelled fails for that reason.
        """
        try:
            self._checkpoints.check_owner()
        except JobSupersededError as superseded:
            return failure if isinstance(failure, JobSupersededError) else superseded
        except OSError:
            logger.info("whether job %r has been taken over cannot be told", self.plan.name, exc_info=True)
        if self._cancelled.is_set():
            return self._cancellation()
        if isinstance(failure, EXITS):
            return JobExecutionError(
                f"job {self.plan.name!r}: the driver's half of a source or a sink raised {type(failure).__name__}: "
                f"{failure}; it has to raise an exception instead"
            )
        return failure

    def _discard_checkpoints(self, error: BaseException | None) -> None:
        """Delete the checkpoints, when the configuration wants that after such an end."""
        ending = self._ending(error)
        if ending is not None and self._settings.retention.deletes(ending):
            try:
                self._checkpoints.discard()
            except Exception:
                logger.warning("job %r: deleting its checkpoints failed", self.plan.name, exc_info=True)

    def _ending(self, error: BaseException | None) -> Ending | None:
        """How the run ended; None when the checkpoints are somebody else's, or it failed before it had an epoch."""
        if error is None:
            return Ending.FINISHED if self._checkpoints.known().finished else Ending.STOPPED
        if isinstance(error, JobCancelledError):
            return Ending.CANCELLED
        return None if isinstance(error, JobSupersededError) or self._latest is None else Ending.FAILED

    def _cancellation(self) -> JobCancelledError:
        epoch = 0 if self.manifest is None else self.manifest.epoch
        return JobCancelledError(f"job {self.plan.name!r} was cancelled after epoch {epoch}")


def _slot_watcher(settings: JobSettings, runtime: Runtime) -> SlotWatcher | None:
    """What reactive mode looks at; None for a job whose parallelism is fixed."""
    follows = settings.reactive
    if follows is None:
        return None
    return SlotWatcher(runtime.slots, SystemClock(0), follows.stable_millis, follows.cooldown_millis)
