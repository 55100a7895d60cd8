"""Panes: stretches of event time that overlapping windows share.

All timestamps of a pane belong to the same windows. So records that are on time for all their windows are added up by
pane and key first, once each, and only the accumulators are spread over the windows: a window of an hour that slides
by a minute would otherwise make sixty rows of every record.

What a window holds, and what is in state, are rows of windows as ever. Records that are late for some of their windows
go there directly, each to the windows that still take it.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.windowing.intervals import AlignedWindows, Assignment

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from headrace.operators.window.accumulators import Accumulators, Chunk

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

Spreadable = TypeVar("Spreadable", "Chunk", "Accumulators")
"""Rows that have the end of a pane, or of a window."""

_FINEST: Final = 4
"""Panes of less than this part of the slide hold too few records to be worth it (a window of 10 s every 2.999 s)."""


class Panes:
    """The panes of windows that overlap.

    Args:
        windows: the windows.

    Attributes:
        length: how long a pane is, in milliseconds.
    """

    def __init__(self, windows: AlignedWindows) -> None:
        self.length = gcd(windows.size, windows.slide)
        self._windows = windows
        self._panes = AlignedWindows(self.length, self.length, windows.offset % self.length)

    @staticmethod
    def of(windows: AlignedWindows) -> Panes | None:
        """The panes of windows; None where they would save nothing."""
        if windows.size <= windows.slide or windows.slide > _FINEST * gcd(windows.size, windows.slide):
            return None
        return Panes(windows)

    def of_timestamps(self, timestamps: Longs) -> Assignment:
        """Each timestamp with the end of its pane."""
        return self._panes.assign(timestamps)

    def windows_of(self, ends: Longs) -> Assignment:
        """The windows of panes, which are given by their ends."""
        return self._windows.assign(ends - 1)

    def are_on_time(self, timestamps: Longs, watermarks: Longs) -> Mask:
        """Whether none of a record's windows has ended: whether its earliest one has not."""
        return self.first_ends(timestamps) - 1 > watermarks

    def first_ends(self, timestamps: Longs) -> Longs:
        """The end of the earliest window of each timestamp."""
        windows = self._windows
        return timestamps + windows.slide - (timestamps - windows.size - windows.offset) % windows.slide

    def spread(self, panes: Spreadable, rows: int) -> Iterator[Spreadable]:
        """Rows of panes as rows of windows, in no particular order.

        Args:
            panes: the rows.
            rows: about how many are made at a time.
        """
        step = max(1, rows // self._windows.per_timestamp)
        for start in range(0, len(panes), step):
            piece = panes.slice(start, min(start + step, len(panes)))
            yield piece.spread(self.windows_of(piece.ends))
