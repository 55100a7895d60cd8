"""Which records have been matched, of those that an outer join would show without a partner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

    from headrace.state.runs.sections import Section

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


class MatchedRows:
    """The rows of some sections of the inputs that have been matched; noted while pairs are found.

    Args:
        sources: of each input the sections.
        sides: the inputs that are asked for.
    """

    def __init__(self, sources: Sequence[Sequence[Section]], sides: Collection[int]) -> None:
        self._sources = sources
        self._sides = sides
        self._found: dict[tuple[int, int], Mask] = {}

    def add(self, side: int, number: int, rows: Longs) -> None:
        """Rows of a section of one input have been matched."""
        if side in self._sides and len(rows):
            if (side, number) not in self._found:
                self._found[side, number] = np.zeros(self._sources[side][number].rows, np.bool_)
            self._found[side, number][rows] = True

    def rows(self, side: int, number: int) -> Longs:
        """The rows of a section that have been matched."""
        found = self._found.get((side, number))
        return np.empty(0, np.int64) if found is None else np.flatnonzero(found)

    def are_unmatched(self, side: int, numbers: Longs, rows: Longs) -> Mask:
        """Which of some rows, each of a section with a number, have not been matched so far."""
        unmatched = np.ones(len(rows), np.bool_)
        for number in range(len(self._sources[side])):
            found = self._found.get((side, number))
            if found is not None:
                own = np.flatnonzero(numbers == number)
                unmatched[own] = ~found[rows[own]]
        return unmatched
