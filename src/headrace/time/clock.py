"""Clocks: the only places where the wall clock is read, and the ones that tests turn by hand."""

import time
from typing import Final, Protocol

_RUNNING_ON: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that is never set, and goes on while the machine sleeps, which on Linux the monotonic clock does not."""


class Clock(Protocol):
    """Tells processing time."""

    def now(self) -> int:
        """Milliseconds since the epoch; never less than the call before."""


class SystemClock:
    """The machine's clock, anchored once and continued by a monotonic one, so that it never goes back.

    Args:
        not_before: the last reading of an earlier life of the job; this clock starts no earlier.
    """

    def __init__(self, not_before: int = 0) -> None:
        self._anchor = max(time.time_ns() // 1_000_000, not_before)
        self._start = time.clock_gettime_ns(_RUNNING_ON)

    def now(self) -> int:
        return self._anchor + (time.clock_gettime_ns(_RUNNING_ON) - self._start) // 1_000_000


class ManualClock:
    """A clock that stands still until it is set."""

    def __init__(self, now: int = 0) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def set(self, now: int) -> None:
        """Turn the clock to ``now``.

        Raises:
            ValueError: when that would turn it back.
        """
        if now < self._now:
            raise ValueError(f"a clock cannot go back: it shows {self._now}, not {now}")
        self._now = now

    def advance(self, millis: int) -> None:
        """Turn the clock forward."""
        self.set(self._now + millis)
