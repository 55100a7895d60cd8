"""Interval joins in plain Python, pair by pair, after the rules of Flink's ``IntervalJoinOperator``."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.common.constants import MIN_WATERMARK

LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class Arrival:
    """A record.

    Attributes:
        side: its input.
        key: its key.
        number: what tells it from others.
        time: its timestamp.
        watermark: the watermark that it met.
    """

    side: int
    key: str
    number: int
    time: int
    watermark: int = MIN_WATERMARK

    @property
    def is_late(self) -> bool:
        """Whether it came too late."""
        return self.watermark != MIN_WATERMARK and self.time < self.watermark


def pairs_of(arrivals: list[Arrival], lower: int, upper: int) -> list[tuple[int, int, int]]:
    """The numbers of left and right record and the timestamp of each match, sorted."""
    on_time = [arrival for arrival in arrivals if not arrival.is_late]
    return sorted(
        (left.number, right.number, max(left.time, right.time))
        for left in on_time
        for right in on_time
        if (left.side, right.side) == (LEFT, RIGHT) and left.key == right.key
        if left.time + lower <= right.time <= left.time + upper
        if _met(left, right, lower, upper)
    )


def lonely_of(arrivals: list[Arrival], side: int, lower: int, upper: int) -> list[tuple[int, int]]:
    """The numbers of the records of one input that nobody has matched, and when that is sure, sorted."""
    found = {pair[side] for pair in pairs_of(arrivals, lower, upper)}
    alone = (arrival for arrival in arrivals if arrival.side == side and not arrival.is_late)
    kept = _kept(side, lower, upper)
    return sorted((arrival.number, arrival.time + kept) for arrival in alone if arrival.number not in found)


def late_of(arrivals: list[Arrival], side: int) -> list[int]:
    """The numbers of the records of one input that came too late, sorted."""
    return sorted(arrival.number for arrival in arrivals if arrival.side == side and arrival.is_late)


def _met(left: Arrival, right: Arrival, lower: int, upper: int) -> bool:
    """Whether the earlier record was still kept when the later one came: its timer fires when the watermark rises."""
    earlier, later = sorted((left, right), key=lambda arrival: arrival.watermark)
    cleanup = earlier.time + _kept(earlier.side, lower, upper)
    return earlier.watermark == later.watermark or later.watermark < cleanup


def _kept(side: int, lower: int, upper: int) -> int:
    return max(0, upper if side == LEFT else -lower)
