"""Which epoch is next: what of each split it reads, in which task, and whether there is a reason to run it at all."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.store import CheckpointStore, TemporaryStore
from headrace.connectors.source import ReadBudget
from headrace.jobmanager.alignment import WatermarkAligner
from headrace.jobmanager.checkpoints import CheckpointCoordinator, EpochGate
from headrace.jobmanager.compaction import CompactionCoordinator
from headrace.jobmanager.epoch_size import EpochSizer
from headrace.jobmanager.recovery import contexts_after_epoch, partition_contexts
from headrace.jobmanager.runtime import Runtime
from headrace.jobmanager.settings import PlannedJob
from headrace.jobmanager.sinks import JobSinks
from headrace.jobmanager.sources import SourceCoordinator, SplitPlan
from headrace.plan.job_plan import sources_to_wait_for
from headrace.runtime.task.messages import EpochContext, SplitAssignment
from headrace.time.clock import Clock
from headrace.time.watermark_strategy import WatermarkAlignment

_FULL: Final = 0.9
"""The share of a budget from which on it counts as used up, since the shares of splits are rounded."""

_NO_EPOCH: Final = -1
"""Stands for the epoch before the first one after a start."""


@dataclass(frozen=True, slots=True)
class JobServices:
    """State shared by all executions of a job; replaced when the job is planned anew.

    Attributes:
        planned: the job.
        runtime: where epochs are executed.
        store: where manifests, state files and the folders of sources are.
        checkpoints: the chain of manifests.
        sinks: the job's sinks.
        sizer: says how much an epoch may read.
        compaction: has runs merged in the background.
        clock: tells processing time.
        cancelled: set when the job is cancelled.
        gate: holds epochs back that violate expectations.
    """

    planned: PlannedJob
    runtime: Runtime
    store: CheckpointStore | TemporaryStore
    checkpoints: CheckpointCoordinator
    sinks: JobSinks
    sizer: EpochSizer
    compaction: CompactionCoordinator
    clock: Clock
    cancelled: threading.Event
    gate: EpochGate

    def now(self) -> int:
        """The clock's reading in milliseconds; never earlier than what a manifest knows."""
        return max(self.clock.now(), self.checkpoints.known().processing_time)


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """An epoch that is about to run.

    Attributes:
        context: what the tasks are told.
        splits: by uid of the source, what is read of each of its splits.
        records: how many records will be read, by the enumerators' word.
        seconds: how long the planning took.
        is_full: whether it reads as much as it may.
    """

    context: EpochContext
    splits: Mapping[str, list[SplitPlan]]
    records: int
    seconds: float
    is_full: bool = False


