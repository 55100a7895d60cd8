"""Local times of a time zone, so that windows of a day start at midnight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import fixed_width
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK

Longs = npt.NDArray[np.int64]

_HOUR: Final = 3_600_000
_LIMIT: Final = 200_000 * 366 * 24 * _HOUR
"""Times beyond this have no date and stay as they are: the first and the last watermark."""


@dataclass(frozen=True, slots=True)
class LocalTime:
    """The clock of a time zone; without one, times are local already.

    Windows end when the watermark reaches their end in local time. Where the clock is put back and an hour occurs
    twice, that is the second time.

    Attributes:
        zone: the name of the zone; None for no zone.
    """

    zone: str | None = None

    @property
    def is_plain(self) -> bool:
        """Return whether the clock is that of UTC, or there is none."""
        return self.zone in (None, "UTC", "Z", "Etc/UTC", "GMT")

    def of(self, times: Longs) -> Longs:
        """Local times, in milliseconds."""
        return times if self.is_plain else times + self._offsets(times)

    def reached(self, watermarks: Longs) -> Longs:
        """The latest local time that a window may end at, less 1, when event time has come to watermarks."""
        if self.is_plain:
            return watermarks
        local = watermarks + self._offsets(watermarks)
        ahead = self._offsets(np.minimum(watermarks, _LIMIT) + _HOUR)
        is_repeated = ahead < self._offsets(watermarks)
        found: Longs = np.where(is_repeated, local // _HOUR * _HOUR - 1, local)
        return np.maximum.accumulate(found) if len(found) else found

    def back(self, local: Longs) -> Longs:
        """The timestamps of local times: the later one where a local time occurs twice."""
        if self.is_plain:
            return local
        known = np.abs(local) < _LIMIT
        clock = pa.array(np.where(known, local, 0)).cast(pa.timestamp("ms"))
        shown = pc.assume_timezone(clock, self.zone, ambiguous="latest", nonexistent="latest")
        found: Longs = np.where(known, fixed_width(shown.cast(pa.int64())), local)
        return found

    def _offsets(self, times: Longs) -> Longs:
        known = (np.abs(times) < _LIMIT) & (times != MIN_WATERMARK) & (times != MAX_WATERMARK)
        moments = pa.array(np.where(known, times, 0)).cast(pa.timestamp("ms", self.zone))
        local = fixed_width(pc.local_timestamp(moments).cast(pa.int64()))
        found: Longs = np.where(known, local - np.where(known, times, 0), 0)
        return found
