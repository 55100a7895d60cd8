"""Assigners: which windows an element belongs to, by its time; and what all assigners have in common."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Final, Generic, Self

from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError, refused
from headrace.common.serializer import TypeSerializer
from headrace.common.time import Duration, Time, to_millis
from headrace.common.type_variables import T_contra, W, W_contra
from headrace.common.typeinfo import Types
from headrace.state.descriptors import ValueStateDescriptor
from headrace.windowing.intervals import AlignedWindows, GrowingWindows, RegularWindows
from headrace.windowing.trigger import Trigger
from headrace.windowing.triggers import EventTimeTrigger, ProcessingTimeTrigger
from headrace.windowing.windows import (
    MergeCallback,
    TimeWindow,
    TimeWindowSerializer,
    check_offset,
    check_positive,
    keep_true,
)

_PLACES: Final = ("assign_windows", "windows_at", "get_window_serializer", "is_event_time")
"""The methods whose windows :attr:`WindowAssigner.aligned` and :attr:`WindowAssigner.regular` are."""


class WindowAssigner(ABC, Generic[T_contra, W]):
    """Puts an element into windows.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.window import TumblingEventTimeWindows, WindowAssigner
        >>> isinstance(TumblingEventTimeWindows.of(Time.hours(1)), WindowAssigner)
        True
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for arithmetic in ("aligned", "regular"):
            keep_true(cls, arithmetic, _PLACES, WindowAssigner)

    class WindowAssignerContext(ABC):
        """The context of an assigner; only valid during the call."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The job's clock in milliseconds; it stands still within an epoch."""

        @abstractmethod
        def get_runtime_context(self) -> Any:
            """The ``RuntimeContext`` of the operator, with the state of the element's key."""

    @abstractmethod
    def assign_windows(
        self, element: T_contra, timestamp: int, context: "WindowAssigner.WindowAssignerContext"
    ) -> Collection[W]:
        """The windows that an element belongs to; none where it belongs to no window.

        Args:
            element: the element.
            timestamp: its event time in milliseconds; ``MIN_WATERMARK`` when it has none.
            context: the time, and the state of the key.
        """

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[Any, W]:
        """The trigger where the program sets none.

        Args:
            env: the ``StreamExecutionEnvironment``; PyFlink hands it over.
        """

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """The serializer of the windows."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Return whether the windows are in event time: elements can then be late for them."""

    @property
    def aligned(self) -> AlignedWindows | None:
        """The windows as arithmetic, where they have one size and start at regular distances in event time.

        So the windows of a whole column of timestamps are found at once. None where only :meth:`assign_windows` knows,
        as in a class that overrides it without giving the arithmetic of its own windows.
        """
        return None

    @property
    def regular(self) -> RegularWindows | None:
        """The windows as arithmetic, where they follow from an element's timestamp alone; None for all others.

        Of windows that are not of event time: from the clock alone, or from nothing. Built-in aggregates are computed
        over such windows column by column.
        """
        return self.aligned


class MergingWindowAssigner(WindowAssigner[T_contra, W]):
    """An assigner whose windows may become one, as sessions do.

    Examples:
        >>> from headrace.datastream.window import MergingWindowAssigner, WindowAssigner
        >>> issubclass(MergingWindowAssigner, WindowAssigner)
        True
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        keep_true(cls, "merges_touching", ("merge_windows", *_PLACES), MergingWindowAssigner)

    class MergeCallback(MergeCallback[W_contra]):
        """Merges the state of windows that become one."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: "MergingWindowAssigner.MergeCallback[W]") -> None:
        """Finds out which of a key's windows are merged, and tells the callback.

        Args:
            windows: all windows of the key.
            callback: is to be called once for each group of windows that become one; no window is in two groups.
        """

    @property
    def merges_touching(self) -> bool:
        """True when windows are of :class:`.TimeWindow` and merge exactly where they overlap or touch.

        False, as here, unless the class itself overrides it. Then :meth:`merge_windows` is not called: an element
        costs the same however many windows its key has, and not more with each of them.
        """
        return False


class TimeWindowAssigner(WindowAssigner[T_contra, TimeWindow]):
    """An assigner of windows that follow from an element's time, and perhaps from the element."""

    __slots__ = ()

    @abstractmethod
    def windows_at(
        self, time: int, element: T_contra, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        """The windows of an element whose time, of the domain that the assigner means, is this."""

    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()


class EventTimeAssigner(TimeWindowAssigner[T_contra]):
    """The base class of assigners by event time."""

    __slots__ = ()

    @property
    def reach(self) -> int:
        """The longest distance of a window from a timestamp, in milliseconds; 0 where it depends on the elements."""
        return 0 if self.regular is None else self.regular.reach

    def assign_windows(
        self, element: T_contra, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        if timestamp == NO_TIMESTAMP:
            raise InvalidProgramError(
                f"{self}: an element has no timestamp. The WatermarkStrategy before the window needs a timestamp "
                'assigner, such as .with_timestamp_assigner("time"); or use windows of processing time'
            )
        return self.windows_at(timestamp, element, context)

    def get_default_trigger(self, env: Any) -> Trigger[Any, TimeWindow]:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class ProcessingTimeAssigner(TimeWindowAssigner[T_contra]):
    """The base class of assigners by processing time."""

    __slots__ = ()

    def assign_windows(
        self, element: T_contra, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        return self.windows_at(context.get_current_processing_time(), element, context)

    def get_default_trigger(self, env: Any) -> Trigger[Any, TimeWindow]:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False


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
        check_positive(type(self).__name__, size=self.size)
        check_offset(type(self).__name__, self.offset, size=self.size)

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
        return f"{type(self).__name__}({_lengths(self.size, self.offset)})"


_FIRST_SHIFT: Final = ValueStateDescriptor("tumbling-stagger", Types.LONG())
_EVENLY: Final = 0x9E3779B97F4A7C15
"""The golden ratio in 64 bits: what multiples of it leave in 64 bits is spread evenly."""


class WindowStagger(Enum):
    """The start of windows of processing time, so that not all of them fire at once.

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
        check_positive(type(self).__name__, size=self.size)
        check_offset(type(self).__name__, self.offset, size=self.size)
        if not isinstance(self.stagger, WindowStagger):
            raise refused(f"stagger is a WindowStagger, not {self.stagger!r}")

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
        return f"{type(self).__name__}({_lengths(self.size, self.offset)})"


def _lengths(size: int, offset: int) -> str:
    return f"{size} ms, {offset} ms" if offset else f"{size} ms"


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
        check_offset(owner, self.offset, slide=self.slide)

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


@dataclass(frozen=True)
class CumulatingEventTimeWindows(EventTimeAssigner[Any]):
    """For each stretch of ``max_size``, the windows of its first step, its first two steps, and so on up to all of it.

    The day so far, emitted every hour, say. An element belongs to each of them that has not ended before it, so a step
    without elements emits what the step before has emitted; there is nothing before the first element.

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
        check_offset(owner, self.offset, max_size=self.max_size)
        if self.max_size % self.step:
            given = f"max_size={self.max_size} ms, step={self.step} ms"
            raise refused(f"{owner} needs a max_size that is a multiple of step, not {given}")

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
