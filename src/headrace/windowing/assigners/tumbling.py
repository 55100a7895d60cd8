"""Windows of equal length that follow one another without gap or overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.common.time import to_millis
from headrace.common.tracebacks import hides_engine
from headrace.windowing.assigners.of_time import EventTimeAssigner
from headrace.windowing.checks import check, check_positive
from headrace.windowing.intervals import AlignedWindows

if TYPE_CHECKING:
    from datetime import timedelta

    from headrace.common.time import Duration, Time
    from headrace.windowing.windows import TimeWindow


@dataclass(frozen=True, slots=True)
class TumblingEventTimeWindows(EventTimeAssigner[Any]):
    """Windows of event time ``[k * size + offset, (k + 1) * size + offset)``.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> hours = TumblingEventTimeWindows.of(Time.hours(1), offset=Time.minutes(15))

    Attributes:
        size: length of a window in milliseconds.
        offset: shift of all starts in milliseconds; ``|offset| < size``.
    """

    size: int
    offset: int = 0

    def __post_init__(self) -> None:
        _check_tumbling(type(self).__name__, self.size, self.offset)

    @staticmethod
    @hides_engine
    def of(
        size: Time | Duration | timedelta | int, offset: Time | Duration | timedelta | int = 0
    ) -> TumblingEventTimeWindows:
        """Windows of a size.

        Args:
            size: the length of a window; a number is milliseconds.
            offset: a shift, for days of a local time zone say (-8 hours for UTC+8); smaller than ``size``.

        Raises:
            InvalidProgramError: when ``size`` is not positive or ``|offset| >= size``.
        """
        return TumblingEventTimeWindows(to_millis(size), to_millis(offset))

    @property
    def aligned(self) -> AlignedWindows:
        """The windows as arithmetic."""
        return AlignedWindows(self.size, self.size, self.offset)

    def windows_at(self, time: int, element: Any) -> list[TimeWindow]:
        return self.aligned.windows_of(time)

    def __str__(self) -> str:
        return f"TumblingEventTimeWindows({_told(self.size, self.offset)})"


def _check_tumbling(owner: str, size: int, offset: int) -> None:
    check_positive(owner, size=size)
    check(abs(offset) < size, f"{owner} needs |offset| < size, not size={size} ms, offset={offset} ms")


def _told(size: int, offset: int) -> str:
    return f"{size} ms, {offset} ms" if offset else f"{size} ms"
