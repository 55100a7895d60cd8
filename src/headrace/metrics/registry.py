"""``MetricRegistry``: the metrics of one operator in one subtask, by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.common.arguments import refused, with_article
from headrace.metrics.kinds import Counter, Distribution, Gauge, Meter, Metric
from headrace.metrics.measurements import EVENTS, OF_DISTRIBUTIONS, Measurements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

M = TypeVar("M", bound=Metric)


class MetricRegistry:
    """The metrics of one operator in one subtask, by the names of their groups and their own."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}
        self._shown: dict[str, str] = {}
        self._told: set[str] = set()

    def registered(self, name: str, kind: type[M], make: Callable[[], M]) -> M:
        """The metric of a name, which is made when it is first asked for.

        Raises:
            InvalidProgramError: when there is one of another kind, or one that would be shown under the same name.
        """
        known = self._metrics.get(name)
        if known is None:
            self._take_names(name, kind)
            known = self._metrics.setdefault(name, make())
        if not isinstance(known, kind):
            raise refused(f"there is {_described(known, name)} already: give the {kind.__name__} another name")
        return known

    def register_gauge(self, name: str, value: Callable[[], Any]) -> None:
        """Have a value asked for, in place of an earlier one of this name.

        Raises:
            InvalidProgramError: as :meth:`registered`.
        """
        gauge = Gauge(name, value)
        self.registered(name, Gauge, lambda: gauge)
        self._metrics[name] = gauge

    def take(self) -> Measurements | None:
        """What has come since the last call, and what gauges give now; None where there are no metrics."""
        if not self._metrics:
            return None
        metrics = list(self._metrics.items())  # requests that were given up may still make some, in another thread
        new = {name for name, _ in metrics} - self._told
        self._told |= new
        return Measurements(
            counters={n: count for n, each in _of(Counter, metrics) if (count := each.take()) or n in new},
            meters={
                n: (count, each.time_span_in_seconds)
                for n, each in _of(Meter, metrics)
                if (count := each.take()) or n in new
            },
            gauges={n: gauge.value() for n, gauge in _of(Gauge, metrics)},
            distributions={n: summary for n, each in _of(Distribution, metrics) if (summary := each.take())},
        )

    def _take_names(self, name: str, kind: type[Metric]) -> None:
        """Note under which names a metric is shown; with two under one name, one of both would show something else."""
        wanted = _shown_names(name, kind)
        if (other := next((self._shown[each] for each in wanted if each in self._shown), None)) is not None:
            raise refused(
                f"the {kind.__name__} {name!r} would be shown under the same name as "
                f"{_described(self._metrics[other], other)}: give one of them another name"
            )
        self._shown.update(dict.fromkeys(wanted, name))


_BEHIND_NAMES: Final[Mapping[type[Metric], tuple[str, ...]]] = {
    Counter: ("",),
    Meter: ("", EVENTS),
    Distribution: OF_DISTRIBUTIONS,
    Gauge: ("",),
}

_A_NUMBER: Final = re.compile(r"\A\d+(?=\.)")


def _shown_names(name: str, kind: type[Metric]) -> list[str]:
    """What a metric is shown as behind the name of its operator.

    Gauges have the number of their subtask before them, and the group of another metric may look like one: ``#`` stands
    for both.
    """
    shown_name = f"#.{name}" if kind is Gauge else _A_NUMBER.sub("#", name)
    return [f"{shown_name}{what}" for what in _BEHIND_NAMES[kind]]


def _of(kind: type[M], metrics: list[tuple[str, Metric]]) -> Iterator[tuple[str, M]]:
    return ((name, metric) for name, metric in metrics if isinstance(metric, kind))


def _described(metric: Metric, name: str) -> str:
    return f"{with_article(type(metric))} {name!r}"
