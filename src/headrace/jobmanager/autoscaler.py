"""Rescaling by itself: to the parallelism that the cluster offers (reactive mode), or at which a job keeps up.

The autoscaler finds the latter, and that at which a job catches up in a given time. It works as the autoscaler of
Flink's Kubernetes operator, with two differences that follow from epochs. The stages of an epoch run one after the
other in the same slots, so a job has one parallelism rather than one for each vertex: what counts is the time that all
its tasks together need for a record. And the time between epochs is not a sign of idleness, so only the time counts in
which tasks are at work.

With ``cost``, the seconds of tasks for a record, and ``rate``, the records that arrive in a second, a job needs
``rate * cost`` subtasks that are busy all the time; the target utilization says how busy they are to be. A backlog adds
the rate at which it is gone in time.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from headrace.common.errors import InvalidProgramError, StateMigrationError, UnsupportedOperationError
from headrace.common.logs import get_logger
from headrace.jobmanager.events import (
    EpochReleased,
    EpochStatistics,
    JobEvent,
    JobRestart,
)
from headrace.jobmanager.runtime import Runtime
from headrace.jobmanager.status import JobSnapshot, JobStatusStore
from headrace.plan.job_plan import JobPlan
from headrace.time.clock import Clock, SystemClock

logger = get_logger(__name__)

_NANOS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class AutoscalerSettings:
    """Settings of rescaling by load; times are in milliseconds.

    Attributes:
        is_applied: whether the job is rescaled; else the log says to what it would be.
        window: the time over which a job is measured.
        stabilization: the time after a start or a change in which nothing is measured.
        target: how busy subtasks are to be, as a share of their time.
        lowest_utilization: below this the job is scaled down.
        highest_utilization: above this it is scaled up.
        catch_up: the time in which a backlog is to be gone; 0 for no matter when.
        restart: the time that a change is taken to need, in which a backlog grows.
        most_up: a job is scaled up by at most this share of its parallelism.
        most_down: it is scaled down by at most this share.
        lowest: the lowest parallelism.
        highest: the highest parallelism; None for the slots that the cluster has.
    """

    is_applied: bool
    window: int
    stabilization: int
    target: float
    lowest_utilization: float
    highest_utilization: float
    catch_up: int
    restart: int
    most_up: float
    most_down: float
    lowest: int
    highest: int | None


class Measurement(NamedTuple):
    """The work of a job up to a moment of this run.

    Attributes:
        time: the moment in milliseconds.
        records: the records that it has read.
        busy: the seconds in which its tasks were at work.
        pending: the records that are there and not read; None where a source does not know.
    """

    time: int
    records: int
    busy: float
    pending: int | None


class Autoscaler:
    """Listens to a job, and says at which parallelism it should go on.

    Args:
        settings: when and how far.
        slots: how many tasks can run at the same time now.
        clock: tells the time.
    """

    def __init__(self, settings: AutoscalerSettings, slots: Callable[[], int], clock: Clock) -> None:
        self._settings = settings
        self._slots = slots
        self._clock = clock
        self._records = 0
        self._measured: deque[Measurement] = deque()
        self._since = clock.now()
        self._suggested: int | None = None

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        """Something has happened to the job."""
        if isinstance(event, EpochStatistics):
            busy = sum(time.busy for by_subtask in event.times.values() for time in by_subtask)
            self.observe(Measurement(self._clock.now(), job.records, busy / _NANOS, event.pending_records))
        elif isinstance(event, JobRestart | EpochReleased):
            self.restarted()

    def restarted(self) -> None:
        """The job begins again, or goes on after a break: what was measured before says nothing of what follows."""
        self._measured.clear()
        self._since = self._clock.now()

    def observe(self, measured: Measurement) -> None:
        """An epoch is complete."""
        if measured.time - self._since < self._settings.stabilization:
            return
        self._measured.append(measured)
        while len(self._measured) > 2 and self._measured[1].time <= measured.time - self._settings.window:
            self._measured.popleft()

    def wanted(self, current: int, most: int) -> int | None:
        """The parallelism to go on at; None to stay.

        Args:
            current: the parallelism that the job has.
            most: the highest that it can have: its key groups.
        """
        found = self._needed(current, most)
        if found is None or found == current:
            return None
        if self._settings.is_applied:
            self.restarted()
            return found
        if found != self._suggested:
            logger.info("the autoscaler would have the job go on at parallelism %d in place of %d", found, current)
            self._suggested = found
        return None

    def _needed(self, current: int, most: int) -> int | None:
        """The parallelism that the job needs; None where that is not known yet."""
        settings = self._settings
        first, last = (self._measured[0], self._measured[-1]) if self._measured else (None, None)
        if first is None or last is None or last.time - first.time < settings.window:
            return None
        if self._clock.now() - last.time > settings.window:
            return None  # nothing has been read for so long that nothing is known
        cost = _cost(first, last)
        if cost is None:
            return None
        rate, catch_up = _arrivals(first, last), self._catch_up_rate(first, last)
        fewest = (rate / settings.highest_utilization + catch_up) * cost
        if fewest <= current <= (rate / settings.lowest_utilization + catch_up) * cost:
            return current
        return self._within(_evenly(_up(rate / settings.target + catch_up, cost), most), current, most)

    def _catch_up_rate(self, first: Measurement, last: Measurement) -> float:
        """The records in a second by which a backlog, and what a restart adds to it, is gone in time."""
        settings = self._settings
        if not (settings.catch_up and last.pending):
            return 0.0
        if last.pending <= _arrivals(first, last) * settings.restart / 1000:
            return 0.0  # what is always there between two epochs
        return last.pending / max(1.0, (settings.catch_up - settings.restart) / 1000)

    def _within(self, wanted: int, current: int, most: int) -> int:
        settings = self._settings
        highest = min(most, settings.highest or max(1, self._slots()))
        up, down = math.floor(current * (1 + settings.most_up)), math.ceil(current * (1 - settings.most_down))
        return min(most, max(settings.lowest, min(highest, max(down, min(wanted, max(up, current + 1))))))


def _cost(first: Measurement, last: Measurement) -> float | None:
    """The seconds of tasks for a record; None where nothing was read, or times are not known."""
    records, busy = last.records - first.records, last.busy - first.busy
    return busy / records if records > 0 and busy > 0 else None


def _arrivals(first: Measurement, last: Measurement) -> float:
    """The records that arrive in a second: those that are read, and those by which the backlog grows."""
    grown = 0 if first.pending is None or last.pending is None else last.pending - first.pending
    return max(0.0, (last.records - first.records + grown) / (last.time - first.time) * 1000)


def _up(rate: float, cost: float) -> int:
    return max(1, math.ceil(rate * cost - 1e-9))


def _evenly(wanted: int, most: int) -> int:
    """The next parallelism that gives all subtasks the same number of key groups, if it is not twice as high.

    As in Flink: with another one some subtasks have more to do than others.
    """
    even = (each for each in range(wanted, min(2 * wanted, most + 1)) if most % each == 0)
    return next(even, min(wanted, most))


@dataclass(frozen=True, slots=True)
class ReactiveSettings:
    """Settings of a job that follows the size of its cluster; times as for :class:`SlotWatcher`."""

    stable_millis: int
    cooldown_millis: int


LOOK_MILLIS = 1_000
"""The interval at which a job in reactive mode looks at its cluster: a query of Spark takes a millisecond."""


class SlotWatcher:
    """Reactive mode: says when a job should go on at the parallelism that the cluster has come to offer.

    As in Flink, the number of slots has to be the same for a while, and a job that was rescaled is left alone for a
    while: executors come and go one by one.

    Args:
        slots: how many tasks can run at the same time now.
        clock: tells the time.
        stable_millis: for how long the number has to be the same.
        cooldown_millis: how long after a change nothing is changed again.
    """

    def __init__(self, slots: Callable[[], int], clock: Clock, stable_millis: int, cooldown_millis: int) -> None:
        self._slots = slots
        self._clock = clock
        self._stable = stable_millis
        self._cooldown = cooldown_millis
        self._seen = 0
        self._since = 0
        self._looked_at: int | None = None
        self._changed_at: int | None = None

    def wanted(self, current: int, most: int) -> int | None:
        """The parallelism to go on at; None to stay.

        Args:
            current: the parallelism that the job has.
            most: the highest that it can have.
        """
        now = self._clock.now()
        if self._looked_at is not None and now - self._looked_at < LOOK_MILLIS:
            return None
        self._looked_at = now
        slots = max(1, min(self._slots(), most))
        if slots != self._seen:
            self._seen, self._since = slots, now
        if slots == current or now - self._since < self._stable or self._is_cooling(now):
            return None
        self._changed_at = now
        return slots

    def _is_cooling(self, now: int) -> bool:
        return self._changed_at is not None and now - self._changed_at < self._cooldown


class Rescaler:
    """Has a job go on at the parallelism that its cluster offers, or that its input needs, if it can.

    Args:
        scaler: says at which.
    """

    def __init__(self, scaler: SlotWatcher | Autoscaler) -> None:
        self._scaler = scaler
        self._refused: set[tuple[int, str]] = set()

    def look(self, plan: JobPlan, rescale: Callable[[int], None]) -> None:
        """Rescale a job, if it is time to.

        Args:
            plan: the plan that it has.
            rescale: has it go on at another parallelism.
        """
        settings = plan.settings
        wanted = self._scaler.wanted(settings.parallelism, settings.max_parallelism)
        if wanted is None:
            return
        try:
            rescale(wanted)
        except (UnsupportedOperationError, InvalidProgramError, StateMigrationError) as error:
            if (wanted, str(error)) not in self._refused:  # it is asked for again and again
                self._refused.add((wanted, str(error)))
                text = "job %r cannot go on at parallelism %d, and stays at %d: %s"
                logger.warning(text, plan.name, wanted, settings.parallelism, error)
        else:
            self._refused.clear()


def rescaler_of(settings: ReactiveSettings | AutoscalerSettings, runtime: Runtime, status: JobStatusStore) -> Rescaler:
    """Return what rescales a job.

    Args:
        settings: those of reactive mode, or of the autoscaler.
        runtime: where the job runs.
        status: tells the autoscaler what the job does.
    """
    clock = SystemClock(0)
    if isinstance(settings, ReactiveSettings):
        return Rescaler(SlotWatcher(runtime.slots, clock, settings.stable_millis, settings.cooldown_millis))
    scaler = Autoscaler(settings, runtime.slots, clock)
    status.subscribe(scaler)
    return Rescaler(scaler)
