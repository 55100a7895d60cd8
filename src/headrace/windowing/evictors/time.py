"""``TimeEvictor``: keeps the elements of the last while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.common.time import to_millis
from headrace.windowing.checks import check_positive
from headrace.windowing.evictor import OneSidedEvictor

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Self

    from headrace.common.time import Duration, Time
    from headrace.windowing.evictor import TimestampedValue


@dataclass(frozen=True)
class TimeEvictor(OneSidedEvictor[Any]):
    """Keeps the elements whose timestamp is above the largest one in the window less a length of time.

    Elements without timestamps, of which Flink looks at the first, all stay.

    Examples:
        >>> from headrace.datastream.window import TimeEvictor, TimestampedValue
        >>> [each.timestamp for each in TimeEvictor.of(10).kept([TimestampedValue("", time) for time in (30, 20, 21)])]
        [30, 21]

    Attributes:
        window_size: milliseconds.
        do_evict_after: whether they go after the window function was called, not before.
    """

    window_size: int
    do_evict_after: bool = False

    def __post_init__(self) -> None:
        check_positive(type(self).__name__, window_size=self.window_size)

    @classmethod
    def of(cls, window_size: Time | Duration | timedelta | int, do_evict_after: bool = False) -> Self:
        """The evictor for a length of time; a number is milliseconds.

        Raises:
            InvalidProgramError: when it is not positive.
        """
        return cls(to_millis(window_size), do_evict_after)

    def kept(self, elements: list[TimestampedValue[Any]]) -> list[TimestampedValue[Any]]:
        if not elements or elements[0].timestamp is None:
            return elements
        times = [element.timestamp for element in elements]
        cutoff = max(time for time in times if time is not None) - self.window_size
        return [element for element, time in zip(elements, times, strict=True) if time is None or time > cutoff]
