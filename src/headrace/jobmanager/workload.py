"""The workload of the operators of a job: where their time and that of epochs goes, and how fast counters grow."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from headrace.checkpoint.manifest import OperatorCounters
from headrace.jobmanager.metrics import MetricKey
from headrace.metrics.registry import (
    BACK_PRESSURED_RATE,
    BACK_PRESSURED_TIME,
    BUSY_RATE,
    BUSY_TIME,
    BYTES_IN,
    BYTES_IN_RATE,
    BYTES_OUT,
    BYTES_OUT_RATE,
    IDLE_RATE,
    IDLE_TIME,
    RECORDS_IN,
    RECORDS_IN_RATE,
    RECORDS_OUT,
    RECORDS_OUT_RATE,
)
from headrace.plan.job_plan import JobPlan, Stage
from headrace.runtime.task.messages import TaskReport
from headrace.runtime.task.task_clock import TaskTimes


class TimeSpent(NamedTuple):
    """The time of an operator in a subtask since the job began to run, in nanoseconds.

    Attributes:
        busy: it was at work.
        idle: it had nothing to do.
        back_pressured: it had more to do, and waited for what comes behind it.
    """

    busy: int = 0
    idle: int = 0
    back_pressured: int = 0


OperatorTimes: TypeAlias = Mapping[str, tuple[TimeSpent, ...]]
"""By uid and subtask."""


@dataclass(frozen=True, slots=True)
class EpochTimes:
    """The times of an epoch, in nanoseconds since 1970.

    Attributes:
        before: the end of the epoch before, or when the job began to run.
        ended: its end, with the checkpoint and the waiting for sinks.
        is_full: whether it has read as much as it might, so that there is more to do.
    """

    before: int
    ended: int
    is_full: bool


class TimeKeeper:
    """Adds up where the time of the operators of a plan goes.

    An epoch runs stage by stage. While those behind an operator are at work, those in its own task too, it waits for
    them: if the epoch has read as much as it might, that is back-pressure. All else that is not work is idle.

    Args:
        plan: the plan.
    """

    def __init__(self, plan: JobPlan) -> None:
        self._stages = plan.stages
        self._behind: dict[str, frozenset[str]] = {}
        for stage in plan.stages:
            self._behind |= _behind(stage)

    def after(self, known: OperatorTimes, reports: Sequence[TaskReport], epoch: EpochTimes) -> OperatorTimes:
        """The times after an epoch; as they were where the runtime does not tell them."""
        times = [report.times for report in reports if report.times is not None]
        if not times:
            return known
        ends = [epoch.before] * len(self._stages)
        for task in times:
            ends[task.stage] = min(max(ends[task.stage], task.ended), epoch.ended)
        found = {uid: list(by_subtask) for uid, by_subtask in known.items() if uid in self._behind}
        for task in times:
            for planned in self._stages[task.stage].operators:
                if task.partition < planned.parallelism:
                    spent = self._spent(planned.uid, task, epoch, epoch.ended - ends[task.stage])
                    by_subtask = found.setdefault(planned.uid, [])
                    by_subtask.extend([TimeSpent()] * (task.partition + 1 - len(by_subtask)))
                    totals = zip(by_subtask[task.partition], spent, strict=True)
                    by_subtask[task.partition] = TimeSpent(*map(sum, totals))
        return {uid: tuple(by_subtask) for uid, by_subtask in found.items()}

    def _spent(self, uid: str, task: TaskTimes, epoch: EpochTimes, later: int) -> TimeSpent:
        whole = epoch.ended - epoch.before
        busy = min(task.operators.get(uid, 0), whole)
        waited = later + task.waiting_for_output + sum(task.operators.get(each, 0) for each in self._behind[uid])
        back_pressured = min(waited, whole - busy) if epoch.is_full else 0
        return TimeSpent(busy, whole - busy - back_pressured, back_pressured)


def _behind(stage: Stage) -> dict[str, frozenset[str]]:
    """By uid, the operators of the same task that get what an operator emits, directly or by others."""
    found: dict[str, frozenset[str]] = {}
    reached: dict[int, frozenset[str]] = {}
    for planned in reversed(stage.operators):
        chained = (reached[edge.target] for edge in planned.outputs if not edge.is_exchange)
        found[planned.uid] = frozenset().union(*chained)
        reached[planned.node.id] = found[planned.uid] | {planned.uid}
    return found


_NANO: Final = 1_000_000_000


class RunningParts(NamedTuple):
    """The parts of the time in which the tasks of an epoch ran, in seconds.

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


