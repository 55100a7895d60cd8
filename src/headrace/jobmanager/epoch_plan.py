"""The next epoch: how much it reads of each split, in which task, and whether there is a reason to run it."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean, median
from typing import Final, NamedTuple

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.store import CheckpointStore, TemporaryStore
from headrace.connectors.source import ReadBudget
from headrace.jobmanager.alignment import WatermarkAligner
from headrace.jobmanager.checkpoints import CheckpointCoordinator, EpochGate
from headrace.jobmanager.compaction import CompactionCoordinator
from headrace.jobmanager.recovery import contexts_after_epoch, partition_contexts
from headrace.jobmanager.runtime import Runtime
from headrace.jobmanager.settings import EpochLimits, PlannedJob
from headrace.jobmanager.sinks import JobSinks
from headrace.jobmanager.sources import SourceCoordinator, SplitPlan
from headrace.plan.job_plan import sources_to_wait_for
from headrace.runtime.task.messages import EpochContext, SplitAssignment
from headrace.time.clock import Clock
from headrace.time.watermark_strategy import WatermarkAlignment

_GROWTH: Final = 8.0
"""An epoch has at most so many times the records of the one before: what was measured with few records says little
about many."""

_LONGEST: Final = 2.0
"""No epoch is made so large that it could take longer than so many times what it should, if all of the quickest one's
time went by its records. What it should take is the target, or what the shortest of the last ones took."""

_SURE: Final = 0.75
"""No epoch is made so small that it could not take so much of the target, if all of the quickest one's time went by its
records; half of that after a slow epoch, and half of that again after two."""

_COLD: Final = 4.0
_MANY_RECORDS: Final = 250_000
"""The first epoch starts workers and loads code, so it says little about the next: that has as many records as take so
many times the target at most, even if all of the first one's time went by its records. Nothing else holds it back where
these were many, as in batch mode."""

_LEAST_RECORDS: Final = 1_000
"""No epoch is made smaller than this, or its fixed cost would be all that is left. Only where records are so slow that
so many would take longer than an epoch should, there are fewer."""

_LEAST_SHARE: Final = 0.02
"""The share of an epoch's time that its records take at least: measurements are noisy."""

_SHORTEST_SECONDS: Final = 0.1
"""No timer makes an epoch shorter than this, nor shorter than three times its fixed cost: with many timers one is
always due soon, and a job that hurried after each would do nothing else."""

_REMEMBERED: Final = 16
"""The number of epochs that tell together what is fixed."""

_SURPRISE: Final = 2.0
"""An epoch is slow when its records take so many times as long as expected, and quick when they take so much less."""

_CONVINCED: Final = 4
"""The number of slow epochs in a row that are believed: fewer may as well come of a machine that is busy. The
quickest of so many says within what bounds the next one is."""

_NOISE: Final = 0.1
"""The share of an epoch's time that says nothing."""

_TELLING: Final = 0.2
"""Two epochs tell a fixed cost from one a record when the smaller one has this share less records."""


class _EpochSeen(NamedTuple):
    """One epoch that was run."""

    records: int
    seconds: float


class _Line(NamedTuple):
    """The cost of an epoch by its size."""

    fixed: float
    each: float


