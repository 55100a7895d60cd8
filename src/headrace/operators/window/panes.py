"""Panes: stretches of event time that overlapping windows share.

All timestamps of a pane belong to the same windows. So records are added up by pane and key, once each, and a window is
the merge of its panes: a window of an hour that slides by a minute would otherwise make sixty rows of every record.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Final

import numpy as np

from headrace.windowing.intervals import AlignedWindows, Assignment

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.operators.window.accumulators import Accumulators

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

_FINEST: Final = 4
"""Panes of less than this part of the slide hold too few records to be worth it (a window of 10 s every 2.999 s)."""


class Panes:
    """The panes of windows that overlap.

    Windows follow one another: of two, the one that ends later starts no earlier.

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

    def last_ends(self, timestamps: Longs) -> Longs:
        """The end of the newest window of each timestamp."""
        windows = self._windows
        return timestamps - (timestamps - windows.offset) % windows.slide + windows.size

    def end_above(self, time: int) -> int:
        """The end of the first window that ends above a time; it is the earliest window of that timestamp."""
        windows = self._windows
        return time + windows.slide - (time - windows.size - windows.offset) % windows.slide

    def starts_of(self, ends: Longs) -> Longs:
        """Where windows start, which are given by their ends."""
        return ends - self._windows.size

    def start_of(self, end: int) -> int:
        """Where the window with an end starts."""
        return end - self._windows.size

    def between(self, starts: Longs, ends: Longs) -> tuple[Longs, Longs]:
        """The panes within each of some stretches of time, as positions of the stretches and ends of the panes."""
        counts = (ends - starts) // self.length
        stretches = np.repeat(np.arange(len(counts)), counts)
        numbers = np.arange(len(stretches)) - np.repeat(np.cumsum(counts) - counts, counts)
        return stretches, starts[stretches] + (numbers + 1) * self.length

    def spread(self, panes: Accumulators, rows: int) -> Iterator[Accumulators]:
        """Rows of panes as rows of windows, in no particular order.

        Args:
            panes: the rows.
            rows: about how many are made at a time.
        """
        step = max(1, rows // self._windows.per_timestamp)
        for start in range(0, len(panes), step):
            piece = panes.slice(start, min(start + step, len(panes)))
            yield piece.spread(self.windows_of(piece.ends))
