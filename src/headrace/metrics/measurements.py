"""What the metrics of one operator in one subtask have come to in an epoch, on the way to the driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Summary:
    """The values that a distribution was given.

    Attributes:
        count: how many.
        total: their sum.
        least: the smallest one.
        greatest: the largest one.
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
            min(self.least, other.least),
            max(self.greatest, other.greatest),
        )


@dataclass(frozen=True, slots=True)
class Measurements:
    """All metrics of an operator in a subtask; names have the names of their groups before them, with dots.

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
