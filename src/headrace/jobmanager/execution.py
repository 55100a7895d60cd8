"""One execution of a job: its epochs, from the manifest that it goes on from to the job's end or the next failure."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from headrace.checkpoint.manifest import Manifest, PendingCommit
from headrace.common.constants import MAX_WATERMARK
from headrace.common.errors import JobCancelledError
from headrace.common.logs import get_logger
from headrace.jobmanager.checkpoints import next_manifest
from headrace.jobmanager.epochs import (
    EpochPlan,
    EpochPlanner,
    JobServices,
    check_broadcast_state,
    committables_by_sink,
    raise_reported,
    records_read,
    run_epoch,
)
from headrace.jobmanager.metrics import FunctionMetrics, SourceProgress, WatermarkProgress
from headrace.jobmanager.sinks import CommitCoordinator
from headrace.jobmanager.sources import SourceCoordinator, restore_sources
from headrace.jobmanager.status import EpochStatistics
from headrace.runtime.task.messages import TaskReport

logger = get_logger(__name__)


class JobExecution:
    """Runs the epochs of a job, one after the other, from the newest manifest on.

    Its memory follows from a manifest, and may be ahead of the manifests after a failure: then it is
    abandoned, and another execution takes its place.

    Args:
        job: what all executions share.
        transient: what the execution before had yet to commit and no manifest holds.
        measured: what functions have measured before in this run of the job.

    Attributes:
        job: as above.
        sources: the sources, with their positions.
        commits: the second phase.
        measured: what functions have measured in this run of the job.
        is_checkpointing: whether the tasks of an epoch have done their part, and its manifest is not written yet.
    """

    def __init__(self, job: JobServices, transient: Sequence[PendingCommit], measured: FunctionMetrics) -> None:
        self.job = job
        self.measured = measured
        self.is_checkpointing = False
        manifest, durable = job.checkpoints.known(), job.sinks.durable
        storage_options = job.planned.blob.storage_options
        with ExitStack() as failed:
            self.sources: list[SourceCoordinator] = []
            for source in restore_sources(job.plan, manifest, job.store, storage_options, job.now()):
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
        self._planner = EpochPlanner(job, self.sources)

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

    def plan(self, *, force: bool = False, drains: bool = False) -> EpochPlan | None:
        """The next epoch; None when there is no reason for one.

        Args:
            force: whether there is to be one all the same.
            drains: whether it is the last one, in which all sources end where they are.
        """
        return self._planner.last() if drains else self._planner.plan(force=force)

    def run(self, planned: EpochPlan) -> EpochStatistics:
        """Run an epoch, write its manifest, and have its sinks commit; wait for sinks that are behind.

        Nothing of an epoch is kept before it has succeeded: one without a manifest never happened.
        """
        job, started = self.job, time.monotonic()
        reports = run_epoch(job, planned)
        raise_reported(reports)
        check_broadcast_state(job.plan, reports)
        ran = time.monotonic()
        read = records_read(job.plan, reports)
        manifest = self._checkpoint(planned, reports, read)
        done = time.monotonic()
        self.measured = self.measured.after(reports, job.now())
        self.commits.hold_back()
        waited = time.monotonic()
        job.sizer.observe(read, planned.seconds + waited - started)
        return EpochStatistics(
            epoch=manifest.epoch,
            records=read,
            planning=planned.seconds,
            running=ran - started,
            checkpointing=done - ran,
            waiting=waited - done,
            watermark=self._watermark(),
            processing_time=manifest.processing_time,
            state_bytes=manifest.state_bytes or 0,
            counters=manifest.counters,
            operator_counters=manifest.operator_counters,
            measured=self.measured,
            pending=manifest.pending_by_sink(),
            event_time=self.event_time(manifest),
            sources=self._readings(planned, reports),
        )

    def _watermark(self) -> int:
        """The lowest event time of the sources that count; the highest where all are idle."""
        counting = [source.watermark() for source in self.sources if not source.is_idle()]
        if counting or not self.sources:
            return min(counting, default=0)
        waiting = [source.watermark() for source in self.sources if any(source.unfinished())]
        return max(waiting, default=MAX_WATERMARK)

    def _readings(self, planned: EpochPlan, reports: Sequence[TaskReport]) -> tuple[SourceProgress, ...]:
        """How far each source is behind when an epoch is complete."""
        now = self.job.now()
        for source in self.sources:
            splits = planned.splits[source.planned.uid]
            source.has_read(splits, reports, planned.context.processing_time, now)
        return tuple(source.reading(now, self.job.planned.settings.backlog_lag) for source in self.sources)

    def event_time(self, manifest: Manifest) -> WatermarkProgress:
        """Where event time is, as of the newest manifest."""
        splits = tuple(split for source in self.sources for split in source.progress())
        waiting = {uid for split in splits for uid in split.watermarks}
        going_on = {uid for source in self.sources if not source.enumerator.is_complete() for uid in source.timestamps}
        made = {uid for source in self.sources for uid in source.timestamps}
        return WatermarkProgress(self.job.plan, manifest, splits, frozenset(made - waiting - going_on))

    def _checkpoint(self, planned: EpochPlan, reports: list[TaskReport], read: int) -> Manifest:
        """The first phase is over: the manifest is the one commit point; then the second phase begins."""
        job, context, before = self.job, planned.context, self.job.checkpoints.known()
        self.is_checkpointing = True
        for source in self.sources:
            source.completed(
                planned.splits[source.planned.uid],
                [channel for report in reports for channel in report.channels],
                context.processing_time,
            )
        written = committables_by_sink(reports)
        output = job.sinks.pre_commit(before, context.epoch, context.processing_time, written, is_last=context.is_last)
        manifest = next_manifest(
            before,
            job.plan,
            context,
            reports,
            sources={source.planned.uid: source.snapshot() for source in self.sources},
            sinks=replace(output, commits=self.commits.pending(output.commits)),
            read=read,
        )
        self._write(manifest, output.commits)
        self.is_checkpointing = False
        self._planner.epoch_completed(context.epoch)
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
            epoch, now = known.epoch + 1, job.now()
            output = job.sinks.pre_commit(known, epoch, now, {}, is_last=True)
            pending = self.commits.pending(output.commits)
            self._write(replace(known, epoch=epoch, pending=pending, in_progress=output.in_progress), output.commits)
            job.store.collect_garbage()
        return replace(job.checkpoints.known(), pending=())

    def complete_commits(self) -> None:
        """Wait until everything is committed; at the job's end let sinks remove what they kept for themselves."""
        self.commits.finish() if self.job.checkpoints.known().finished else self.commits.drain()
        if not self.job.cancelled.is_set():
            self.acknowledge_commits()

    def seconds_to_next_due(self) -> float | None:
        """How long nothing can happen without input; None for ever."""
        due = self._planner.next_due()
        return None if due is None else max(0.0, (due - self.job.now()) / 1000)

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
