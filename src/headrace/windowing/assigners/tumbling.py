"""Windows of equal length that follow one another without gap or overlap."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from headrace.common.time import to_millis
from headrace.common.typeinfo import Types
from headrace.state.descriptors import ValueStateDescriptor
from headrace.windowing.assigners.of_time import EventTimeAssigner, ProcessingTimeAssigner
from headrace.windowing.checks import check, check_positive, check_whole
from headrace.windowing.intervals import AlignedWindows

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Self

    from headrace.common.time import Duration, Time
    from headrace.windowing.assigner import WindowAssigner
    from headrace.windowing.windows import TimeWindow


@dataclass(frozen=True)
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

    @classmethod
    def of(
        cls,
        size: Time | Duration | timedelta | int,
        offset: Time | Duration | timedelta | int = 0,
    ) -> Self:
        """Windows of a size.

        Args:
            size: the length of a window; a number is milliseconds.
            offset: a shift, for days of a local time zone say (-8 hours for UTC+8); smaller than ``size``.

        Raises:
            InvalidProgramError: when ``size`` is not positive or ``|offset| >= size``.
        """
        return cls(to_millis(size), to_millis(offset))

    @property
    def aligned(self) -> AlignedWindows:
        """The windows as arithmetic."""
        return self._windows()

    def windows_at(self, time: int, element: Any, context: WindowAssigner.WindowAssignerContext) -> list[TimeWindow]:
        # A derived class that overrides assign_windows() has none, and may still ask for those of some elements.
        windows: AlignedWindows | None = self.aligned
        return (self._windows() if windows is None else windows).windows_of(time)

    def _windows(self) -> AlignedWindows:
        return AlignedWindows(self.size, self.size, self.offset)

    def __str__(self) -> str:
        return f"{type(self).__name__}({_told(self.size, self.offset)})"


_FIRST_SHIFT: Final = ValueStateDescriptor("tumbling-stagger", Types.LONG())
_EVENLY: Final = 0x9E3779B97F4A7C15
"""The golden ratio in 64 bits: what multiples of it leave in 64 bits is spread evenly."""


class WindowStagger(Enum):
    """When windows of processing time start, so that not all of them fire at once.

    Examples:
        >>> from headrace.datastream.window import TumblingProcessingTimeWindows, WindowStagger
        >>> TumblingProcessingTimeWindows.of(60_000, stagger=WindowStagger.RANDOM).stagger
        <WindowStagger.RANDOM: 'random'>
    """

    ALIGNED = "aligned"
    """All of them at the same time."""
    RANDOM = "random"
    """Each subtask at a time of its own, which follows from its number, so that it stays the same."""
    NATURAL = "natural"
    """Each key when its first element comes. (Each subtask when its first one comes, in Flink.)"""

    def shift(self, size: int, now: int, context: WindowAssigner.WindowAssignerContext) -> int:
        """By how much the windows of an element start later than aligned ones, in milliseconds; below ``size``."""
        if self is WindowStagger.ALIGNED:
            return 0
        if self is WindowStagger.RANDOM:
            subtask: int = context.get_runtime_context().get_index_of_this_subtask()
            return ((subtask + 1) * _EVENLY % (1 << 64)) * size >> 64
        first = context.get_runtime_context().get_state(_FIRST_SHIFT)
        if first.value() is None:
            first.update(now % size)
        shift: int = first.value()
        return shift


@dataclass(frozen=True)
class TumblingProcessingTimeWindows(ProcessingTimeAssigner[Any]):
    """Windows of processing time ``[k * size + offset, (k + 1) * size + offset)``.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.window import TumblingProcessingTimeWindows
        >>> minutes = TumblingProcessingTimeWindows.of(Time.minutes(1))

    Attributes:
        size: length of a window in milliseconds.
        offset: shift of all starts in milliseconds; ``|offset| < size``.
        stagger: a further shift.
    """

    size: int
    offset: int = 0
    stagger: WindowStagger = WindowStagger.ALIGNED

    def __post_init__(self) -> None:
        _check_tumbling(type(self).__name__, self.size, self.offset)
        check(isinstance(self.stagger, WindowStagger), f"stagger is a WindowStagger, not {self.stagger!r}")

    @classmethod
    def of(
        cls,
        size: Time | Duration | timedelta | int,
        offset: Time | Duration | timedelta | int = 0,
        stagger: WindowStagger = WindowStagger.ALIGNED,
    ) -> Self:
        """Windows of a size.

        Args:
            size: the length of a window; a number is milliseconds.
            offset: a shift smaller than ``size``.
            stagger: whether windows start at different times.

        Raises:
            InvalidProgramError: when ``size`` is not positive or ``|offset| >= size``.
        """
        return cls(to_millis(size), to_millis(offset), stagger)

    @property
    def regular(self) -> AlignedWindows | None:
        """The windows as arithmetic on the clock; None where they are staggered."""
        return AlignedWindows(self.size, self.size, self.offset) if self.stagger is WindowStagger.ALIGNED else None

    def windows_at(self, time: int, element: Any, context: WindowAssigner.WindowAssignerContext) -> list[TimeWindow]:
        offset = (self.offset + self.stagger.shift(self.size, time, context)) % self.size
        return AlignedWindows(self.size, self.size, offset).windows_of(time)

    def __str__(self) -> str:
        return f"{type(self).__name__}({_told(self.size, self.offset)})"


def _check_tumbling(owner: str, size: int, offset: int) -> None:
    check_positive(owner, size=size)
    check_whole(owner, offset=offset)
    check(abs(offset) < size, f"{owner} needs |offset| < size, not size={size} ms, offset={offset} ms")


def _told(size: int, offset: int) -> str:
    return f"{size} ms, {offset} ms" if offset else f"{size} ms"
