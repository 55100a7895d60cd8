"""The epoch loop: plan an epoch, run it, write its manifest, let the sinks commit; again.

The same code drives every runtime. Nothing of an epoch is kept before it has succeeded: an epoch without a manifest
never happened.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.checkpoint.manifest import Manifest
from headrace.common.errors import JobCancelledError, JobSupersededError
from headrace.connectors.sink import CommitterContext
from headrace.graph.specs import SinkSpec
from headrace.jobmanager.attempts import EpochAttempts
from headrace.jobmanager.commits import CommitCoordinator, commits_of
from headrace.jobmanager.compaction import CompactionCoordinator
from headrace.jobmanager.epoch import EpochPlan, EpochPlanner
from headrace.jobmanager.epoch_size import EpochLimits, EpochSizer
from headrace.jobmanager.outcome import next_manifest
from headrace.jobmanager.progress import EpochStatistics, SilentListener
from headrace.jobmanager.recovery import check_compatible, without_unclaimed
from headrace.jobmanager.sources import SourceCoordinator
from headrace.time.clock import SystemClock

if TYPE_CHECKING:
    from headrace.checkpoint.store import CheckpointStore
    from headrace.checkpoint.unstored import TemporaryStore
    from headrace.jobmanager.progress import JobListener
    from headrace.jobmanager.restart import RestartStrategy
    from headrace.jobmanager.runtime import Runtime
    from headrace.plan.job_plan import JobPlan
    from headrace.runtime.task.instance import JobBlob
    from headrace.runtime.task.messages import TaskReport
    from headrace.time.clock import Clock


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How a job manager works.

    Attributes:
        limits: how large epochs may be.
        restart: what happens when the infrastructure fails.
        poll_seconds: how often sources are looked at while nothing happens.
        min_interval_seconds: the shortest time between two epochs.
        epoch_timeout_seconds: an epoch that takes longer is given up and run again.
        ignore_unclaimed_state: whether what the program has no operators for may be left behind.
    """

    limits: EpochLimits
    restart: RestartStrategy
    poll_seconds: float = 0.1
    min_interval_seconds: float = 0.0
    epoch_timeout_seconds: float = 600.0
    ignore_unclaimed_state: bool = False


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
        self._listener = listener or SilentListener()
        self._clock = clock
        self._stop = threading.Event()
        self._cancelled = False
        self.manifest: Manifest | None = None

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
            assert self.manifest is not None
            if self._cancelled and not self.manifest.finished:
                raise self._cancellation()
            return self.manifest
        except BaseException as failure:
            error = self._explained(failure)
            raise error from (failure.__cause__ if error is failure else failure)
        finally:
            self.close()
            self._listener.job_ended(error)

    def _explained(self, failure: BaseException) -> BaseException:
        """Why the job really ended.

        Who has been superseded may come to grief before its next manifest: its state files are being deleted. And what
        fails while a job is being cancelled fails for that reason.
        """
        try:
            self._check_owner()
        except JobSupersededError as superseded:
            return failure if isinstance(failure, JobSupersededError) else superseded
        if self._cancelled and not isinstance(failure, JobCancelledError):
            return self._cancellation()
        return failure

    def _cancellation(self) -> JobCancelledError:
        epoch = 0 if self.manifest is None else self.manifest.epoch
        return JobCancelledError(f"job {self.plan.name!r} was cancelled after epoch {epoch}")

    def _check_owner(self) -> None:
        """Stop when another job manager has taken over; one that is idle writes no manifest that would tell it.

        Raises:
            JobSupersededError: when there is one.
        """
        if self.manifest is not None and not self._store.is_owned_by(self.manifest.generation):
            raise JobSupersededError(
                f"job {self.plan.name!r}: another job manager has taken over its checkpoint directory; this one stops"
            )

    def stop(self) -> None:
        """Stop at the end of the epoch that runs; from any thread."""
        self._stop.set()

    def cancel(self) -> None:
        """Give up the epoch that runs and stop; from any thread."""
        self._cancelled = True
        self._stop.set()
        self._runtime.cancel()

    def open(self) -> None:
        """Restore or begin, take the directory over, commit what is pending."""
        restored = self._store.latest()
        manifest = self._store.begin(self._fresh()) if restored is None else None
        if manifest is None:
            restored = restored or self._store.latest()
            assert restored is not None
            ignores = self._settings.ignore_unclaimed_state
            check_compatible(restored, self.plan, ignore_unclaimed=ignores)
            manifest = self._store.take_over(restored)
            manifest = without_unclaimed(manifest, self.plan) if ignores else manifest
        self.manifest = manifest
        self._clock = self._clock or SystemClock(manifest.processing_time)
        self._attempts = self._open_attempts(manifest, self._clock)
        self._sizer = EpochSizer(self._settings.limits)
        self._runtime.start(self._blob)
        self._commits = self._open_commits(manifest)
        self._sources = self._open_sources(manifest)
        self._compaction = CompactionCoordinator(self._runtime, self._store.state_directory)
        self._planner = EpochPlanner(self.plan, self._sources, self._sizer, self._compaction)
        self._listener.job_started(
            self.plan.name, manifest.job_id, None if restored is None else restored.epoch, manifest.generation
        )
        self._commits.submit(manifest.pending)
        if restored is not None:
            self._commits.recover(manifest.generation)
            self._store.remove_leftovers(manifest.generation)

    def run_epoch(self, *, force: bool = False) -> EpochStatistics | None:
        """Run one epoch if there is a reason to, or if ``force`` wants one.

        Returns:
            How it went; None when there was nothing to do, or when the job was stopped before a failed epoch was due to
            be run again.
        """
        assert self.manifest is not None
        assert self._clock is not None
        started = time.monotonic()
        now = max(self._clock.now(), self.manifest.processing_time)
        planned = self._planner.plan(self.manifest, now, force=force)
        if planned is None:
            return None
        fixed = time.monotonic()
        reports = self._attempts.run(planned)
        if reports is None:
            return None
        ran = time.monotonic()
        self._finish_epoch(planned, reports)
        done = time.monotonic()
        self._sizer.took(self._read(reports), done - started)
        statistics = self._statistics(planned, reports, (fixed - started, ran - fixed, done - ran))
        self._listener.epoch_completed(statistics)
        return statistics

    def wait_for_commits(self) -> None:
        """Wait until all sinks have committed the epochs so far."""
        self._commits.drain()

    def source(self, uid: str) -> SourceCoordinator:
        """One of the job's sources, as soon as the job is open."""
        return next(source for source in self._sources if source.planned.uid == uid)

    def close(self) -> None:
        """Let go of everything; what is not committed stays in the manifest."""
        for source in getattr(self, "_sources", ()):
            source.close()
        if hasattr(self, "_commits"):
            self._commits.close()
        self._runtime.close()
        self._store.close()

    def _loop(self) -> None:
        while not self._stop.is_set():
            assert self.manifest is not None
            if self.manifest.finished:
                break
            statistics = self.run_epoch()
            self._commits.check()
            assert self._clock is not None
            self._commits.tick(self.manifest.epoch, self._clock.now())
            if statistics is None:
                self._check_owner()
                self._stop.wait(self._idle_seconds())
            elif statistics.seconds < self._settings.min_interval_seconds:
                self._stop.wait(self._settings.min_interval_seconds - statistics.seconds)
        self.complete_commits()

    def complete_commits(self) -> None:
        """Wait until all sinks have committed; at the job's end let them publish what they held back.

        Then a last manifest says so, and the next start need not commit it again.

        Raises:
            CommitRefusedError: when a commit was refused for good.
        """
        assert self.manifest is not None
        self._commits.finish() if self.manifest.finished else self._commits.drain()
        if self.manifest.pending and not self._cancelled:
            self.manifest = replace(self.manifest, epoch=self.manifest.epoch + 1, pending=())
            self._store.write(self.manifest)
            self._store.collect_garbage()

    def _idle_seconds(self) -> float:
        """How long nothing can happen of itself: until the next look at the sources, or the next timer."""
        assert self.manifest is not None
        assert self._clock is not None
        due = self._planner.next_due(self.manifest)
        poll = self._settings.poll_seconds
        return poll if due is None else min(poll, max(0.0, (due - self._clock.now()) / 1000))

    def _finish_epoch(self, planned: EpochPlan, reports: list[TaskReport]) -> None:
        """The first phase is over: the manifest is the one commit point; then the second phase begins."""
        assert self.manifest is not None
        context = planned.context
        for source in self._sources:
            source.completed(
                planned.splits[source.planned.node.id],
                [channel for report in reports for channel in report.channels],
                context.processing_time,
            )
        commits = commits_of(context.epoch, context.processing_time, self._by_sink(reports))
        self.manifest = next_manifest(
            self.manifest,
            self.plan,
            context,
            reports,
            sources={source.planned.uid: source.snapshot() for source in self._sources},
            pending=self._commits.pending(commits),
            read=self._read(reports),
        )
        self._store.write(self.manifest)
        self._commits.submit(commits)
        for source in self._sources:
            source.checkpoint_completed()
        self._compaction.epoch_completed(self.manifest)
        self._store.collect_garbage()

    def _read(self, reports: list[TaskReport]) -> int:
        """How many records the sources gave; the enumerators' word for it is an estimate."""
        sources = {source.planned.node.id for source in self._sources}
        return sum(count for report in reports for node, count in report.records.items() if node in sources)

    def _by_sink(self, reports: list[TaskReport]) -> dict[str, list[object]]:
        found: dict[str, list[object]] = {}
        for report in sorted(reports, key=lambda report: (report.stage, report.partition)):
            for node, committables in report.committables.items():
                found.setdefault(self.plan.operator(node).uid, []).extend(committables)
        return found

    def _statistics(
        self, planned: EpochPlan, reports: list[TaskReport], seconds: tuple[float, float, float]
    ) -> EpochStatistics:
        assert self.manifest is not None
        return EpochStatistics(
            epoch=self.manifest.epoch,
            records=self._read(reports),
            planning=seconds[0],
            running=seconds[1],
            checkpointing=seconds[2],
            watermark=min((source.watermark() for source in self._sources), default=0),
            processing_time=self.manifest.processing_time,
            state_bytes=sum(report.state_bytes for report in reports),
            counters=self.manifest.counters,
            pending_commits=self._commits.waiting_epochs,
        )

    def _fresh(self) -> Manifest:
        return Manifest(
            epoch=0,
            generation=0,
            job_id=uuid.uuid4().hex,
            job_name=self.plan.name,
            max_parallelism=self.plan.max_parallelism,
            processing_time=0,
        )

    def _open_attempts(self, manifest: Manifest, clock: Clock) -> EpochAttempts:
        restarts = self._settings.restart.begin(clock, random.Random(manifest.job_id))
        timeout = self._settings.epoch_timeout_seconds
        return EpochAttempts(self._runtime, restarts, self._listener, self._stop, timeout, self._check_owner)

    def _open_sources(self, manifest: Manifest) -> list[SourceCoordinator]:
        assert self._clock is not None
        taken = [split.channel for source in manifest.sources.values() for split in source.splits]
        channels = itertools.count(max(taken, default=-1) + 1)
        now = max(self._clock.now(), manifest.processing_time)
        return [
            SourceCoordinator(
                planned,
                self.plan,
                self._store.source_directory(planned.uid),
                manifest.sources.get(planned.uid),
                channels,
                now,
            )
            for planned in self.plan.operators()
            if not planned.node.inputs
        ]

    def _open_commits(self, manifest: Manifest) -> CommitCoordinator:
        committers, durable, names = {}, set(), {}
        for planned in self.plan.operators():
            spec = planned.node.spec
            if isinstance(spec, SinkSpec):
                context = CommitterContext(manifest.job_id, planned.uid, planned.inputs[0].record_type)
                committers[planned.uid] = spec.sink.create_committer(context)
                names[planned.uid] = planned.node.name
                if spec.sink.is_durable:
                    durable.add(planned.uid)
        return CommitCoordinator(committers, frozenset(durable), names)
