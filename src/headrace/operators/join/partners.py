"""Which records have found a partner, of those that an outer join would show without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

    from headrace.state.runs.sections import Section

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


class Partners:
    """Notes it for the rows of some sections of the inputs, while pairs are found.

    Args:
        sources: of each input the sections.
        sides: the inputs that are asked for.
    """

    def __init__(self, sources: Sequence[Sequence[Section]], sides: Collection[int]) -> None:
        self._sources = sources
        self._sides = sides
        self._found: dict[tuple[int, int], Mask] = {}

    def add(self, side: int, number: int, rows: Longs) -> None:
        """Rows of a section of one input have found partners."""
        if side in self._sides and len(rows):
            if (side, number) not in self._found:
                self._found[side, number] = np.zeros(self._sources[side][number].rows, np.bool_)
            self._found[side, number][rows] = True

    def rows(self, side: int, number: int) -> Longs:
        """The rows of a section that have found partners."""
        found = self._found.get((side, number))
        return np.empty(0, np.int64) if found is None else np.flatnonzero(found)

    def are_alone(self, side: int, numbers: Longs, rows: Longs) -> Mask:
        """Which of some rows, each of a section with a number, have not found any so far."""
        alone = np.ones(len(rows), np.bool_)
        for number in range(len(self._sources[side])):
            found = self._found.get((side, number))
            if found is not None:
                own = np.flatnonzero(numbers == number)
                alone[own] = ~found[rows[own]]
        return alone
