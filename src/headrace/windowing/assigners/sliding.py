"""Windows of equal length that start at regular distances and may overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.common.time import to_millis
from headrace.common.tracebacks import hides_engine
from headrace.windowing.assigners.of_time import EventTimeAssigner, ProcessingTimeAssigner
from headrace.windowing.checks import check, check_positive
from headrace.windowing.intervals import AlignedWindows

if TYPE_CHECKING:
    from datetime import timedelta

    from headrace.common.time import Duration, Time
    from headrace.windowing.assigner import WindowAssigner
    from headrace.windowing.windows import TimeWindow


@dataclass(frozen=True, slots=True)
class SlidingEventTimeWindows(EventTimeAssigner[Any]):
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

    size: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        _check_sliding(type(self).__name__, self.size, self.slide, self.offset)

    @staticmethod
    @hides_engine
    def of(
        size: Time | Duration | timedelta | int,
        slide: Time | Duration | timedelta | int,
        offset: Time | Duration | timedelta | int = 0,
    ) -> SlidingEventTimeWindows:
        """Windows of a size that start at every slide.

        Args:
            size: the length of a window; a number is milliseconds. It need not be a multiple of ``slide``.
            slide: the distance between two starts; larger than ``size`` leaves gaps.
            offset: a shift smaller than ``slide``.

        Raises:
            InvalidProgramError: when ``size`` or ``slide`` is not positive or ``|offset| >= slide``.
        """
        return SlidingEventTimeWindows(to_millis(size), to_millis(slide), to_millis(offset))

    @property
    def aligned(self) -> AlignedWindows:
        """The windows as arithmetic."""
        return AlignedWindows(self.size, self.slide, self.offset)

    def windows_at(self, time: int, element: Any, context: WindowAssigner.WindowAssignerContext) -> list[TimeWindow]:
        return self.aligned.windows_of(time)

    def __str__(self) -> str:
        return f"SlidingEventTimeWindows({_told(self.size, self.slide, self.offset)})"


@dataclass(frozen=True, slots=True)
class SlidingProcessingTimeWindows(ProcessingTimeAssigner[Any]):
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

    size: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        _check_sliding(type(self).__name__, self.size, self.slide, self.offset)

    @staticmethod
    @hides_engine
    def of(
        size: Time | Duration | timedelta | int,
        slide: Time | Duration | timedelta | int,
        offset: Time | Duration | timedelta | int = 0,
    ) -> SlidingProcessingTimeWindows:
        """Windows of a size that start at every slide.

        Args:
            size: the length of a window; a number is milliseconds. It need not be a multiple of ``slide``.
            slide: the distance between two starts; larger than ``size`` leaves gaps.
            offset: a shift smaller than ``slide``.

        Raises:
            InvalidProgramError: when ``size`` or ``slide`` is not positive or ``|offset| >= slide``.
        """
        return SlidingProcessingTimeWindows(to_millis(size), to_millis(slide), to_millis(offset))

    @property
    def regular(self) -> AlignedWindows:
        """The windows as arithmetic on the clock."""
        return AlignedWindows(self.size, self.slide, self.offset)

    def windows_at(self, time: int, element: Any, context: WindowAssigner.WindowAssignerContext) -> list[TimeWindow]:
        return self.regular.windows_of(time)

    def __str__(self) -> str:
        return f"SlidingProcessingTimeWindows({_told(self.size, self.slide, self.offset)})"


def _check_sliding(owner: str, size: int, slide: int, offset: int) -> None:
    check_positive(owner, size=size, slide=slide)
    check(abs(offset) < slide, f"{owner} needs |offset| < slide, not slide={slide} ms, offset={offset} ms")


def _told(size: int, slide: int, offset: int) -> str:
    return ", ".join(f"{length} ms" for length in ([size, slide, offset] if offset else [size, slide]))
