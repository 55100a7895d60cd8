"""The interval of an interval join: which times match, and for how long a record may still be matched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LEFT: Final = 0
RIGHT: Final = 1
"""The inputs of a join."""

SIDES: Final = ("left", "right")
"""What these are called."""


@dataclass(frozen=True, slots=True)
class JoinInterval:
    """``right.time`` has to be from ``left.time + lower`` to ``left.time + upper``; both are included.

    Attributes:
        lower: milliseconds, at most ``upper``.
        upper: milliseconds.
    """

    lower: int
    upper: int

    @property
    def reach(self) -> int:
        """How far two records of a pair may be from each other, at most."""
        return max(abs(self.lower), abs(self.upper))

    def seen_from(self, side: int) -> tuple[int, int]:
        """From where to where the times of the other input's records are that match one of ``side`` at time 0."""
        return (self.lower, self.upper) if side == LEFT else (-self.upper, -self.lower)

    def kept(self, side: int) -> int:
        """For how long after its time a record of ``side`` is kept: no record that is not late matches it then.

        As in Flink it goes when the watermark reaches the end of that, also where a record that meets this very
        watermark would match.
        """
        return max(self.seen_from(side)[1], 0)
