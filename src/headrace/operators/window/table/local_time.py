"""Times of windowed rows, by the clock of a time zone, so that windows of a day start at midnight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import fixed_width
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.changelog.order import millis_of, places_of_values

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.operators.base import KeyedBatch

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


@dataclass(frozen=True, slots=True)
class WindowTime:
    """The time attribute of a windowed input.

    Attributes:
        field: the position of the column; None for processing time.
        name: its name, for errors.
        is_end: whether the column holds the end of the row's window, and not a time within.
        clock: the clock by which windows start and end.
        is_batch: whether rows without a time are dropped, as in batch mode, and not refused.
    """

    field: int | None
    name: str
    is_end: bool
    clock: LocalTime
    is_batch: bool = False

    def of(self, batch: Batch) -> Longs:
        """A local time within the window of each row."""
        if self.field is None:
            return batch.timestamps
        millis = millis_of(batch.columns.column(self.field), self.name)
        return millis - 1 if self.is_end else self.clock.of(millis)

    def present(self, batch: KeyedBatch) -> KeyedBatch:
        """The rows that are in windows."""
        if self.field is None or not self.is_batch:
            return batch
        column = batch.columns.column(self.field)
        return batch.take(places_of_values(column)) if column.null_count else batch

    def moved(self, batch: KeyedBatch) -> KeyedBatch:
        """Rows under the times and the watermarks of windows."""
        if self.clock.is_plain:
            return batch.with_timestamps(self.of(batch))
        return batch.with_times(self.of(batch), self.clock.reached(batch.watermarks))
