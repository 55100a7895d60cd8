"""How far the inputs of an operator have come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

EXCHANGE: Final = -1
"""Stands for all exchanged edges of an operator together: the receiver has merged them."""


class Inputs:
    """The inputs of one operator, as far as they are not idle."""

    def __init__(self) -> None:
        self._reached: dict[int, int] = {}

    def begin(self, reached: Mapping[int, int]) -> None:
        """Start of an epoch, or of a piece of a split: every input has come so far."""
        self._reached = dict(reached)

    def __contains__(self, source: int) -> bool:
        return source in self._reached

    def advance(self, source: int, watermark: int) -> None:
        """One input has come so far; an idle one has no say."""
        if source in self._reached:
            self._reached[source] = max(watermark, self._reached[source])

    def slowest(self) -> int:
        """What all have reached."""
        return min(self._reached.values())

    def slowest_but(self, sources: Container[int]) -> int | None:
        """What all others have reached; None where there are no others."""
        return min((reached for source, reached in self._reached.items() if source not in sources), default=None)
