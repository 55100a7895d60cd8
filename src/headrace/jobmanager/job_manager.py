"""The epoch loop: plan an epoch, run it, write its manifest, let the sinks commit; again.

The same code drives every runtime. Nothing of an epoch is kept before it has succeeded: an epoch without a manifest
never happened. After a failure that may pass, whatever it came from, the job begins again as a new process would: from
the newest manifest, under a new generation. So what it has in memory may be ahead of the manifests for a while.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace.common.errors import (
    EXITS,
    InfrastructureError,
    JobCancelledError,
    JobExecutionError,
    JobSupersededError,
)
from headrace.jobmanager.attempts import Attempts
from headrace.jobmanager.checkpoints import CheckpointCoordinator
from headrace.jobmanager.commands import CommandQueue
from headrace.jobmanager.compaction import CompactionCoordinator
from headrace.jobmanager.epoch_run import EpochRun
from headrace.jobmanager.epoch_size import EpochSizer
from headrace.jobmanager.outcome import (
    committables_by_sink,
    next_manifest,
    raise_reported,
    records_read,
)
from headrace.jobmanager.parts import ConnectorServices, PartsMaker
from headrace.jobmanager.progress import EpochStatistics, JobStart, LoggingListener
from headrace.time.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.checkpoint.manifest import Manifest, PendingCommit
    from headrace.checkpoint.store import CheckpointStore
    from headrace.checkpoint.temporary_store import TemporaryStore
    from headrace.common.completable_future import CompletableFuture
    from headrace.jobmanager.commands import Command
    from headrace.jobmanager.epoch import EpochPlan
    from headrace.jobmanager.parts import JobParts
    from headrace.jobmanager.progress import JobListener
    from headrace.jobmanager.runtime import Runtime
    from headrace.jobmanager.settings import JobSettings
    from headrace.jobmanager.sources import SourceCoordinator
    from headrace.plan.job_plan import JobPlan
    from headrace.runtime.task.messages import JobBlob, TaskReport
    from headrace.time.clock import Clock

T = TypeVar("T")
R = TypeVar("R")

logger = logging.getLogger(__name__)

ACKNOWLEDGE_SECONDS = 0.25
"""After so long without an epoch, whose manifest would say it, one of its own says what has been committed."""


class JobManager:
    """Runs one job.

    Args:
        plan: the job.
        blob: the same, as it travels to the tasks.
        runtime: where epochs are executed.
        store: where manifests are kept.
        settings: how.
        listener: is told what happens.
        clock: tells processing time; the system's clock, carried on from the manifest, when left out.
    """

    def __init__(
        self,
        plan: JobPlan,
        blob: JobBlob,
        runtime: Runtime,
        store: CheckpointStore | TemporaryStore,
        settings: JobSettings,
        listener: JobListener | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.plan = plan
        self._blob = blob
        self._runtime = runtime
        self._store = store
        self._settings = settings
        self._listener = listener or LoggingListener()
        self._clock = clock
        self._stop = threading.Event()
        self._cancelled = threading.Event()
        self._wake = threading.Event()
        self._commands = CommandQueue(self._wake)
        self._checkpoints = CheckpointCoordinator(
            store, plan, blob.storage_options, ignore_unclaimed=settings.ignore_unclaimed_state
        )
        self._parts: JobParts | None = None
        self._only_here: list[PendingCommit] = []
        self._active_at = 0.0

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
            self._commands.close()
            self.close()
            self._listener.job_ended(0 if self.manifest is None else self.manifest.epoch, error)

    def stop(self) -> None:
        """Stop at the end of the epoch that runs; from any thread."""
        self._stop.set()
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

    def open(self) -> None:
        """Restore or begin, take the directory over, commit what is pending."""
        restored = self._checkpoints.restore()
        manifest = self._checkpoints.known()
        self._clock = self._clock or SystemClock(manifest.processing_time)
        restarts = self._settings.restart.begin(self._clock, random.Random(manifest.job_id))
        self._attempts = Attempts(
            restarts, self._listener, self._stop, restarts_functions=self._settings.restarts_functions
        )
        self._sizer = EpochSizer(self._settings.limits)
        self._runtime.start(self._blob)
        self._compaction = CompactionCoordinator(self._runtime, self._store.state, self.plan.state_backend)
        check_owner = self._checkpoints.check_owner
        self._maker = PartsMaker(
            self.plan,
            self._store,
            self._sizer,
            self._compaction,
            check_owner,
            self._cancelled,
            ConnectorServices(self._run_in_tasks, self._blob.storage_options),
        )
        restored_epoch = None if restored is None else restored.epoch
        self._listener.job_started(
            JobStart(self.plan.name, manifest.job_id, restored_epoch, manifest.generation, manifest.finished)
        )
        try:
            self._begin(recovers=restored is not None)
        except Exception as error:
            self._comes_back_from(error)

    def run_epoch(self, *, force: bool = False) -> EpochStatistics | None:
        """Run one epoch if there is a reason to, or if ``force`` wants one.

        Returns:
            How it went; None when there was nothing to do, or when the job was stopped before a failed epoch was due to
            be run again.
        """
        return self._persistently(partial(self._epoch, force=force))

    def wait_for_commits(self) -> None:
        """Wait until all sinks have committed the epochs so far."""
        self._open_parts().commits.drain()

    def complete_commits(self) -> None:
        """Wait until all sinks have committed; at the job's end let them remove what they kept for themselves.

        Then a last manifest says so, and the next start need not commit it again.

        Raises:
            CommitRefusedError: when a commit was refused for good.
        """
        if self._parts is not None:  # else it was stopped before it could begin again, and the manifest knows
            self._persistently(self._complete_commits, has_to_be=True)

    def source(self, uid: str) -> SourceCoordinator:
        """One of the job's sources, as soon as the job is open."""
        return next(source for source in self._open_parts().sources if source.planned.uid == uid)

    def close(self) -> None:
        """Let go of everything; what is not committed stays in the manifest."""
        if self._cancelled.is_set():
            self._runtime.cancel()  # what runs beside the epochs
        parts = () if self._parts is None else (self._parts.close,)
        for close in (*parts, self._runtime.close, self._store.close):
            try:
                close()
            except Exception:
                logger.warning("job %r: letting go of it failed", self.plan.name, exc_info=True)

    # --- the loop ----------------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        while not (self._stop.is_set() or self._checkpoints.known().finished):
            self._commands.run_all(self)
            statistics = self._persistently(self._step)
            if self._stop.is_set():
                break
            if statistics is None:
                self._rest(self._idle_seconds())
            else:
                self._rest(self._settings.min_interval_seconds - statistics.seconds)
        self._commands.run_all(self)
        self.complete_commits()

    def _rest(self, seconds: float) -> None:
        """Wait; meanwhile do what is asked for."""
        until = time.monotonic() + seconds
        while not self._stop.is_set() and (left := until - time.monotonic()) > 0:
            if self._wake.wait(left):
                self._wake.clear()
                self._commands.run_all(self)

    def _step(self) -> EpochStatistics | None:
        """Look once whether there is anything to do."""
        statistics = self._epoch()
        commits = self._open_parts().commits
        commits.check()
        if statistics is not None:
            self._active_at = time.monotonic()
        else:
            self._checkpoints.check_owner()
            if time.monotonic() - self._active_at >= ACKNOWLEDGE_SECONDS:
                self._acknowledge()
        return statistics

    def _epoch(self, *, force: bool = False) -> EpochStatistics | None:
        started = time.monotonic()
        planned = self._open_parts().planner.plan(self._checkpoints.known(), self._now(), force=force)
        self._attempts.is_begun = True
        if planned is None:
            return None
        fixed = time.monotonic()
        reports = EpochRun(self._runtime, self._settings.epoch_timeout_seconds, self._cancelled).run(planned)
        raise_reported(reports)
        ran = time.monotonic()
        self._finish_epoch(planned, reports)
        done = time.monotonic()
        self._sizer.observe(records_read(self.plan, reports), done - started)
        statistics = self._statistics(reports, (fixed - started, ran - fixed, done - ran))
        self._listener.epoch_completed(statistics)
        return statistics

    def _finish_epoch(self, planned: EpochPlan, reports: list[TaskReport]) -> None:
        """The first phase is over: the manifest is the one commit point; then the second phase begins."""
        context, parts = planned.context, self._open_parts()
        for source in parts.sources:
            source.completed(
                planned.splits[source.planned.node.id],
                [channel for report in reports for channel in report.channels],
                context.processing_time,
            )
        written = committables_by_sink(self.plan, reports)
        output = parts.pre_commits.prepare(
            self._checkpoints.known(), context.epoch, context.processing_time, written, is_last=context.is_last
        )
        manifest = next_manifest(
            self._checkpoints.known(),
            self.plan,
            context,
            reports,
            sources={source.planned.uid: source.snapshot() for source in parts.sources},
            sinks=replace(output, commits=parts.commits.pending(output.commits)),
            read=records_read(self.plan, reports),
        )
        self._write(manifest, output.commits)
        parts.planner.epoch_completed(context.epoch)
        for source in parts.sources:
            source.checkpoint_completed()
        self._compaction.epoch_completed(manifest)
        self._store.collect_garbage()

    def _write(self, manifest: Manifest, commits: Sequence[PendingCommit]) -> None:
        """Write a manifest and have done what it makes due, unless nobody waits for the job any more."""
        if self._cancelled.is_set():
            raise self._cancellation()
        self._checkpoints.write(manifest, commits)
        self._open_parts().commits.submit(commits)

    def _complete_commits(self) -> None:
        if self._checkpoints.is_in_doubt:
            self._restart()
        commits = self._open_parts().commits
        commits.finish() if self._checkpoints.known().finished else commits.drain()
        if not self._cancelled.is_set():
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Let a manifest say what has been committed: from then on readers may take it away."""
        known, left = self._checkpoints.known(), self._open_parts().commits.pending()
        if left != known.pending:
            self._write(replace(known, epoch=known.epoch + 1, pending=left), ())
            self._store.collect_garbage()

    def _idle_seconds(self) -> float:
        """How long nothing can happen of itself: until the next look at the sources, or the next timer."""
        due = self._open_parts().planner.next_due(self._checkpoints.known())
        poll = self._settings.poll_seconds
        return poll if due is None else min(poll, max(0.0, (due - self._now()) / 1000))

    # --- failures ----------------------------------------------------------------------------------------------------

    def _persistently(self, work: Callable[[], T], *, has_to_be: bool = False) -> T | None:
        """Do something, again after failures that may pass.

        Returns:
            None when the job was stopped after a failure; then the failure is raised of what has to be done all the
            same.
        """
        while True:
            try:
                return work()
            except Exception as error:
                if not self._comes_back_from(error):
                    if has_to_be:
                        raise
                    return None

    def _comes_back_from(self, failure: Exception) -> bool:
        """Begin again after a failure, and after those that hinder that; False when the job was stopped before.

        Raises:
            Exception: what ends the job.
        """
        while True:
            with contextlib.suppress(OSError):  # nobody can tell while the directory cannot be read
                self._checkpoints.check_owner()
            if not self._attempts.wait_after(failure, self._checkpoints.known().epoch + 1):
                return False
            try:
                self._restart()
            except Exception as another:
                failure = another
            else:
                return True

    def _restart(self) -> None:
        """Let go of all that may be ahead of the manifests, and begin again from the newest one."""
        if self._parts is not None:
            self._parts.commits.settle()
            self._parts.close_sources()
            self._only_here = self._parts.commits.only_here()
            self._parts = None
        self._only_here += self._checkpoints.restart()
        self._begin(recovers=True)

    def _begin(self, *, recovers: bool) -> None:
        """Go on from the manifest; whoever recovers removes what failed epochs have left."""
        manifest = self._checkpoints.known()
        parts = self._parts = self._maker.make(manifest, self._now(), self._only_here)
        self._only_here = []
        self._checkpoints.check_owner()  # who has taken over since would not know of the committers
        parts.commits.start()
        if recovers:
            parts.commits.recover(manifest.in_progress)
            self._store.remove_leftovers(manifest.generation)
            self._compaction.restarted()

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

    def _cancellation(self) -> JobCancelledError:
        epoch = 0 if self.manifest is None else self.manifest.epoch
        return JobCancelledError(f"job {self.plan.name!r} was cancelled after epoch {epoch}")

    # --- what there is -----------------------------------------------------------------------------------------------

    def _open_parts(self) -> JobParts:
        assert self._parts is not None, "open() comes first"
        return self._parts

    def _now(self) -> int:
        assert self._clock is not None
        return max(self._clock.now(), self._checkpoints.known().processing_time)

    def _run_in_tasks(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        try:
            return self._runtime.run_background(work, items).result()
        except InfrastructureError as error:
            raise OSError(str(error)) from error  # so that a commit is tried again where it is

    def _statistics(self, reports: list[TaskReport], seconds: tuple[float, float, float]) -> EpochStatistics:
        manifest = self._checkpoints.known()
        return EpochStatistics(
            epoch=manifest.epoch,
            records=records_read(self.plan, reports),
            planning=seconds[0],
            running=seconds[1],
            checkpointing=seconds[2],
            watermark=min((source.watermark() for source in self._open_parts().sources), default=0),
            processing_time=manifest.processing_time,
            state_bytes=sum(report.state.size for report in reports),
            counters=manifest.counters,
            pending_commits=self._open_parts().commits.waiting_epochs,
        )
