"""Windows as arithmetic on times, and on counts, for a whole column of records at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import gcd
from typing import ClassVar, Final, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.state.keyed.namespaces import GivenNamespace
from headrace.windowing.windows import LONGEST, TimeWindow, TimeWindowSerializer

Mask = npt.NDArray[np.bool_]

Longs = npt.NDArray[np.int64]
Times = TypeVar("Times", int, Longs)
"""One time in milliseconds, or a column of them."""

_FINEST: Final = 4
"""Panes of less than this part of the slide hold too few records to be worth it (a window of 10 s every 2.999 s)."""


_MANY: Final = 4096
"""For fewer timestamps it takes longer to find out that they have one window than to compute each one's."""


class Assignment(NamedTuple):
    """Pairs of a record and a window it belongs to, by record, and in the order in which assigners give them.

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

    def among(self, rows: Longs) -> Assignment:
        """The same pairs, given that the records are those at ``rows`` of others."""
        return Assignment(rows[self.records], self.ends, False)


def _aligned(times: Times, step: int, offset: int) -> Times:
    """The multiple of ``step``, shifted by ``offset``, that is the last one not above each time.

    Right for negative times as well; numpy divides a column in a sixth of the time that remainders take it.
    """
    return (times - offset) // step * step + offset


class RegularWindows(ABC):
    """Windows that follow from the timestamp alone. Of two, the one that ends later starts no earlier."""

    __slots__ = ()

    @property
    @abstractmethod
    def per_timestamp(self) -> int:
        """Return how many windows a timestamp belongs to at most."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """Return how far from a timestamp its windows, and what is computed for them, may lie, in milliseconds."""

    @property
    @abstractmethod
    def pane(self) -> AlignedWindows | None:
        """The panes: stretches of time whose timestamps belong to the same windows; None where they save nothing."""

    @property
    @abstractmethod
    def stretch(self) -> int:
        """Return how long a stretch of time is whose timestamps belong to the same windows, or to the same pane."""

    @property
    @abstractmethod
    def shape(self) -> dict[str, int | str]:
        """The description that is stored with the contents of the windows, which other shapes must not take over."""

    @abstractmethod
    def assign(self, timestamps: Longs) -> Assignment:
        """The windows of every timestamp."""

    @abstractmethod
    def starts_of(self, ends: Times) -> Times:
        """Return where windows start, which are given by their ends."""

    @abstractmethod
    def first_ends(self, timestamps: Times) -> Times:
        """The ends of the earliest windows of timestamps, which are in a window."""

    @abstractmethod
    def last_ends(self, timestamps: Times) -> Times:
        """The ends of the newest windows of timestamps, which are in a window."""


@dataclass(frozen=True, slots=True)
class AlignedWindows(RegularWindows):
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
        """Return how many windows a timestamp belongs to at most; one less where the slide does not divide the size."""
        return -(-self.size // self.slide)

    @property
    def reach(self) -> int:
        return min(self.per_timestamp * self.slide + abs(self.offset), LONGEST)

    @property
    def pane(self) -> AlignedWindows | None:
        length = gcd(self.size, self.slide)
        if self.size <= self.slide or self.slide > _FINEST * length:
            return None
        return AlignedWindows(length, length, self.offset % length)

    @property
    def stretch(self) -> int:
        pane = self.pane
        return self.slide if pane is None else pane.size

    @property
    def shape(self) -> dict[str, int | str]:
        return {"size": self.size, "slide": self.slide, "offset": self.offset % self.slide}

    def starts_of(self, ends: Times) -> Times:
        return ends - self.size

    def first_ends(self, timestamps: Times) -> Times:
        return _aligned(timestamps - self.size, self.slide, self.offset) + self.size + self.slide

    def last_ends(self, timestamps: Times) -> Times:
        return _aligned(timestamps, self.slide, self.offset) + self.size

    def windows_of(self, timestamp: int) -> list[TimeWindow]:
        """The windows of a timestamp, newest first."""
        newest = _aligned(timestamp, self.slide, self.offset)
        return [TimeWindow(start, start + self.size) for start in range(newest, timestamp - self.size, -self.slide)]

    def assign(self, timestamps: Longs) -> Assignment:
        everyone = np.arange(len(timestamps))
        if self.size == self.slide:
            return Assignment(everyone, self._ends_of(timestamps), True)
        newest = _aligned(timestamps, self.slide, self.offset)
        starts = newest[:, None] - np.arange(self.per_timestamp) * self.slide
        belongs = starts > (timestamps - self.size)[:, None]
        records = np.broadcast_to(everyone[:, None], starts.shape)[belongs]
        return Assignment(records, starts[belongs] + self.size, False)

    def _ends_of(self, timestamps: Longs) -> Longs:
        """The end of each timestamp's only window; one figure that is repeated where it is the same window for all."""
        if len(timestamps) >= _MANY:
            bounds = np.array([timestamps.min(), timestamps.max()])
            first, last = self.last_ends(bounds)
            if first == last and int(bounds[1]) - int(bounds[0]) < self.size:
                return np.broadcast_to(first, len(timestamps))
        return self.last_ends(timestamps)


