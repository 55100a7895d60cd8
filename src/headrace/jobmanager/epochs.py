"""An epoch from its run to its checkpoint, and the executions of a job, which run one after the other."""

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Final

from headrace.checkpoint.manifest import Manifest, PendingCommit
from headrace.common import options
from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import CheckpointFailedError, InfrastructureError, JobCancelledError
from headrace.common.logs import get_logger, with_fields
from headrace.jobmanager.epoch_plan import EpochPlan, EpochPlanner, JobServices
from headrace.jobmanager.epoch_reports import EpochReports, check_broadcast_state, raise_reported
from headrace.jobmanager.events import EpochHeld, EpochStatistics
from headrace.jobmanager.metrics import FunctionMetrics, SourceProgress, SplitProgress, WatermarkProgress
from headrace.jobmanager.sinks import MAX_PENDING_EPOCHS, CommitCoordinator
from headrace.jobmanager.sources import SourceCoordinator, restore_sources
from headrace.jobmanager.workload import EpochTimes, OperatorTimes, TimeKeeper, running_parts
from headrace.runtime.task.messages import TaskReport

logger = get_logger(__name__)

_LOOK_SECONDS: Final = 0.05
"""The interval at which a run of an epoch looks whether it is to be given up."""


def run_epoch(job: JobServices, planned: EpochPlan) -> list[TaskReport]:
    """Run an epoch on the job's runtime; it is given up when the job is cancelled, or when it takes too long.

    A call to give up has no effect where the query has not really begun, so the runtime is called again
    and again until it returns.

    Returns:
        The reports of the epoch's tasks.

    Raises:
        JobCancelledError: when the job was cancelled before, or meanwhile.
        CheckpointFailedError: when it took too long.
        InfrastructureError: when it failed.
        OSError: when it failed.
    """
    epoch, over, late = planned.context.epoch, threading.Event(), threading.Event()
    if job.cancelled.is_set():
        raise JobCancelledError(f"epoch {epoch} was not begun")
    watch = with_fields(partial(_give_up_in_time, job, over, late))
    watchdog = threading.Thread(target=watch, name=f"headrace-watchdog-{epoch}", daemon=True)
    watchdog.start()
    try:
        reports = job.runtime.run_epoch(planned.context)
    except InfrastructureError as error:
        if late.is_set():
            raise _too_late(planned, job.planned.settings.epoch_timeout_seconds) from error
        raise
    finally:
        over.set()
        watchdog.join()  # what it still has to say must not hit the next epoch
    if job.cancelled.is_set():
        raise JobCancelledError(f"epoch {epoch} was given up")
    return reports


def _give_up_in_time(job: JobServices, over: threading.Event, late: threading.Event) -> None:
    end = time.monotonic() + job.planned.settings.epoch_timeout_seconds
    while not over.wait(min(_LOOK_SECONDS, max(0.0, end - time.monotonic()) or _LOOK_SECONDS)):
        if time.monotonic() >= end:
            late.set()
        if late.is_set() or job.cancelled.is_set():
            try:
                job.runtime.cancel()
            except Exception:
                logger.warning("interrupting an epoch failed, it is tried again", exc_info=True)


def _too_late(planned: EpochPlan, seconds: float) -> CheckpointFailedError:
    return CheckpointFailedError(
        f"epoch {planned.context.epoch} ({planned.records} records) has not ended within "
        f"{options.CHECKPOINT_TIMEOUT.key} ({seconds:g} s): raise it, or make epochs smaller, "
        f"with {options.EPOCH_FIRST_RECORDS.key} and {options.EPOCH_MAX_RECORDS.key}"
    )