_SPAN_MILLIS: Final = 60_000
"""The time over which rates are means, as in Flink."""

_APART_MILLIS: Final = 5_000
"""So far readings are apart, but for the last one."""

RATES: Final[Mapping[str, str]] = {
    RECORDS_IN: RECORDS_IN_RATE,
    RECORDS_OUT: RECORDS_OUT_RATE,
    BYTES_IN: BYTES_IN_RATE,
    BYTES_OUT: BYTES_OUT_RATE,
}
"""By the names of counters, those of their rates."""


COUNTERS: Final[Mapping[str, str]] = {rate: name for name, rate in RATES.items()}
"""By the names of rates, those of their counters."""


class Reading(NamedTuple):
    """The work of operators up to a moment.

    Attributes:
        time: the moment, in milliseconds of the system's clock.
        counters: their counters, since the job's first start.
        times: where their time has gone, since this run began.
    """

    time: int
    counters: OperatorCounters
    times: OperatorTimes


@dataclass(frozen=True, slots=True)
class Workload:
    """The work of the operators of a job in the last minute.

    Attributes:
        readings: moments of that minute, and one before, if there is one; the last one is that of the newest epoch.
    """

    readings: tuple[Reading, ...] = field(default=(), repr=False)

    def after(self, reading: Reading) -> Workload:
        """The same with another moment."""
        kept = self.readings
        if len(kept) > 1 and kept[-1].time - kept[-2].time < _APART_MILLIS:
            kept = kept[:-1]
        return Workload((*kept[self._first(reading.time, kept) :], reading))

    def metrics(self, now: int) -> dict[MetricKey, float]:
        """Rates and times at a moment, of subtasks, and of operators: sums of those, and of times in a second the most.

        ``numRecordsInPerSecond`` and the like, over the last minute. ``busyTimeMsPerSecond``, ``idleTimeMsPerSecond``
        and ``backPressuredTimeMsPerSecond``, likewise, and ``accumulateBusyTimeMs`` and so on: all since the run began.
        """
        if not self.readings:
            return {}
        first = self.readings[self._first(now, self.readings)]
        seconds = max(_SPAN_MILLIS, now - first.time) / 1000
        found: dict[MetricKey, float] = {}
        for uid, counters in self.readings[-1].counters.items():
            for name, rate in RATES.items():
                if name in counters:
                    _add(found, uid, rate, [grown / seconds for grown in self._grown(first, uid, name)], sum)
        for uid, times in self.readings[-1].times.items():
            before = first.times.get(uid, ())
            spent = [_spent(time, before[n] if n < len(before) else TimeSpent()) for n, time in enumerate(times)]
            for part, (total, rate) in enumerate(_TIMES):
                _add(found, uid, total, [time[part] // _MILLI for time in times], sum)
                _add(found, uid, rate, [time[part] * 1000 / sum(time) for time in spent], max)
        return found

    def _grown(self, first: Reading, uid: str, name: str) -> list[int]:
        """By how much a counter has grown since a reading, by subtask."""
        before = first.counters.get(uid, {}).get(name, ())
        totals = self.readings[-1].counters[uid][name]
        known = [before[subtask] if subtask < len(before) else 0 for subtask in range(len(totals))]
        return [total - earlier for total, earlier in zip(totals, known, strict=True)]

    @staticmethod
    def _first(now: int, readings: Sequence[Reading]) -> int:
        """The last reading that is a minute old; the first one where none is."""
        return max(0, bisect_right(readings, now - _SPAN_MILLIS, key=attrgetter("time")) - 1)


_MILLI: Final = 1_000_000

_TIMES: Final = ((BUSY_TIME, BUSY_RATE), (IDLE_TIME, IDLE_RATE), (BACK_PRESSURED_TIME, BACK_PRESSURED_RATE))
"""For each part of an operator's time, what the whole of it is called, and what comes of it in a second."""


def _spent(time: TimeSpent, before: TimeSpent) -> TimeSpent:
    """The time since a moment; where no epoch has run since then, it was idle."""
    spent = TimeSpent(*(after - earlier for after, earlier in zip(time, before, strict=True)))
    return spent if any(spent) else TimeSpent(idle=1)


def _add(
    found: dict[MetricKey, float],
    uid: str,
    name: str,
    by_subtask: Sequence[float],
    of_all: Callable[[Sequence[float]], float],
) -> None:
    found |= {MetricKey(uid, subtask, name): value for subtask, value in enumerate(by_subtask)}
    if by_subtask:
        found[MetricKey(uid, None, name)] = of_all(by_subtask)
