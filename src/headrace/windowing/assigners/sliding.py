"""Windows of equal length that start at regular distances and may overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.common.time import to_millis
from headrace.windowing.assigners.of_time import EventTimeAssigner, ProcessingTimeAssigner, TimeWindowAssigner
from headrace.windowing.checks import check, check_positive, check_whole
from headrace.windowing.intervals import AlignedWindows

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Self

    from headrace.common.time import Duration, Time
    from headrace.windowing.assigner import WindowAssigner
    from headrace.windowing.windows import TimeWindow


@dataclass(frozen=True)
class _SlidingWindows(TimeWindowAssigner[Any]):
    """Windows ``[k * slide + offset, k * slide + offset + size)``, of either time.

    Attributes:
        size: length of a window in milliseconds.
        slide: distance between two starts in milliseconds.
        offset: shift of all starts in milliseconds; ``|offset| < slide``.
    """

    size: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_positive(owner, size=self.size, slide=self.slide)
        check_whole(owner, offset=self.offset)
        told = f"not slide={self.slide} ms, offset={self.offset} ms"
        check(abs(self.offset) < self.slide, f"{owner} needs |offset| < slide, {told}")

    @classmethod
    def of(
        cls,
        size: Time | Duration | timedelta | int,
        slide: Time | Duration | timedelta | int,
        offset: Time | Duration | timedelta | int = 0,
    ) -> Self:
        """Windows of a size that start at every slide.

        Args:
            size: the length of a window; a number is milliseconds. It need not be a multiple of ``slide``.
            slide: the distance between two starts; larger than ``size`` leaves gaps.
            offset: a shift smaller than ``slide``.

        Raises:
            InvalidProgramError: when ``size`` or ``slide`` is not positive or ``|offset| >= slide``.
        """
        return cls(to_millis(size), to_millis(slide), to_millis(offset))

    def windows_at(self, time: int, element: Any, context: WindowAssigner.WindowAssignerContext) -> list[TimeWindow]:
        # A derived class that overrides assign_windows() has none, and may still ask for those of some elements.
        windows = self.regular
        return (windows if isinstance(windows, AlignedWindows) else self._windows()).windows_of(time)

    def _windows(self) -> AlignedWindows:
        return AlignedWindows(self.size, self.slide, self.offset)

    def __str__(self) -> str:
        lengths = [self.size, self.slide, *([self.offset] if self.offset else [])]
        return f"{type(self).__name__}({', '.join(f'{length} ms' for length in lengths)})"


@dataclass(frozen=True)
class SlidingEventTimeWindows(_SlidingWindows, EventTimeAssigner[Any]):
    """Windows of event time ``[k * slide + offset, k * slide + offset + size)``.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.window import SlidingEventTimeWindows
        >>> last_ten_minutes = SlidingEventTimeWindows.of(Time.minutes(10), Time.minutes(1))

    Attributes:
        size: length of a window in milliseconds.
        slide: distance between two starts in milliseconds.
        offset: shift of all starts in milliseconds; ``|offset| < slide``.
    """

    @property
    def aligned(self) -> AlignedWindows:
        """The windows as arithmetic."""
        return self._windows()


@dataclass(frozen=True)
class SlidingProcessingTimeWindows(_SlidingWindows, ProcessingTimeAssigner[Any]):
    """Windows of processing time ``[k * slide + offset, k * slide + offset + size)``.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.window import SlidingProcessingTimeWindows
        >>> last_minute = SlidingProcessingTimeWindows.of(Time.minutes(1), Time.seconds(10))

    Attributes:
        size: length of a window in milliseconds.
        slide: distance between two starts in milliseconds.
        offset: shift of all starts in milliseconds; ``|offset| < slide``.
    """

    @property
    def regular(self) -> AlignedWindows:
        """The windows as arithmetic on the clock."""
        return self._windows()
