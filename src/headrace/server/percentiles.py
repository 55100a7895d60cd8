"""Percentiles of a few numbers, for which Python itself is faster than an array."""

from collections.abc import Sequence


def percentile(ordered: Sequence[int], part: float) -> float:
    """The number below which so many per cent of others are; between two of them in proportion.

    Args:
        ordered: the numbers, the smallest one first; at least one.
        part: how many per cent.
    """
    place = (len(ordered) - 1) * part / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
