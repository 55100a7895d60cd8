"""``ExecutionSupervisor``: keeps an execution of a job going.

After a failure, whatever it came from, the job begins again as a new process would: another execution goes on from the
newest manifest, under a new generation. So it does when it gets another plan.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace.checkpoint.failure_history import FailureHistory
from headrace.common.errors import CheckpointFailedError, InfrastructureError
from headrace.jobmanager.checkpoints import CheckpointCoordinator, CompactionCoordinator
from headrace.jobmanager.epoch_size import EpochSizer
from headrace.jobmanager.execution import JobExecution, JobServices
from headrace.jobmanager.failover import FailureHandler, FailureRecorder, FailureRules
from headrace.jobmanager.metrics import FunctionMetrics
from headrace.jobmanager.recovery import check_compatible
from headrace.jobmanager.runtime import run_in_tasks
from headrace.jobmanager.sinks import JobSinks
from headrace.jobmanager.status import JobRestart
from headrace.time.clock import SystemClock

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from headrace.checkpoint.manifest import Manifest, PendingCommit
    from headrace.checkpoint.store import CheckpointStore, TemporaryStore
    from headrace.jobmanager.runtime import Runtime
    from headrace.jobmanager.settings import PlannedJob
    from headrace.jobmanager.status import JobStatusStore
    from headrace.runtime.task.messages import SerializedJob
    from headrace.time.clock import Clock

T = TypeVar("T")


class ExecutionSupervisor:
    """Begins executions of a job, one after the other.

    Args:
        job: the job.
        runtime: where epochs are executed.
        store: where manifests are kept.
        status: where it tells of failures and restarts.
        clock: tells processing time; the system's clock, carried on from the manifest, when left out.
        stop: set when the job is to stop.
        cancelled: set when it is given up.

    Attributes:
        plan: the plan of the job.
        settings: how it is run.
        checkpoints: the chain of its manifests; the same for the whole run.
        services: what all executions share, from :meth:`prepare` on.
        failures: decides what becomes of a failure, likewise.
        meanwhile: is called every second while the job waits for its restart.
        execution: the present one; None before the first one, and where none could begin after a failure.
    """

    services: JobServices
    failures: FailureHandler

    def __init__(
        self,
        job: PlannedJob,
        runtime: Runtime,
        store: CheckpointStore | TemporaryStore,
        status: JobStatusStore,
        clock: Clock | None,
        *,
        stop: threading.Event,
        cancelled: threading.Event,
    ) -> None:
        self.plan = job.plan
        self.settings = job.settings
        self._blob = job.blob
        self._runtime = runtime
        self._store = store
        self._status = status
        self._clock = clock
        self._stop = stop
        self._cancelled = cancelled
        self.meanwhile: Callable[[], None] = lambda: None
        self._started: SerializedJob | None = None
        self._sinks = self._new_sinks()
        ignores, start = self.settings.ignore_unclaimed_state, self.settings.start
        self.checkpoints = CheckpointCoordinator(
            store, self.plan, self._blob, self._sinks, ignore_unclaimed=ignores, start=start, uids=self.settings.uids
        )
        self.execution: JobExecution | None = None
        self._transient: list[PendingCommit] = []
        self._measured = FunctionMetrics()

    def restored(self) -> Manifest | None:
        """The manifest that the job goes on from, if any.

        Sinks are asked whether it is the newest. Where a service that they ask is away, a job that has run before waits
        as it would later. One that has not fails at once: whoever starts it may have named a wrong server.
        """
        failures: FailureHandler | None = None
        while True:
            try:
                return self.checkpoints.restore()
            except InfrastructureError as error:
                epoch = self.checkpoints.epoch_before
                if failures is None:
                    failures = self._new_failures(self._clock or SystemClock(0), seed=self.plan.name)
                if not epoch or not failures.await_restart(error, epoch + 1):
                    raise

    def prepare(self, manifest: Manifest) -> None:
        """Make what lasts from here to the end of the run, whatever fails meanwhile."""
        clock = self._clock or SystemClock(manifest.processing_time)
        settings = self.settings
        self.failures = self._new_failures(clock, manifest.job_id, self._new_recorder(manifest, clock))
        self._start_runtime()
        self.services = JobServices(
            plan=self.plan,
            runtime=self._runtime,
            store=self._store,
            checkpoints=self.checkpoints,
            sinks=self._sinks,
            sizer=EpochSizer(settings.limits),
            compaction=CompactionCoordinator(self._runtime, self._store.state, self.plan.settings.state_backend),
            clock=clock,
            cancelled=self._cancelled,
            epoch_timeout_seconds=settings.epoch_timeout_seconds,
            backlog_lag=settings.backlog_lag,
            storage_options=self._blob.storage_options,
        )

    def begin(self, *, recovers: bool) -> None:
        """Begin the first execution; ``recovers`` as of :meth:`JobExecution.start`.

        Raises:
            Exception: what ends the job.
        """
        try:
            self._begin_execution(recovers=recovers)
        except Exception as error:
            self._recover_from(error)

    def _begin_execution(self, *, recovers: bool) -> None:
        self._start_runtime()
        self.execution = JobExecution.restore(self.services, self._transient, self._measured)
        self._transient = []
        self.execution.start(recovers=recovers)

    def running(self) -> JobExecution:
        """The execution, which there is as soon as the job is open, unless it was stopped after a failure."""
        assert self.execution is not None, "open() comes first"
        return self.execution

    def guard(self, work: Callable[[], T], *, is_required: bool = False) -> T | None:
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
                self.checkpoints.check_owner()
            of_checkpoint = isinstance(failure, CheckpointFailedError) or self._is_checkpointing()
            epoch = self.checkpoints.known().epoch + 1
            if not self.failures.await_restart(failure, epoch, is_of_checkpoint=of_checkpoint):
                return False
            try:
                self.restart()
            except Exception as another:
                failure = another
            else:
                return True

    def restart(self) -> None:
        """Abandon the execution, which may be ahead of the manifests, and begin another from the newest one."""
        if self.execution is not None:
            self._transient, self._measured = self.execution.abandon(), self.execution.measured
            self.execution = None
        self._transient += self.checkpoints.restart()
        self._begin_execution(recovers=True)
        self._status.publish(JobRestart(self.checkpoints.known().epoch, self.plan))

    def complete_commits(self) -> None:
        """Have all sinks commit, from a manifest that is known to exist."""
        if self.checkpoints.is_in_doubt:
            self.restart()
        self.running().complete_commits()

    def replan(self, planned: PlannedJob) -> None:
        """Go on with another plan of the job, from the newest manifest.

        Raises:
            StateMigrationError: when the plan cannot go on from there; the job goes on as it was.
        """
        check_compatible(self.checkpoints.known(), planned.plan, ignore_unclaimed=self.settings.ignore_unclaimed_state)
        self.plan, self._blob, self.settings = planned.plan, planned.blob, planned.settings
        self._sinks = self._new_sinks()
        self.checkpoints.replan(self.plan, self._blob, self._sinks)
        self.services = replace(
            self.services,
            plan=self.plan,
            sinks=self._sinks,
            sizer=EpochSizer(self.settings.limits),
        )
        try:
            self.restart()
        except Exception as error:
            self._recover_from(error)

    def _start_runtime(self) -> None:
        """Make the runtime ready for the plan, unless it is."""
        if self._started is not self._blob:
            self._runtime.start(self._blob)
            self._started = self._blob

    def _is_checkpointing(self) -> bool:
        return self.execution is not None and self.execution.is_checkpointing

    def _new_sinks(self) -> JobSinks:
        blob = self._blob
        return JobSinks(self.plan, blob.storage_options, partial(run_in_tasks, self._runtime), blob.storage)

    def _new_recorder(self, manifest: Manifest, clock: Clock) -> FailureRecorder:
        limit = self.settings.exception_history_size
        history = FailureHistory(self._store.storage, limit) if self._store.outlasts_job else None
        return FailureRecorder(history, self.settings.enrichers, manifest, clock.now, limit, self._status.publish)

    def _new_failures(self, clock: Clock, seed: str, recorder: FailureRecorder | None = None) -> FailureHandler:
        settings = self.settings
        return FailureHandler(
            settings.restart.begin(clock, random.Random(seed)),
            self._status.publish,
            self._stop,
            cancelled=self._cancelled,
            rules=FailureRules(
                settings.restarts_functions, settings.most_deaths, settings.tolerable_checkpoint_failures
            ),
            recorder=recorder,
            meanwhile=self.meanwhile,
        )
