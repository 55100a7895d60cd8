"""Windows of event time: ``TimeWindow`` and the assigners that put a timestamp into windows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.common.errors import InvalidProgramError
from headrace.common.time import to_millis
from headrace.common.tracebacks import hides_engine_of_methods

if TYPE_CHECKING:
    from datetime import timedelta

    from headrace.common.time import Duration, Time


@dataclass(frozen=True, slots=True, order=True)
class TimeWindow:
    """The half-open interval ``[start, end)`` of event time, in milliseconds.

    Examples:
        >>> from headrace.datastream.window import TimeWindow
        >>> minute = TimeWindow(60_000, 120_000)
        >>> minute.start, minute.max_timestamp()
        (60000, 119999)
    """

    start: int
    end: int

    def max_timestamp(self) -> int:
        """The largest timestamp that belongs to the window: ``end - 1``."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the two windows overlap or touch (Flink merges sessions that merely touch)."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that holds both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """The start of the window of a timestamp, among windows of one size that follow one another."""
        return timestamp - (timestamp - offset) % window_size


class WindowAssigner(ABC):
    """Puts an element into windows.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.window import TumblingEventTimeWindows, WindowAssigner
        >>> isinstance(TumblingEventTimeWindows.of(Time.hours(1)), WindowAssigner)
        True
    """

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether the windows are windows of event time."""


@dataclass(frozen=True, slots=True)
class AlignedWindows(WindowAssigner):
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

    def is_event_time(self) -> bool:
        return True

    def last_start(self, timestamp: int) -> int:
        """The start of the newest window that could hold ``timestamp``."""
        return timestamp - (timestamp - self.offset) % self.slide

    def assign_windows(self, timestamp: int) -> list[TimeWindow]:
        """The windows of a timestamp, newest first."""
        first = self.last_start(timestamp)
        starts = range(first, timestamp - self.size, -self.slide)
        return [TimeWindow(start, start + self.size) for start in starts]

    def __str__(self) -> str:
        kind = "Tumbling" if self.size == self.slide else "Sliding"
        lengths = [self.size] if self.size == self.slide else [self.size, self.slide]
        lengths += [self.offset] if self.offset else []
        return f"{kind}EventTimeWindows({', '.join(f'{length} ms' for length in lengths)})"


@hides_engine_of_methods
class TumblingEventTimeWindows:
    """Windows of equal length that follow one another without gap or overlap.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> hours = TumblingEventTimeWindows.of(Time.hours(1), offset=Time.minutes(15))
    """

    @staticmethod
    def of(size: Time | Duration | timedelta | int, offset: Time | Duration | timedelta | int = 0) -> AlignedWindows:
        """Windows ``[k * size + offset, (k + 1) * size + offset)``.

        Args:
            size: the length of a window; a number is milliseconds.
            offset: a shift, for days of a local time zone say (-8 hours for UTC+8); smaller than ``size``.

        Raises:
            InvalidProgramError: when ``size`` is not positive or ``|offset| >= size``.
        """
        length, shift = to_millis(size), to_millis(offset)
        if length <= 0 or abs(shift) >= length:
            raise InvalidProgramError(
                f"TumblingEventTimeWindows needs size > 0 and |offset| < size, not size={length} ms, offset={shift} ms"
            )
        return AlignedWindows(length, length, shift)


@hides_engine_of_methods
class SlidingEventTimeWindows:
    """Windows of equal length that start at regular distances and may overlap.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.window import SlidingEventTimeWindows
        >>> last_ten_minutes = SlidingEventTimeWindows.of(Time.minutes(10), Time.minutes(1))
    """

    @staticmethod
    def of(
        size: Time | Duration | timedelta | int,
        slide: Time | Duration | timedelta | int,
        offset: Time | Duration | timedelta | int = 0,
    ) -> AlignedWindows:
        """Windows ``[k * slide + offset, k * slide + offset + size)``.

        Args:
            size: the length of a window; a number is milliseconds. It need not be a multiple of ``slide``.
            slide: the distance between two starts; larger than ``size`` leaves gaps.
            offset: a shift smaller than ``slide``.

        Raises:
            InvalidProgramError: when ``size`` or ``slide`` is not positive or ``|offset| >= slide``.
        """
        length, step, shift = to_millis(size), to_millis(slide), to_millis(offset)
        if length <= 0 or step <= 0 or abs(shift) >= step:
            raise InvalidProgramError(
                "SlidingEventTimeWindows needs size > 0, slide > 0 and |offset| < slide, "
                f"not size={length} ms, slide={step} ms, offset={shift} ms"
            )
        return AlignedWindows(length, step, shift)
