"""What a run of a job was like: its last epochs in their parts, and fewer and fewer points of all the time before."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NamedTuple

from headrace.jobmanager.epoch_reports import StateSizes
from headrace.jobmanager.metrics import SplitProgress
from headrace.runtime.task.messages import TaskReport
from headrace.runtime.task.task_clock import TaskTimes

_NANO: Final = 1_000_000_000

_MOST_POINTS: Final = 180
"""The most points that are kept: of more every other one is forgotten."""

_FIRST_APART: Final = 1_000
"""Milliseconds between the first points; at least twice as many each time that every other point is forgotten."""

_MOST_SPLITS: Final = 12
"""The largest number of splits in a point: those that are furthest behind."""

_MOST_STATES: Final = 12
"""The largest number of states in a point: the largest ones."""


class RunningParts(NamedTuple):
    """Where the time of an epoch has gone while its tasks ran, in seconds.

    Attributes:
        reading: tasks read sources.
        operating: operators were at work.
        shuffling: all else: records travelled from stage to stage, tasks were begun, and wrote their state.
    """

    reading: float
    operating: float
    shuffling: float


def running_parts(
    sources: frozenset[str], reports: Iterable[TaskReport], started: int, seconds: float
) -> RunningParts | None:
    """The parts of the time in which the tasks of an epoch ran; None where the runtime does not tell.

    Stages run one after the other, and each as long as its last task. So what that task did in the time of its stage is
    where the time of the epoch has gone.

    Args:
        sources: the uids of the sources.
        reports: those of all tasks.
        started: when they began to run, in nanoseconds since 1970.
        seconds: for how long they ran.
    """
    last: dict[int, TaskTimes] = {}  # by stage
    for report in reports:
        times = report.times
        if times is not None and (times.stage not in last or times.ended > last[times.stage].ended):
            last[times.stage] = times
    if not last:
        return None
    reading = operating = 0
    before, end = started, started + round(seconds * _NANO)
    for _, task in sorted(last.items()):
        ended = min(max(task.ended, before), end)
        read = sum(spent for uid, spent in task.operators.items() if uid in sources)
        work = sum(task.operators.values()) - read
        share = min(1.0, (ended - before) / (read + work)) if read + work else 0.0
        reading, operating, before = reading + round(read * share), operating + round(work * share), ended
    shuffling = max(0.0, seconds - (reading + operating) / _NANO)
    return RunningParts(reading / _NANO, operating / _NANO, shuffling)


def task_sizes(sizes: StateSizes) -> dict[str, tuple[int, ...]]:
    """The sizes of all state of each operator, by uid and task."""
    return {uid: tuple(map(sum, zip(*by_name.values(), strict=True))) for uid, by_name in sizes.items()}


class SplitPoint(NamedTuple):
    """A split at a moment.

    Attributes:
        uid: its source.
        split_id: its id.
        watermark: how far its event time has come.
        pending: the number of records that are there and not read; None where that is not known.
    """

    uid: str
    split_id: str
    watermark: int
    pending: int | None


class HistoryPoint(NamedTuple):
    """A run at a moment.

    Attributes:
        time: the moment, in milliseconds of the system's clock.
        clock: the reading of the job's clock, which watermarks are compared with.
        epoch: the last epoch.
        records: the number of records that the run has read.
        watermark: the lowest event time of all sources.
        pending: the number of records that are there and not read; None where that is not known.
        state: bytes of the largest states, by uid and name of the store.
        late: the number of late records that were dropped, since the job's first start.
        rejected: the number of records that could not be read or written, likewise.
        splits: those that are furthest behind.
    """

    time: int
    clock: int
    epoch: int
    records: int
    watermark: int
    pending: int | None
    state: Mapping[tuple[str, str], int]
    late: int
    rejected: int
    splits: tuple[SplitPoint, ...]


def split_points(splits: Iterable[SplitProgress]) -> tuple[SplitPoint, ...]:
    """The splits that are furthest behind, in the order of their sources."""
    slowest = heapq.nsmallest(_MOST_SPLITS, splits, key=lambda split: split.watermark)
    points = (SplitPoint(s.uid, s.split_id, s.watermark, s.pending.records) for s in slowest)
    return tuple(sorted(points, key=lambda point: point[:2]))


def largest_states(sizes: StateSizes) -> dict[tuple[str, str], int]:
    """The bytes of the largest states, by uid and name."""
    totals = {(uid, name): sum(by_task) for uid, by_name in sizes.items() for name, by_task in by_name.items()}
    return dict(heapq.nlargest(_MOST_STATES, totals.items(), key=itemgetter(1)))


@dataclass(frozen=True, slots=True)
class RunHistory:
    """Points of a run, from its first epoch on.

    Attributes:
        points: in the order of time.
        apart: milliseconds between two points, at least.
    """

    points: tuple[HistoryPoint, ...] = field(default=(), repr=False)
    apart: int = _FIRST_APART

    def is_due(self, time: int) -> bool:
        """Return whether the last point is so old that there may be another."""
        return not self.points or time - self.points[-1].time >= self.apart

    def after(self, point: HistoryPoint) -> RunHistory:
        """The same with another point."""
        if len(self.points) < _MOST_POINTS:
            return RunHistory((*self.points, point), self.apart)
        kept = self.points[::2]
        between = (kept[-1].time - kept[0].time) // (len(kept) - 1)
        return RunHistory((*kept, point), max(self.apart * 2, between))
