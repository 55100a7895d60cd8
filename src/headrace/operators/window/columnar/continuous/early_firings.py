"""When windows fire that are shown again and again before they end, for many at once.

A window fires first at a time that its first record sets, then each time an interval has passed, and at its end. In
event time, a firing happens before the first record that meets its time as a watermark, or a later one: it shows the
records that came before that one. A time that had passed when the window got its first record is due at the next
advance. By the clock, firings happen when an epoch begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Firings:
    """Firings, window after window, and for each in the order in which they happen.

    Attributes:
        counts: how often each window fires.
        windows: which window each firing is of.
        times: for when it was due.
        places: how many records have come before it.
        next_times: when each window fires next; of one that has come to its end, its last timestamp.
    """

    counts: Longs
    windows: Longs
    times: Longs
    places: Longs
    next_times: Longs

    @cached_property
    def starts(self) -> Longs:
        """Where the firings of each window begin."""
        return _starts(self.counts)

    @cached_property
    def numbers(self) -> Longs:
        """How many firings of its window have happened before each."""
        return np.arange(len(self.windows)) - self.starts[self.windows]

    def before(self, windows: Longs, records: Longs) -> Longs:
        """How many firings of a window have happened before a record is added to it.

        Args:
            windows: the window of each record.
            records: how many records have come before it.
        """
        width = int(self.places.max(initial=0)) + 1
        places = self.windows * width + self.places
        asked = windows * width + np.minimum(records, width - 1)
        return np.searchsorted(places, asked, side="right") - self.starts[windows]


def first_times(interval: int, timestamps: Longs, lasts: Longs) -> Longs:
    """When windows fire first: at the multiple of the interval above a timestamp, or at the end if that comes before.

    Args:
        interval: milliseconds.
        timestamps: that of the first record of each window.
        lasts: the last timestamp of each window.
    """
    below = timestamps - timestamps % interval
    return np.where(lasts - below > interval, below + interval, lasts)


def first_times_of_clock(interval: int, now: int, lasts: Longs) -> Longs:
    """The same by the clock, which may have passed the ends of windows: those of event time go on firing then."""
    below = now - now % interval
    return np.where((lasts > below) & (lasts - below < interval), lasts, below + interval)


def find_firings(interval: int, lasts: Longs, next_times: Longs, known_at: Longs, watermarks: Longs) -> Firings:
    """The firings of windows on the way to a watermark.

    Args:
        interval: how long after a firing the next one is due, in milliseconds.
        lasts: the last timestamp of each window.
        next_times: when each fires next.
        known_at: the watermark in force when that became known; what is not above it is due when event time goes on.
        watermarks: those that the records meet, and at last the one that is reached; they do not fall.
    """
    reached = int(watermarks[-1])
    limits = np.minimum(lasts, reached)
    is_due = (next_times <= limits) & (known_at < reached)
    steps = np.where(is_due, limits - next_times, 0) // interval
    ends_apart = is_due & (limits == lasts) & (next_times + steps * interval < lasts)
    counts = np.where(is_due, steps + 1, 0) + ends_apart
    windows = np.repeat(np.arange(len(counts)), counts)
    numbers = np.arange(len(windows)) - _starts(counts)[windows]
    is_end = numbers > steps[windows]
    times = np.where(is_end, lasts[windows], next_times[windows] + np.where(is_end, 0, numbers) * interval)
    places = np.searchsorted(watermarks, np.maximum(times, known_at[windows] + 1))
    last_times = next_times + steps * interval
    left = lasts - last_times
    following = np.where(left > interval, last_times + np.where(left > interval, interval, 0), lasts)
    return Firings(counts, windows, times, places, np.where(is_due, following, next_times))


def find_firings_of_clock(interval: int, lasts: Longs, next_times: Longs, now: int, *, stops: bool) -> Firings:
    """The firings of windows until the clock shows a time.

    Args:
        interval: how long after a firing the next one is due, in milliseconds.
        lasts: the last timestamp of each window.
        next_times: when each fires next.
        now: what the clock shows.
        stops: whether a window fires for the last time at its end; else it goes on, an interval after its end.
    """
    windows, times, next_times = [], [], next_times.copy()
    while len(due := np.flatnonzero((next_times <= now) & ~(stops & (next_times > lasts)))):
        time, last = next_times[due], lasts[due]
        windows.append(due)
        times.append(time)
        next_times[due] = np.where(time < last, np.minimum(time + interval, last), time + interval)
    of_firings = np.concatenate(windows) if windows else np.empty(0, np.int64)
    order = np.argsort(of_firings, kind="stable")
    due_times = np.concatenate(times)[order] if times else of_firings
    counts = np.bincount(of_firings, minlength=len(lasts))
    return Firings(counts, of_firings[order], due_times, np.zeros(len(order), np.int64), next_times)


def _starts(counts: Longs) -> Longs:
    return np.cumsum(counts) - counts