class EpochCost:
    """The cost of epochs: a fixed part and one for each record, learnt from epochs of different sizes.

    It is the line through the last epochs, in the lower middle of all lines through two of them. Whatever else a
    machine does makes epochs longer, never shorter. So a quick epoch is believed at once. A slow one is not: either
    its records were dear, or something disturbed it. Each of several slow epochs in a row moves the cost of a record
    towards what they tell, so the next one has fewer records, and its own time shows which of both it is. The last of
    them is believed.

    Args:
        target_seconds: how long epochs should take: differences that are small beside it are noise.

    Attributes:
        each: seconds a record; 0 as long as nothing is known.
    """

    def __init__(self, target_seconds: float) -> None:
        self.each = 0.0
        self._target = target_seconds
        self._epochs: deque[_EpochSeen] = deque(maxlen=_REMEMBERED)
        self._slow: list[_EpochSeen] = []
        self._latest: deque[_EpochSeen] = deque(maxlen=_REMEMBERED)
        self._line = _Line(0.0, 0.0)
        self._is_known = False

    @property
    def is_first_guess(self) -> bool:
        """Return whether one epoch tells all that is known."""
        return len(self._epochs) == 1

    @property
    def is_guessed(self) -> bool:
        """Return whether all epochs were so much alike that nothing tells the fixed cost from that of the records."""
        return len(self._epochs) > 1 and not self._is_known

    @property
    def fixed(self) -> float:
        """Seconds that most epochs take for other things than their records."""
        return self._line.fixed

    @property
    def slow(self) -> int:
        """Return how many epochs in a row were slow, and are not believed."""
        return len(self._slow)

    @property
    def overhead(self) -> float:
        """Seconds of a mean epoch that are not for its records, all that disturbs it included, but for the worst."""
        others = sorted(self._overheads())[:-1]
        return max(self.fixed, fmean(others)) if others else self.fixed

    @property
    def quickest(self) -> float:
        """Seconds a record of the quickest of the last epochs, its fixed cost included: no record takes more."""
        return min(epoch.seconds / epoch.records for epoch in list(self._latest)[-_CONVINCED:])

    @property
    def shortest(self) -> float:
        """Seconds of the shortest epoch that is remembered: the fixed cost is not more."""
        return min(epoch.seconds for epoch in self._latest)

    def _overheads(self) -> Iterator[float]:
        return (max(0.0, epoch.seconds - self._line.each * epoch.records) for epoch in self._latest)

    def learn(self, records: int, seconds: float) -> None:
        """Learn from an epoch."""
        epoch, expected = _EpochSeen(records, seconds), self._line.each * records
        self._latest.append(epoch)
        found = seconds - self._line.fixed
        is_odd = bool(self._epochs) and abs(found - expected) > _NOISE * max(self._target, seconds)
        if is_odd and found > expected * _SURPRISE:
            self._slow.append(epoch)
            self._suspect()
            return
        self._slow.clear()
        if is_odd and found < expected / _SURPRISE and self._expects(epoch):
            self._epochs.clear()
            if seconds < expected:
                self._latest = deque([epoch], _REMEMBERED)
            self._line = _Line(max(0.0, seconds - expected), self._line.each)
        self._epochs.append(epoch)
        self._draw(records)

    def _expects(self, epoch: _EpochSeen) -> bool:
        """Return whether its cost follows from other epochs: from those of its size, or those of different sizes."""
        return self._is_known or self._slope([self._epochs[-1], epoch]) is None

    def _suspect(self) -> None:
        """Learn from slow epochs."""
        line, slow = self._line, self._slow
        slope = self._slope(slow)
        cost = min((each.seconds - line.fixed) / each.records for each in slow) if slope is None else slope
        cost = max(cost, line.each)
        self.each = line.each * (cost / line.each) ** (len(slow) / _CONVINCED)
        if len(slow) == _CONVINCED:
            self._line = _Line(max(0.0, median(each.seconds - cost * each.records for each in slow)), cost)
            self._epochs = deque(slow, _REMEMBERED)
            slow.clear()

    def _draw(self, records: int) -> None:
        slope = self._slope(self._epochs)
        typical = median(epoch.seconds for epoch in self._epochs)
        fixed = self._line.fixed
        if slope is not None:
            fixed = max(0.0, median(epoch.seconds - slope * epoch.records for epoch in self._epochs))
        fixed = min(fixed, typical)
        for_records = typical - fixed if slope is None else slope * records
        self._is_known = slope is not None
        self._line = _Line(fixed, max(for_records, typical * _LEAST_SHARE) / records)
        self.each = self._line.each

    def _slope(self, epochs: Iterable[_EpochSeen]) -> float | None:
        """Seconds a record by some epochs; None when they are too much alike to tell."""
        slopes = self._slopes(epochs)
        # Not the middle one: where they differ much, too small an epoch costs more than one that is somewhat too large.
        return max(0.0, slopes[len(slopes) // 3]) if slopes else None

    def _slopes(self, epochs: Iterable[_EpochSeen]) -> list[float]:
        """Seconds a record by any two epochs that tell, from the least on."""
        ordered = sorted(epochs)
        return sorted(
            (large.seconds - small.seconds) / (large.records - small.records)
            for number, large in enumerate(ordered)
            for small in ordered[:number]
            if self._tell(small, large)
        )

    def _tell(self, small: _EpochSeen, large: _EpochSeen) -> bool:
        """Return whether two epochs tell a fixed cost from one a record: noise must not hide the difference."""
        share = 1 - small.records / large.records
        return share >= _TELLING and share * large.seconds >= _NOISE * self._target


class EpochSizer:
    """Sizes epochs by what the last ones took: flow control by pull.

    Only the cost of the records shrinks with the epoch, so where the fixed part is most of the target, making epochs
    smaller would make all worse: records then get as much time as an epoch costs without them. So a job that has much
    to read gets at least half of what the machine can do.

    An epoch that has to be over earlier, since a timer is due, gets its share of the records of a whole one.
    """

    def __init__(self, limits: EpochLimits) -> None:
        self._limits = limits
        self._target = limits.target_seconds
        self._records = min(limits.first_records, limits.max_records)
        self._admitted = self._records
        self._cost = EpochCost(limits.target_seconds)
        self._is_cold = True

    def aim(self, *, is_backlog: bool) -> None:
        """Say whether history is read from now on: epochs may be longer then, and are short again right after that."""
        limits = self._limits
        longer = limits.backlog_seconds if is_backlog else None
        target = limits.target_seconds if longer is None else max(longer, limits.target_seconds)
        if target < self._target:
            share = self._for_records(target) / self._for_records(self._target)
            least = min(self._records, _LEAST_RECORDS, limits.max_records)
            self._records = max(least, int(self._records * share))
        self._target = target

    def budget(self, seconds_left: float | None = None) -> ReadBudget:
        """The records and bytes that the next epoch may read, over all splits.

        Args:
            seconds_left: when the next one should begin, because a timer is due; None when that does not matter.
        """
        self._admitted = self._records
        if seconds_left is not None:
            shortest = max(_SHORTEST_SECONDS, 3 * self._cost.overhead)
            share = self._for_records(max(seconds_left, shortest)) / self._for_records(self._target)
            self._admitted = max(min(self._records, _LEAST_RECORDS), int(self._records * min(share, 1.0)))
        return ReadBudget(self._admitted, self._limits.max_bytes)

    def observe(self, records: int, seconds: float) -> None:
        """Learn from an epoch."""
        if not records:
            return
        seconds = max(seconds, 1e-9)
        is_cold, self._is_cold = self._is_cold, False
        if not is_cold:
            self._cost.learn(records, seconds)
        if records < self._admitted // 2:
            return  # the input was the limit, so nothing calls for another size
        wanted = self._after_cold_start(seconds) if is_cold else self._by_cost(records, seconds)
        self._records = int(min(max(wanted, self._least(seconds / records)), self._limits.max_records))

    def _least(self, each: float) -> int:
        """Return how many records no epoch has less than; one took so many seconds at most."""
        return max(1, int(min(_LEAST_RECORDS, self._target / (self._cost.each or each))))

    def _after_cold_start(self, seconds: float) -> float:
        most = _GROWTH if self._records < _MANY_RECORDS else math.inf
        return self._records * min(_COLD * self._target / seconds, most)

    def _by_cost(self, records: int, seconds: float) -> float:
        cost = self._cost
        wanted = self._for_records(self._target) / cost.each
        safe = max(_LONGEST * max(self._target, cost.shortest) / cost.quickest, self._records)
        if cost.is_first_guess and seconds < self._target / _LONGEST:
            wanted = safe  # what is fixed of so short an epoch is not known yet, and it may be nearly all
        sure = _SURE * 0.5**cost.slow * self._target / cost.quickest
        wanted = min(max(wanted, sure), self._records * _GROWTH, safe)
        is_alike = records * (1 - _TELLING) < wanted < records / (1 - _TELLING)
        return wanted * (1 - 2 * _TELLING) if is_alike and cost.is_guessed else wanted

    def _for_records(self, seconds: float) -> float:
        """Return how much of an epoch of that length is for its records."""
        return max(seconds - self._cost.fixed, self._cost.overhead)


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
        context: what the tasks get.
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
        return dict(enumerate(map(tuple, tasks)))


def _timers(manifest: Manifest) -> list[int]:
    return [
        partition.earliest_timer
        for stage in manifest.stages
        for partition in stage.partitions
        if partition.earliest_timer is not None
    ]


def _may_bring_more(source: SourceCoordinator) -> bool:
    return not source.enumerator.is_complete() or any(source.unfinished())
