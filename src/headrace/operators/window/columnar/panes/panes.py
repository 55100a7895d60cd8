"""Panes: stretches of event time that overlapping windows share.

All timestamps of a pane belong to the same windows. So records are added up by pane and key, once each, and a window is
the merge of its panes: a window of an hour that slides by a minute would otherwise make sixty rows of every record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.operators.window.columnar.accumulators import Accumulators
    from headrace.windowing.intervals import AlignedWindows, Assignment, RegularWindows

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


class Panes:
    """The panes of windows that overlap.

    Args:
        windows: the windows.
        pane: their panes.

    Attributes:
        length: how long a pane is, in milliseconds.
    """

    def __init__(self, windows: RegularWindows, pane: AlignedWindows) -> None:
        self.length = pane.size
        self._windows = windows
        self._pane = pane

    @staticmethod
    def of(windows: RegularWindows) -> Panes | None:
        """The panes of windows; None where they would save nothing."""
        pane = windows.pane
        return None if pane is None else Panes(windows, pane)

    @property
    def as_windows(self) -> AlignedWindows:
        """The panes as windows that do not overlap."""
        return self._pane

    def assign(self, timestamps: Longs) -> Assignment:
        """Each timestamp with the end of its pane."""
        return self._pane.assign(timestamps)

    def windows_of(self, ends: Longs) -> Assignment:
        """The windows of panes, which are given by their ends."""
        return self._windows.assign(ends - 1)

    def are_on_time(self, timestamps: Longs, watermarks: Longs) -> Mask:
        """Whether none of a record's windows has ended: whether its earliest one has not."""
        return self._windows.first_ends(timestamps) - 1 > watermarks

    def end_above(self, time: int) -> int:
        """The end of the first window that ends above a time; it is the earliest window of that timestamp."""
        return self._windows.first_ends(time)

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
