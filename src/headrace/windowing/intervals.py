"""Windows as arithmetic on time, for a whole column of timestamps at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace.windowing.windows import TimeWindow

if TYPE_CHECKING:
    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


class Assignment(NamedTuple):
    """Pairs of a record and a window it belongs to, by record, and the newest window of a record first.

    Attributes:
        records: position of the record of each pair.
        ends: end of the window of each pair.
        is_identity: whether every record has exactly one window, so that ``records`` is ``0, 1, 2, …``.
    """

    records: Longs
    ends: Longs
    is_identity: bool

    def where(self, mask: Mask) -> Assignment:
        """The pairs where ``mask`` is true."""
        return Assignment(self.records[mask], self.ends[mask], False)


@dataclass(frozen=True, slots=True)
class AlignedWindows:
    """Windows of one size that start at every ``slide``: tumbling when the two are equal, sliding otherwise.

    A timestamp belongs to every window ``[s, s + size)`` with ``s = offset (mod slide)`` and ``s <= ts < s + size``.
    The start of the newest one is ``ts - floormod(ts - offset, slide)``, right for negative timestamps as well.

    Attributes:
        size: length of a window in milliseconds.
        slide: distance between two starts in milliseconds.
        offset: shift of all starts in milliseconds; ``|offset| < slide``.
    """

    size: int
    slide: int
    offset: int = 0

    @property
    def per_timestamp(self) -> int:
        """How many windows a timestamp belongs to at most; one less where the size is no multiple of the slide."""
        return -(-self.size // self.slide)

    def windows_of(self, timestamp: int) -> list[TimeWindow]:
        """The windows of a timestamp, newest first."""
        newest = timestamp - (timestamp - self.offset) % self.slide
        return [TimeWindow(start, start + self.size) for start in range(newest, timestamp - self.size, -self.slide)]

    def assign(self, timestamps: Longs) -> Assignment:
        """The windows of every timestamp."""
        newest = timestamps - (timestamps - self.offset) % self.slide
        everyone = np.arange(len(timestamps))
        if self.size == self.slide:
            return Assignment(everyone, newest + self.size, True)
        starts = newest[:, None] - np.arange(self.per_timestamp) * self.slide
        belongs = starts > (timestamps - self.size)[:, None]
        records = np.broadcast_to(everyone[:, None], starts.shape)[belongs]
        return Assignment(records, starts[belongs] + self.size, False)
