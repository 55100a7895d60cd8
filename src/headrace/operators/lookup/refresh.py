"""When a table that is looked up as a whole is read again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_DAY: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Refresh:
    """Reads a table again in front of an epoch, by the clock of the job, in milliseconds.

    Attributes:
        interval: after what time; None for never.
        at: the time of the day in UTC at which it is read, where the interval is a number of days; None for any.
    """

    interval: int | None = None
    at: int | None = None

    def is_due(self, read_at: int, now: int) -> bool:
        """Return whether it is to be read again.

        Args:
            read_at: when it was read.
            now: the time.
        """
        if self.interval is None:
            return False
        if self.at is None:
            return now - read_at >= self.interval
        begun = read_at - (read_at - self.at) % _DAY
        return now >= begun + max(self.interval, _DAY)


NEVER: Final = Refresh()
"""The table is read once."""
