"""An epoch: what is read and by which task, the run on a runtime, and what its tasks report."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Final

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.store import CheckpointStore, TemporaryStore
from headrace.common import options
from headrace.common.errors import CheckpointFailedError, InfrastructureError, JobCancelledError, UserFunctionError
from headrace.common.logs import get_logger, with_fields
from headrace.connectors.source import ReadBudget
from headrace.graph.process_specs import BroadcastProcessSpec
from headrace.jobmanager.checkpoints import CheckpointCoordinator, CompactionCoordinator
from headrace.jobmanager.epoch_size import EpochSizer
from headrace.jobmanager.recovery import partition_contexts
from headrace.jobmanager.runtime import Runtime
from headrace.jobmanager.settings import PlannedJob
from headrace.jobmanager.sinks import JobSinks
from headrace.jobmanager.sources import SourceCoordinator, SplitPlan, WatermarkAligner
from headrace.operators.broadcast import BROADCAST
from headrace.plan.job_plan import JobPlan, PlannedOperator
from headrace.runtime.task.messages import EpochContext, SplitAssignment, TaskReport
from headrace.time.clock import Clock

_NO_EPOCH: Final = -1
"""Stands for the epoch before the first one after a start."""


@dataclass(frozen=True, slots=True)
class JobServices:
    """What all executions of a job share; another one after the job was planned anew.

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

    @property
    def plan(self) -> JobPlan:
        """The job's plan."""
        return self.planned.plan

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
    """

    context: EpochContext
    splits: Mapping[str, list[SplitPlan]]
    records: int
    seconds: float


class EpochPlanner:
    """Plans one epoch after the other, each from the newest manifest.

    Args:
        job: the job.
        sources: its sources.
    """

    def __init__(self, job: JobServices, sources: Sequence[SourceCoordinator]) -> None:
        self._job = job
        self._plan = job.plan
        self._sources = sources
        self._previous = _NO_EPOCH
        alignments = {uid: way for source in sources for uid, way in source.alignments.items()}
        self._aligner = WatermarkAligner(alignments) if alignments else None
        self._waits_for = sources_to_wait_for(job.plan) if job.plan.settings.is_batch else {}

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
        every = [planned for plans in splits.values() for planned in plans]
        is_last = is_complete and all(planned.ends for planned in every)
        is_due = any(time <= now for time in self._times(manifest))
        if not (force or is_last or is_due or any(planned.changes_something for planned in every)):
            return None
        return self._planned(manifest, now, splits, started, is_last=is_last)

    def last(self) -> EpochPlan:
        """The next epoch when all sources are to end where they are."""
        splits = {source.planned.uid: source.ending() for source in self._sources}
        return self._planned(self._job.checkpoints.known(), self._job.now(), splits, time.monotonic(), is_last=True)

    def _planned(
        self, manifest: Manifest, now: int, splits: dict[str, list[SplitPlan]], started: float, *, is_last: bool
    ) -> EpochPlan:
        context = EpochContext(
            job_id=manifest.job_id,
            epoch=manifest.epoch + 1,
            previous=self._previous,
            generation=manifest.generation,
            processing_time=now,
            assignments=self._assignments(splits),
            partitions=partition_contexts(
                manifest, self._plan, self._job.compaction.adoptions(manifest), is_start=self._previous == _NO_EPOCH
            ),
            stalled=frozenset() if is_last else self._stalled(splits),
            is_last=is_last,
            goes_on_from=manifest.epoch if manifest.stages else None,
        )
        reads = (planned.read for plans in splits.values() for planned in plans if planned.read is not None)
        return EpochPlan(context, splits, sum(read.records for read in reads), time.monotonic() - started)

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

    def epoch_completed(self, epoch: int) -> None:
        """The manifest of an epoch exists."""
        self._previous = epoch

    def next_due(self) -> int | None:
        """When something happens without input: as :meth:`_times` says, or a split becomes idle."""
        idle = (source.next_idle_at() for source in self._sources)
        times = self._times(self._job.checkpoints.known())
        return min([*times, *(time for time in idle if time is not None)], default=None)

    def _times(self, manifest: Manifest) -> Iterator[int]:
        """When an epoch is due without input: for the processing-time timers of each task, for output in progress."""
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


def sources_to_wait_for(plan: JobPlan) -> Mapping[str, Set[str]]:
    """By uid of a source, the sources that have to end before it is read; none where that would go in a circle."""
    waits_for: dict[str, set[str]] = {}
    for records, broadcast in _met(plan):
        for source in records:
            waits_for.setdefault(source, set()).update(broadcast)
    return {
        source: frozenset(other for other in others if other != source and source not in _behind(other, waits_for))
        for source, others in waits_for.items()
    }


def _met(plan: JobPlan) -> Iterator[tuple[Set[str], Set[str]]]:
    """Of each operator with broadcast state, the sources of its records, and those of its state."""
    origins: dict[int, frozenset[str]] = {}
    for operator in plan.operators():
        own = frozenset() if operator.inputs else frozenset({operator.uid})
        origins[operator.node.id] = own.union(*(origins[edge.source] for edge in operator.inputs))
        if isinstance(operator.node.spec, BroadcastProcessSpec):
            yield _of_input(operator, origins, is_broadcast=False), _of_input(operator, origins, is_broadcast=True)


def _of_input(operator: PlannedOperator, origins: Mapping[int, Set[str]], *, is_broadcast: bool) -> Set[str]:
    edges = (edge for edge in operator.inputs if (edge.input_index == BROADCAST) is is_broadcast)
    return frozenset().union(*(origins[edge.source] for edge in edges))


def _behind(source: str, waits_for: Mapping[str, Set[str]]) -> Set[str]:
    """All sources that one waits for, directly or through others."""
    found: set[str] = set()
    ahead = [source]
    while ahead:
        new = waits_for.get(ahead.pop(), set()) - found
        found |= new
        ahead.extend(new)
    return found


logger = get_logger(__name__)

_LOOK_SECONDS: Final = 0.05


def run_epoch(job: JobServices, planned: EpochPlan) -> list[TaskReport]:
    """Run an epoch on the job's runtime; it is given up when the job is cancelled, or when it takes too long.

    A runtime may be told to give up when the query has not really begun, which it does not notice: so it is told again
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