class JobExecution:
    """Runs the epochs of a job, one after the other, from the newest manifest on.

    Its memory follows from a manifest, and may be ahead of the manifests after a failure: then it is
    abandoned, and another execution takes its place.

    Args:
        job: what all executions share.
        transient: what the execution before had yet to commit and no manifest holds.
        measured: what functions have measured before in this run of the job.
        times: where the time of its operators has gone before in this run.

    Attributes:
        job: as above.
        sources: the sources, with their positions.
        commits: the second phase.
        planner: says which epoch is next.
        measured: what functions have measured in this run of the job.
        times: where the time of its operators has gone in this run.
        is_checkpointing: whether the tasks of an epoch have done their part, and its manifest is not written yet.
    """

    def __init__(
        self,
        job: JobServices,
        transient: Sequence[PendingCommit],
        measured: FunctionMetrics,
        times: OperatorTimes,
    ) -> None:
        self.job = job
        self.measured = measured
        self.times = times
        self.is_checkpointing = False
        manifest, durable = job.checkpoints.known(), job.sinks.durable
        storage_options = job.planned.blob.storage_options
        with ExitStack() as failed:
            self.sources: list[SourceCoordinator] = []
            for source in restore_sources(job.planned.plan, manifest, job.store, storage_options, job.now()):
                self.sources.append(source)
                failed.callback(source.enumerator.close)
            committers = {}
            for uid, committer in job.sinks.committers(manifest):
                committers[uid] = committer
                failed.callback(committer.close)
            self.commits = CommitCoordinator(
                committers,
                durable,
                job.sinks.names,
                restored=[*manifest.pending, *(commit for commit in transient if commit.sink not in durable)],
                check_owner=job.checkpoints.check_owner,
                cancelled=job.cancelled,
            )
            failed.pop_all()
        self.planner = EpochPlanner(job, self.sources)
        self._keeper = TimeKeeper(job.planned.plan)
        self._with_broadcast_state = [each for each in job.planned.plan.operators() if each.shares_broadcast_state]
        self._source_uids = frozenset(source.planned.uid for source in self.sources)
        self._before = time.time_ns()

    def start(self, *, recovers: bool) -> None:
        """Commit what is pending.

        Args:
            recovers: whether epochs may have failed before, so that what they have left has to be removed.
        """
        job, manifest = self.job, self.job.checkpoints.known()
        job.checkpoints.check_owner()  # who has taken over since would not know of the committers
        self.commits.start()
        if recovers:
            self.commits.recover(manifest.in_progress)
            job.store.remove_leftovers(manifest.generation)
            job.compaction.restarted()

    # --- an epoch ----------------------------------------------------------------------------------------------------

    def run(self, planned: EpochPlan) -> EpochStatistics | None:
        """Run an epoch, write its manifest, and have its sinks commit; wait for sinks that are behind.

        Nothing of an epoch is kept before it has succeeded: one without a manifest never happened.

        Returns:
            None when the epoch was held back, and the job is to stop before it.
        """
        job, began, started = self.job, time.time_ns(), time.monotonic()
        reported = run_epoch(job, planned)
        raise_reported(reported)
        for operator in self._with_broadcast_state:
            check_broadcast_state(operator, reported)
        reports, ran = EpochReports(reported), time.monotonic()
        if reports.held and not job.gate.lets_pass(EpochHeld(planned.context.epoch, reports.held)):
            return None
        released = time.monotonic()
        read = sum(map(reports.records_read, self._source_uids))
        manifest = self._checkpoint(planned, reports)
        done = time.monotonic()
        self.measured = self.measured.after(reports.tasks, job.now())
        self.commits.drain(MAX_PENDING_EPOCHS)  # sinks that are slower than the job hold it back
        waited = time.monotonic()
        job.sizer.observe(read, planned.seconds + ran - started + waited - released)
        ended = time.time_ns()
        self.times = self._keeper.after(self.times, reports.tasks, EpochTimes(self._before, ended, planned.is_full))
        self._before = ended
        event_time = self.event_time(manifest)
        return EpochStatistics(
            epoch=manifest.epoch,
            records=read,
            planning=planned.seconds,
            running=ran - started,
            checkpointing=done - released,
            waiting=waited - done,
            watermark=self._watermark(),
            processing_time=manifest.processing_time,
            state_bytes=manifest.state_bytes or 0,
            counters=manifest.counters,
            operator_counters=manifest.operator_counters,
            measured=self.measured,
            times=self.times,
            pending=manifest.pending_by_sink(),
            event_time=event_time,
            sources=self._reading(planned, reports, event_time),
            parts=running_parts(self._source_uids, reports.tasks, began, ran - started),
            state_sizes=reports.state_sizes,
        )

    def _reading(
        self, planned: EpochPlan, reports: EpochReports, event_time: WatermarkProgress
    ) -> tuple[SourceProgress, ...]:
        """The progress of the sources."""
        now, lag = self.job.now(), self.job.planned.settings.backlog_lag
        fetched_at = planned.context.processing_time
        return tuple(
            source.reading(planned.splits[source.planned.uid], reports, event_time.splits, fetched_at, now, lag)
            for source in self.sources
        )

    def _watermark(self) -> int:
        """The lowest event time of the sources that count; the highest where all are idle."""
        counting = [source.watermark() for source in self.sources if not source.is_idle()]
        if counting or not self.sources:
            return min(counting, default=0)
        waiting = [source.watermark() for source in self.sources if any(source.unfinished())]
        return max(waiting, default=MAX_WATERMARK)

    def event_time(self, manifest: Manifest) -> WatermarkProgress:
        """Event time as of the newest manifest."""
        now = self.job.now()
        splits: list[SplitProgress] = []
        ended: set[str] = set()
        waiting: set[str] = set()
        for source in self.sources:
            (ended if source.enumerator.is_complete() else waiting).update(source.timestamps)
            for split in source.progress(now):
                splits.append(split)
                waiting.update(split.watermarks)
        return WatermarkProgress(self.job.planned.plan, manifest, tuple(splits), frozenset(ended - waiting))

    def _checkpoint(self, planned: EpochPlan, reports: EpochReports) -> Manifest:
        """The first phase is over: the manifest is the one commit point; then the second phase begins."""
        job, context, before = self.job, planned.context, self.job.checkpoints.known()
        self.is_checkpointing = True
        for source in self.sources:
            source.completed(planned.splits[source.planned.uid], reports.channels, context.processing_time)
        commits, in_progress = job.sinks.pre_commit(
            before, context.epoch, context.processing_time, reports.committables, is_last=context.is_last
        )
        manifest = job.checkpoints.next_manifest(
            context,
            reports,
            sources={source.planned.uid: source.snapshot() for source in self.sources},
            pending=self.commits.pending(commits),
            in_progress=in_progress,
        )
        self._write(manifest, commits)
        self.is_checkpointing = False
        self.planner.previous = context.epoch
        for source in self.sources:
            source.checkpoint_completed()
        job.compaction.epoch_completed(manifest)
        job.store.collect_garbage()
        return manifest

    def _write(self, manifest: Manifest, commits: Sequence[PendingCommit]) -> None:
        """Write a manifest and commit what it makes due, unless the job was cancelled.

        Raises:
            JobCancelledError: when it was.
        """
        if self.job.cancelled.is_set():
            raise JobCancelledError(f"manifest {manifest.epoch} was not written")
        self.job.checkpoints.write(manifest, commits)
        self.commits.submit(commits)

    # --- between epochs ----------------------------------------------------------------------------------------------

    def acknowledge_commits(self) -> bool:
        """Let a manifest say what has been committed: from then on readers may take it away.

        Returns:
            False when there is nothing new to say.
        """
        known, left = self.job.checkpoints.known(), self.commits.pending()
        if left == known.pending:
            return False
        self._write(replace(known, epoch=known.epoch + 1, pending=left), ())
        self.job.store.collect_garbage()
        return True

    def publish_output(self) -> Manifest:
        """Have sinks publish what they hold back, to wait for more; returns a manifest that has none of it."""
        job, known = self.job, self.job.checkpoints.known()
        if known.in_progress:
            job.sinks.check_early_end()
            epoch, now = known.epoch + 1, job.now()
            commits, in_progress = job.sinks.pre_commit(known, epoch, now, {}, is_last=True)
            pending = self.commits.pending(commits)
            self._write(replace(known, epoch=epoch, pending=pending, in_progress=in_progress), commits)
            job.store.collect_garbage()
        return replace(job.checkpoints.known(), pending=())

    def complete_commits(self) -> None:
        """Wait until everything is committed; at the job's end let sinks remove what they kept for themselves."""
        self.commits.finish() if self.job.checkpoints.known().finished else self.commits.drain()
        if not self.job.cancelled.is_set():
            self.acknowledge_commits()

    # --- its end -----------------------------------------------------------------------------------------------------

    def abandon(self) -> list[PendingCommit]:
        """End without closing the job: another execution goes on from the newest manifest.

        Returns:
            What has yet to be committed and no manifest holds.

        Raises:
            JobCancelledError: when the job is cancelled while this waits for commits that are under way.
        """
        self.commits.join()
        self._close_sources()
        return self.commits.transient()

    def close(self) -> None:
        """Close sources and sinks; a commit that hangs is left behind."""
        self._close_sources()
        self.commits.close()

    def _close_sources(self) -> None:
        """Close the enumerators; what they fail with is logged."""
        for source in self.sources:
            try:
                source.enumerator.close()
            except Exception:
                logger.warning("closing source %r failed", source.planned.node.name, exc_info=True)
