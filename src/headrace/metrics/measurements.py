"""What the metrics of one operator in one subtask have come to in an epoch, on the way to the driver."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

EVENTS: Final = ".count"
"""What the number of a meter's events is shown as, behind the meter's name; its rate has the name itself."""

OF_DISTRIBUTIONS: Final = (".count", ".sum", ".mean", ".min", ".max")
"""What a distribution is shown as, behind its name."""

PARTS: Final = 1000
"""Events that are no further apart than this part of a time span are kept as one number."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The values that a distribution was given.

    Attributes:
        count: how many.
        total: their sum.
        least: the smallest one; NaN where there is one among them.
        greatest: the largest one, likewise.
    """

    count: int
    total: float
    least: float
    greatest: float

    @property
    def mean(self) -> float:
        """Their mean."""
        return self.total / self.count

    def and_of(self, other: Summary) -> Summary:
        """That of both."""
        return Summary(
            self.count + other.count,
            self.total + other.total,
            lesser(self.least, other.least),
            greater(self.greatest, other.greatest),
        )

    def shown(self, name: str) -> dict[str, float]:
        """What is shown of a distribution of this name."""
        told = (self.count, self.total, self.mean, self.least, self.greatest)
        return {f"{name}{what}": number for what, number in zip(OF_DISTRIBUTIONS, told, strict=True)}


def lesser(one: float, other: float) -> float:
    """The smaller number of two; NaN where one of them is: with ``min`` it would depend on their order."""
    return one if one < other else other if other <= one else math.nan


def greater(one: float, other: float) -> float:
    """The larger number of two, likewise."""
    return one if one > other else other if other >= one else math.nan


def as_number(value: object) -> float | None:
    """What a program gave, as a number of Python; None for what is none."""
    if isinstance(value, Integral | np.bool_):
        return int(value)
    if isinstance(value, Real | Decimal):
        return float(value)
    return None


@dataclass(frozen=True, slots=True)
class Rate:
    """The events of a meter in the last so many milliseconds, at most ``PARTS`` and one numbers of them.

    Attributes:
        millis: over how long it is the mean.
        events: numbers of events, each with the reading of the clock when the first of them came.
    """

    millis: int
    events: tuple[tuple[int, int], ...] = ()

    def after(self, now: int, count: int) -> Rate:
        """So many events have come by a reading of the clock."""
        kept = self._kept(now)
        if kept and (now - kept[-1][0]) * PARTS < self.millis:
            since, before = kept[-1]
            return Rate(self.millis, (*kept[:-1], (since, before + count)))
        return Rate(self.millis, (*kept, (now, count)))

    def per_second(self, now: int) -> float:
        """The rate at a reading of the clock."""
        return sum(count for _, count in self._kept(now)) * 1000 / self.millis

    def _kept(self, now: int) -> tuple[tuple[int, int], ...]:
        start = next((n for n, (since, _) in enumerate(self.events) if since > now - self.millis), len(self.events))
        return self.events[start:]


@dataclass(frozen=True, slots=True)
class Measurements:
    """All metrics of an operator in a subtask; names have the names of their groups before them, with dots.

    What has counted nothing is told once, when it is new.

    Attributes:
        counters: what counters have counted in the epoch.
        meters: how many events meters were told in the epoch, and over how many seconds their rate is.
        gauges: what gauges gave at the end of the epoch.
        distributions: the values of the epoch.
    """

    counters: Mapping[str, int] = field(default_factory=dict)
    meters: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    distributions: Mapping[str, Summary] = field(default_factory=dict)
