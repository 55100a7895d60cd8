"""``FunctionMetrics``: what the metrics of the user's functions have come to, of all tasks together."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.metrics.measurements import Measurements, Summary
    from headrace.plan.job_plan import JobPlan
    from headrace.runtime.task.messages import TaskReport


PARTS: Final = 1000
"""Events that are no further apart than this part of a time span are kept as one number."""


class Rate:
    """The events of a meter in the last so many milliseconds, at most ``PARTS`` and one numbers of them.

    Attributes:
        millis: over how long it is the mean.
    """

    __slots__ = ("_events", "millis")

    def __init__(self) -> None:
        self.millis = 0
        self._events: deque[tuple[int, int]] = deque()

    def __len__(self) -> int:
        return len(self._events)

    def add(self, now: int, count: int) -> None:
        """So many events have come by a reading of the clock."""
        self._forget(now)
        if self._events and (now - self._events[-1][0]) * PARTS < self.millis:
            since, before = self._events.pop()
            self._events.append((since, before + count))
        else:
            self._events.append((now, count))

    def per_second(self, now: int) -> float:
        """The rate at a reading of the clock."""
        self._forget(now)
        return sum(count for _, count in self._events) * 1000 / self.millis

    def _forget(self, now: int) -> None:
        while self._events and self._events[0][0] <= now - self.millis:
            self._events.popleft()


def measured_by(plan: JobPlan, reports: Iterable[TaskReport]) -> Iterator[tuple[str, int, Measurements]]:
    """Of each operator in each task that has metrics its name, the task's number, and what they have come to."""
    names = plan.shown_names()
    for report in reports:
        for node, measured in report.metrics.items():
            yield names[node], report.partition, measured


class FunctionMetrics:
    """Gauges, rates and distributions since the job has begun to run; counters are totals of the manifest.

    The job's thread tells it of epochs, and clients ask in theirs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gauges: dict[str, float] = {}
        self._rates: defaultdict[str, Rate] = defaultdict(Rate)
        self._distributions: dict[str, Summary] = {}

    def epoch_completed(self, plan: JobPlan, reports: Iterable[TaskReport], now: int) -> None:
        """An epoch's manifest exists; ``now`` is the clock's reading in milliseconds."""
        measured = list(measured_by(plan, reports))
        with self._lock:
            self._gauges = {
                f"{operator}.{subtask}.{name}": value
                for operator, subtask, of_task in measured
                for name, value in of_task.gauges.items()
            }
            for operator, _, of_task in measured:
                self._add(operator, of_task, now)

    def _add(self, operator: str, measured: Measurements, now: int) -> None:
        for name, (events, seconds) in measured.meters.items():
            rate = self._rates[f"{operator}.{name}"]
            rate.millis = seconds * 1000
            if events:
                rate.add(now, events)
        for name, summary in measured.distributions.items():
            full_name = f"{operator}.{name}"
            known = self._distributions.get(full_name)
            self._distributions[full_name] = summary if known is None else known.and_of(summary)

    def gauges(self, now: int) -> dict[str, float]:
        """All but counters, by name, at a reading of the clock in milliseconds."""
        with self._lock:
            told = dict(self._gauges)
            told |= {name: rate.per_second(now) for name, rate in self._rates.items()}
            for name, summary in self._distributions.items():
                told |= summary.shown(name)
        return told