class EpochPlanner:
    """Plans one epoch after the other, each from the newest manifest.

    Args:
        job: the job.
        sources: its sources.

    Attributes:
        previous: the last epoch whose manifest exists, of those that it has planned.
    """

    def __init__(self, job: JobServices, sources: Sequence[SourceCoordinator]) -> None:
        self._job = job
        self._plan = job.planned.plan
        self._sources = sources
        self.previous = _NO_EPOCH
        alignments: dict[str, WatermarkAlignment] = {}
        for source in sources:
            alignments |= source.alignments
        self._aligner = WatermarkAligner(alignments) if alignments else None
        self._waits_for = sources_to_wait_for(self._plan) if self._plan.settings.is_batch else {}

    def plan(self, *, force: bool = False) -> EpochPlan | None:
        """The next epoch; None when nothing could come of it, unless ``force`` wants it all the same."""
        job, started = self._job, time.monotonic()
        manifest, now = job.checkpoints.known(), job.now()
        for source in self._sources:
            source.discover(now)
        lag = job.planned.settings.backlog_lag
        job.sizer.aim(is_backlog=any(source.is_processing_backlog(now, lag) for source in self._sources))
        # What is due already fires at the beginning of this epoch; for the next timer another one will be needed.
        next_timer = min((timer for timer in _timers(manifest) if timer > now), default=None)
        budget = job.sizer.budget(None if next_timer is None else (next_timer - now) / 1000)
        splits = self._splits(budget, now)
        is_complete = all(source.enumerator.is_complete() for source in self._sources)
        every = list(chain.from_iterable(splits.values()))
        is_last = is_complete and all(planned.ends for planned in every)
        is_due = any(time <= now for time in self._times(manifest))
        if not (force or is_last or is_due or any(planned.changes_something for planned in every)):
            return None
        return self._planned(manifest, now, splits, started, budget, is_last=is_last)

    def last(self) -> EpochPlan:
        """The next epoch when all sources are to end where they are."""
        self._job.sinks.check_early_end()
        splits = {source.planned.uid: source.ending() for source in self._sources}
        return self._planned(self._job.checkpoints.known(), self._job.now(), splits, time.monotonic(), is_last=True)

    def _planned(
        self,
        manifest: Manifest,
        now: int,
        splits: dict[str, list[SplitPlan]],
        started: float,
        budget: ReadBudget | None = None,
        *,
        is_last: bool,
    ) -> EpochPlan:
        if self.previous == _NO_EPOCH:
            partitions = partition_contexts(manifest, self._plan, is_start=True)
        else:
            partitions = contexts_after_epoch(manifest, self._job.compaction.adoptions(manifest))
        context = EpochContext(
            job_id=manifest.job_id,
            epoch=manifest.epoch + 1,
            previous=self.previous,
            generation=manifest.generation,
            processing_time=now,
            assignments=self._assignments(splits),
            partitions=partitions,
            stalled=frozenset() if is_last else self._stalled(splits),
            is_last=is_last,
            goes_on_from=manifest.epoch if manifest.stages else None,
        )
        total, is_full = 0, False
        for plans in splits.values():
            records = size = 0
            for planned in plans:
                if planned.read is not None:
                    records, size = records + planned.read.records, size + planned.read.bytes
            total += records
            if budget is not None and (records >= _FULL * budget.records or size >= _FULL * budget.bytes):
                is_full = True
        return EpochPlan(context, splits, total, time.monotonic() - started, is_full)

    def _splits(self, budget: ReadBudget, now: int) -> dict[str, list[SplitPlan]]:
        """By uid of the source, what is read of each split; none runs away from others that it is aligned with."""
        held_back = self._waiting_for_broadcast() if self._waits_for else frozenset()
        if self._aligner is not None:
            held_back |= self._aligner.held_back(split for source in self._sources for split in source.unfinished())
        splits = {source.planned.uid: source.plan(budget, now, held_back) for source in self._sources}
        if self._aligner is not None:
            self._shorten(splits, self._aligner, now)
        return splits

    def _shorten(self, splits: dict[str, list[SplitPlan]], aligner: WatermarkAligner, now: int) -> None:
        """Let no split run too far ahead of others with what is planned."""
        limits = aligner.limits(planned for plans in splits.values() for planned in plans)
        for source in self._sources if limits else ():
            uid = source.planned.uid
            splits[uid] = [
                source.shortened(planned, limits[planned.split.channel], now)
                if planned.split.channel in limits
                else planned
                for planned in splits[uid]
            ]

    def _waiting_for_broadcast(self) -> frozenset[int]:
        """The channels of records that are not read before the streams that are broadcast to them have ended."""
        going_on = {source.planned.uid for source in self._sources if _may_bring_more(source)}
        return frozenset(
            split.channel
            for source in self._sources
            if self._waits_for.get(source.planned.uid, frozenset()) & going_on
            for split in source.unfinished()
        )

    def seconds_to_next_due(self) -> float | None:
        """Return how long nothing can happen without input: until a time of :meth:`_times`, or a split becomes idle."""
        idle = (source.next_idle_at() for source in self._sources)
        times = self._times(self._job.checkpoints.known())
        due = min([*times, *(time for time in idle if time is not None)], default=None)
        return None if due is None else max(0.0, (due - self._job.now()) / 1000)

    def _times(self, manifest: Manifest) -> Iterator[int]:
        """Return when an epoch is due without input: for processing-time timers, and for output in progress."""
        yield from _timers(manifest)
        due = self._job.sinks.next_due(manifest)
        if due is not None:
            yield due

    def _stalled(self, splits: Mapping[str, list[SplitPlan]]) -> frozenset[str]:
        """The operators that read from stage 0 what comes of a source that has no split for now, but will have one.

        As in Flink such a source is silent, not idle and not at its end, so it holds event time where it is.
        """
        reached = {
            source.planned.node.id
            for source in self._sources
            if not source.enumerator.is_complete() and all(planned.ends for planned in splits[source.planned.uid])
        }
        for operator in self._plan.stages[0].operators if reached else ():
            if any(edge.source in reached for edge in operator.inputs):
                reached.add(operator.node.id)
        later = (operator for stage in self._plan.stages[1:] for operator in stage.operators)
        behind = (operator.uid for operator in later if any(edge.source in reached for edge in operator.inputs))
        return frozenset(behind)

    def _assignments(self, splits: Mapping[str, list[SplitPlan]]) -> dict[int, tuple[SplitAssignment, ...]]:
        """Splits stick to tasks by their number; the pieces of a split go round from there."""
        tasks: list[list[SplitAssignment]] = [[] for _ in range(self._plan.stages[0].parallelism)]
        for source in self._sources:
            for planned in splits[source.planned.uid]:
                for assignment in source.assignments(planned):
                    tasks[(assignment.channel + assignment.piece) % source.planned.parallelism].append(assignment)
        return {subtask: tuple(assignments) for subtask, assignments in enumerate(tasks)}


def _timers(manifest: Manifest) -> list[int]:
    return [
        partition.earliest_timer
        for stage in manifest.stages
        for partition in stage.partitions
        if partition.earliest_timer is not None
    ]


def _may_bring_more(source: SourceCoordinator) -> bool:
    return not source.enumerator.is_complete() or any(source.unfinished())