@dataclass(frozen=True, slots=True)
class OneWindow(RegularWindows):
    """The one window of global windows; its end is as good as the end of time."""

    END: ClassVar[int] = MAX_WATERMARK - 1

    @property
    def per_timestamp(self) -> int:
        return 1

    @property
    def reach(self) -> int:
        return 0

    @property
    def pane(self) -> None:
        return None

    @property
    def stretch(self) -> int:
        return self.END

    @property
    def shape(self) -> dict[str, int | str]:
        return {"size": "without end", "slide": "without end", "offset": 0}

    def assign(self, timestamps: Longs) -> Assignment:
        return Assignment(np.arange(len(timestamps)), np.full(len(timestamps), self.END), True)

    def starts_of(self, ends: Times) -> Times:
        return ends - ends + MIN_WATERMARK

    def first_ends(self, timestamps: Times) -> Times:
        return timestamps - timestamps + self.END

    def last_ends(self, timestamps: Times) -> Times:
        return timestamps - timestamps + self.END


@dataclass(frozen=True, slots=True)
class GrowingWindows(RegularWindows):
    """Windows that begin together and grow by a step up to a size, after which the next ones begin.

    Attributes:
        size: length of the largest window in milliseconds; a multiple of ``step``.
        step: by how much a window is longer than the one before, in milliseconds.
        offset: shift of all starts in milliseconds; ``|offset| < size``.
    """

    size: int
    step: int
    offset: int = 0

    @property
    def per_timestamp(self) -> int:
        return self.size // self.step

    @property
    def reach(self) -> int:
        return min(self.size + abs(self.offset), LONGEST)

    @property
    def pane(self) -> AlignedWindows | None:
        return AlignedWindows(self.step, self.step, self.offset % self.step)

    @property
    def stretch(self) -> int:
        return self.step

    @property
    def shape(self) -> dict[str, int | str]:
        return {"size": self.size, "slide": f"steps of {self.step}", "offset": self.offset % self.size}

    def assign(self, timestamps: Longs) -> Assignment:
        first, last = self.first_ends(timestamps), self.last_ends(timestamps)
        counts = (last - first) // self.step + 1
        records = np.repeat(np.arange(len(timestamps)), counts)
        numbers = np.arange(len(records)) - np.repeat(np.cumsum(counts) - counts, counts)
        return Assignment(records, first[records] + numbers * self.step, False)

    def starts_of(self, ends: Times) -> Times:
        return _aligned(ends - 1, self.size, self.offset)

    def first_ends(self, timestamps: Times) -> Times:
        return _aligned(timestamps, self.step, self.offset) + self.step

    def last_ends(self, timestamps: Times) -> Times:
        return _aligned(timestamps, self.size, self.offset) + self.size