def raise_reported(reports: Sequence[TaskReport]) -> None:
    """Raise what a task reported, the earliest stage first: later ones may only suffer from it.

    Raises:
        HeadraceError: the failure of the user's code or input.
    """
    failed = [report for report in reports if report.error is not None]
    if failed:
        first = min(failed, key=lambda report: (report.stage, report.partition))
        assert first.error is not None
        raise first.error.to_error()


def records_read(plan: JobPlan, reports: Sequence[TaskReport]) -> int:
    """How many records the sources gave; the enumerators' word for it is an estimate."""
    sources = {planned.uid for planned in plan.operators() if not planned.node.inputs}
    return sum(count for report in reports for uid, count in report.records.items() if uid in sources)


def committables_by_sink(reports: Sequence[TaskReport]) -> dict[str, list[object]]:
    """What the sinks of all tasks want committed, by uid, in the order of the tasks."""
    found: dict[str, list[object]] = {}
    for report in sorted(reports, key=lambda report: (report.stage, report.partition)):
        for uid, committables in report.committables.items():
            found.setdefault(uid, []).extend(committables)
    return found


_ADVICE: Final = (
    "process_broadcast_element has to do the same in each, so what it changes may follow from the record and the state "
    "alone, not from the subtask, a clock, chance, fields of the function or the order of a set"
)


def check_broadcast_state(plan: JobPlan, reports: Sequence[TaskReport]) -> None:
    """Refuse an epoch in which subtasks have changed their broadcast state in different ways.

    What is too large for their versions the first subtask alone has written, and after a start all go on with what it
    has.

    Raises:
        UserFunctionError: naming the operator and two of its subtasks.
    """
    sharing = [operator for operator in plan.operators() if operator.shares_broadcast_state]
    for operator in sharing:
        versions = {report.partition: report.snapshot.version for report in reports if report.stage == operator.stage}
        _check(operator, {task: dict(version.shared) if version else {} for task, version in versions.items()})


def _check(operator: PlannedOperator, digests: Mapping[int, Mapping[str, str]]) -> None:
    shared = [digests[task].get(operator.uid) for task in range(operator.parallelism)]
    other = next((task for task, digest in enumerate(shared) if digest != shared[0]), None)
    if other is not None:
        node = operator.node
        raise UserFunctionError(
            f"the broadcast state of operator {node.name!r} (uid {operator.uid}) is not the same in subtasks 0 and "
            f"{other}: {_ADVICE}\n  operator defined at {node.call_site}"
        )
