"""Ratios of what was measured in pairs, and how far they can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, inf
from statistics import median

_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """The median of ratios, which no single disturbance moves.

    Attributes:
        value: the median.
        low: the lower end of its confidence interval of 95 %.
        high: the upper end.
        pairs: the number of pairs.
    """

    value: float
    low: float
    high: float
    pairs: int

    @property
    def uncertainty(self) -> float:
        """How far the median may be off."""
        return max(self.value - self.low, self.high - self.value)

    def __str__(self) -> str:
        return f"{self.value:.3f} (95 %: {self.low:.3f} to {self.high:.3f}, {self.pairs} pairs)"


def paired_ratio(ones: Sequence[float], others: Sequence[float]) -> PairedRatio:
    """The ratio of two series of which the values at one place were measured next to each other.

    Nothing is assumed of how ratios are spread: the ends of the interval are two of them, as the binomial distribution
    says. Of fewer than six pairs no interval is known.
    """
    ratios = sorted(one / other for one, other in zip(ones, others, strict=True))
    rank = _rank(len(ratios))
    low, high = (0.0, inf) if rank is None else (ratios[rank], ratios[-1 - rank])
    return PairedRatio(median(ratios), low, high, len(ratios))


def _rank(count: int) -> int | None:
    """How many values are below the interval and how many above it; None where all of them are not enough."""
    rank, outside = None, 0.0
    for below in range((count + 1) // 2):
        outside += 2 * comb(count, below) / 2**count
        if outside > 1 - _CONFIDENCE:
            break
        rank = below
    return rank
