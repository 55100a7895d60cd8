"""Windows that begin together and grow step by step, as SQL's ``CUMULATE`` has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.common.time import to_millis
from headrace.windowing.assigners.of_time import EventTimeAssigner
from headrace.windowing.checks import check, check_positive, check_whole
from headrace.windowing.intervals import GrowingWindows
from headrace.windowing.windows import TimeWindow

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Self

    from headrace.common.time import Duration, Time
    from headrace.windowing.assigner import WindowAssigner


@dataclass(frozen=True)
class CumulatingEventTimeWindows(EventTimeAssigner[Any]):
    """For each stretch of ``max_size``, the windows of its first step, its first two steps, and so on up to all of it.

    The day so far, told every hour, say. An element belongs to each of them that has not ended before it, so a step
    without elements shows what the step before has shown; there is nothing before the first element.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.window import CumulatingEventTimeWindows
        >>> day_so_far = CumulatingEventTimeWindows.of(Time.days(1), Time.hours(8))
        >>> [window.end // 3_600_000 for window in day_so_far.windows_at(10 * 3_600_000, None, None)]
        [16, 24]

    Attributes:
        max_size: length of the largest window in milliseconds.
        step: by how much a window is longer than the one before, in milliseconds; ``max_size`` is a multiple of it.
        offset: shift of all starts in milliseconds; ``|offset| < max_size``.
    """

    max_size: int
    step: int
    offset: int = 0

    def __post_init__(self) -> None:
        owner = type(self).__name__
        check_positive(owner, max_size=self.max_size, step=self.step)
        check_whole(owner, offset=self.offset)
        told = f"not max_size={self.max_size} ms, step={self.step} ms, offset={self.offset} ms"
        check(self.max_size % self.step == 0, f"{owner} needs a max_size that is a multiple of step, {told}")
        check(abs(self.offset) < self.max_size, f"{owner} needs |offset| < max_size, {told}")

    @classmethod
    def of(
        cls,
        max_size: Time | Duration | timedelta | int,
        step: Time | Duration | timedelta | int,
        offset: Time | Duration | timedelta | int = 0,
    ) -> Self:
        """Windows that grow by a step.

        Args:
            max_size: the length of the largest window; a number is milliseconds.
            step: by how much a window is longer than the one before; ``max_size`` is a multiple of it.
            offset: a shift of all starts, smaller than ``max_size``.

        Raises:
            InvalidProgramError: when a length is not positive, ``max_size`` is no multiple of ``step``, or
                ``|offset| >= max_size``.
        """
        return cls(to_millis(max_size), to_millis(step), to_millis(offset))

    @property
    def regular(self) -> GrowingWindows:
        """The windows as arithmetic."""
        return GrowingWindows(self.max_size, self.step, self.offset)

    def windows_at(self, time: int, element: Any, context: WindowAssigner.WindowAssignerContext) -> list[TimeWindow]:
        """The windows of an element, the shortest first."""
        start = TimeWindow.get_window_start_with_offset(time, self.offset, self.max_size)
        first = start + self.step * ((time - start) // self.step + 1)
        return [TimeWindow(start, end) for end in range(first, start + self.max_size + 1, self.step)]

    def __str__(self) -> str:
        lengths = [self.max_size, self.step, *([self.offset] if self.offset else [])]
        return f"{type(self).__name__}({', '.join(f'{length} ms' for length in lengths)})"