@dataclass(frozen=True, slots=True)
class GivenWindows(RegularWindows):
    """Windows that records say themselves: the timestamp of each is the last moment of its only window.

    Attributes:
        windows: what follows from the end of a window.
    """

    windows: RegularWindows

    @property
    def per_timestamp(self) -> int:
        return 1

    @property
    def reach(self) -> int:
        return self.windows.reach

    @property
    def pane(self) -> None:
        return None

    @property
    def stretch(self) -> int:
        return 1

    @property
    def shape(self) -> dict[str, int | str]:
        return self.windows.shape

    def assign(self, timestamps: Longs) -> Assignment:
        return Assignment(np.arange(len(timestamps)), timestamps + 1, True)

    def starts_of(self, ends: Times) -> Times:
        return self.windows.starts_of(ends)

    def first_ends(self, timestamps: Times) -> Times:
        return timestamps + 1

    def last_ends(self, timestamps: Times) -> Times:
        return timestamps + 1


@dataclass(frozen=True, slots=True)
class CountPanes:
    """Windows of so many records of which one begins at every so many, and the panes that they share.

    Between two places at which a window begins, or ends, all records of a key belong to the same windows: that is a
    pane. Panes are numbered: one begins where a window does, and one more where windows end in between, if they do.

    Attributes:
        size: how many records a window holds.
        slide: how many records after one window the next one begins.
    """

    size: int
    slide: int

    @property
    def per_slide(self) -> int:
        """Return how many panes there are for each beginning of a window."""
        return 2 if self.size % self.slide else 1

    @property
    def per_window(self) -> int:
        """Return how many panes a window has."""
        return self.size // self.slide * self.per_slide + self.per_slide - 1

    def of(self, places: Longs) -> Longs:
        """The pane of each place among the records of a key; places count from 0."""
        numbers = places // self.slide
        return numbers if self.per_slide == 1 else 2 * numbers + (places % self.slide >= self.size % self.slide)

    def begin_at(self, places: Longs) -> Mask:
        """Return whether a pane begins at each place."""
        rest = places % self.slide
        begins: Mask = rest == 0
        return begins if self.per_slide == 1 else begins | (rest == self.size % self.slide)

    @property
    def are_windows(self) -> bool:
        """Return whether each pane is a window, and every record is in one."""
        return self.size == self.slide

    @property
    def have_gaps(self) -> bool:
        """Return whether some records lie between two windows."""
        return self.slide > self.size

    @property
    def step(self) -> int:
        """By how much the numbers of the panes that a key has rise from one to the next."""
        return 2 if self.have_gaps else 1

    def are_in_window(self, places: Longs) -> Mask:
        """Return whether any window has a record in each place."""
        return np.asarray(places % self.slide < self.size)

    def first_open(self, records: Longs) -> Longs:
        """The first window that is not full, of keys that have had so many records."""
        return np.maximum((records - self.size) // self.slide + 1, 0)


@dataclass(frozen=True, slots=True)
class SessionGap:
    """Sessions with one gap for all records.

    Attributes:
        gap: how long after its last record a session ends, in milliseconds.
    """

    gap: int


@dataclass(frozen=True, slots=True)
class FiringInterval:
    """The times at which windows of time fire before they end.

    Attributes:
        length: how long after a result the next one is due, in milliseconds.
        by_clock: whether that is time of the clock, not event time.
    """

    length: int
    by_clock: bool


ColumnarWindows = RegularWindows | SessionGap | CountPanes
"""Windows whose records are found column by column."""


class EndSerializer(TimeWindowSerializer):
    """The serializer of windows that follow from their ends; the namespace is the end.

    Args:
        intervals: the windows.

    Examples:
        >>> from headrace.windowing.intervals import AlignedWindows
        >>> EndSerializer(AlignedWindows(10, 10)).window_of(20)
        TimeWindow(start=10, end=20)
    """

    def __init__(self, intervals: RegularWindows) -> None:
        self._intervals = intervals

    def namespace_of(self, window: TimeWindow) -> GivenNamespace:
        return window.end

    def window_of(self, namespace: GivenNamespace) -> TimeWindow:
        end = cast("int", namespace)
        return TimeWindow(self._intervals.starts_of(end), end)
