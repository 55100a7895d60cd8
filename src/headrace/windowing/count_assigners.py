"""Assigners that look at no time: one window for all elements, and windows of so many elements."""

from dataclasses import dataclass, field
from typing import Any, Final, Self

from headrace.common.typeinfo import Types
from headrace.state.descriptors import ValueStateDescriptor
from headrace.windowing.assigners import WindowAssigner
from headrace.windowing.intervals import OneWindow
from headrace.windowing.trigger import Trigger
from headrace.windowing.triggers import CountTrigger, EndOfStreamTrigger, NeverTrigger
from headrace.windowing.windows import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    check_positive,
)


@dataclass(frozen=True)
class GlobalWindows(WindowAssigner[Any, GlobalWindow]):
    """Puts all elements of a key into one window, which never fires unless the program sets a trigger.

    Examples:
        >>> from headrace.datastream.window import GlobalWindows
        >>> GlobalWindows.create().assign_windows("a", 0, None)
        [GlobalWindow()]

    Attributes:
        default_trigger: the trigger unless the program sets another.
    """

    default_trigger: Trigger[Any, GlobalWindow] = field(default_factory=NeverTrigger)

    @classmethod
    def create(cls) -> Self:
        """Windows that do not fire by themselves."""
        return cls()

    @classmethod
    def create_with_end_of_stream_trigger(cls) -> Self:
        """Windows that fire when the input ends."""
        return cls(EndOfStreamTrigger())

    @property
    def regular(self) -> OneWindow:
        """The window as arithmetic."""
        return OneWindow()

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[GlobalWindow]:
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any) -> Trigger[Any, GlobalWindow]:
        return self.default_trigger

    def get_window_serializer(self) -> GlobalWindowSerializer:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __str__(self) -> str:
        return type(self).__name__


_TUMBLING: Final = ValueStateDescriptor("tumble-count-assigner", Types.LONG())
_SLIDING: Final = ValueStateDescriptor("slide-count-assigner", Types.LONG())


class _CountAssigner(WindowAssigner[Any, CountWindow]):
    """Windows that fire when they are full."""

    __slots__ = ()

    window_size: int

    def get_default_trigger(self, env: Any) -> Trigger[Any, CountWindow]:
        return CountTrigger.of(self.window_size)

    def get_window_serializer(self) -> CountWindowSerializer:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False


@dataclass(frozen=True)
class CountTumblingWindowAssigner(_CountAssigner):
    """Puts each ``window_size`` elements of a key into a window: the first ones into window 0, the next into window 1.

    Examples:
        >>> from headrace.datastream.window import CountTumblingWindowAssigner
        >>> hundreds = CountTumblingWindowAssigner.of(100)

    Attributes:
        window_size: how many elements a window holds.
    """

    window_size: int

    def __post_init__(self) -> None:
        check_positive(type(self).__name__, window_size=self.window_size)

    @classmethod
    def of(cls, window_size: int) -> Self:
        """Windows of so many elements.

        Raises:
            InvalidProgramError: when the number is not positive.
        """
        return cls(window_size)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[CountWindow]:
        return [CountWindow(_next_position(_TUMBLING, context) // self.window_size)]

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.window_size})"


@dataclass(frozen=True)
class CountSlidingWindowAssigner(_CountAssigner):
    """Puts elements of a key into windows of ``window_size`` of which one begins at every ``window_slide``-th element.

    Examples:
        >>> from headrace.datastream.window import CountSlidingWindowAssigner
        >>> last_hundred = CountSlidingWindowAssigner.of(100, 10)

    Attributes:
        window_size: how many elements a window holds.
        window_slide: how many elements after one window the next one begins; more than ``window_size`` leaves some out.
    """

    window_size: int
    window_slide: int

    def __post_init__(self) -> None:
        check_positive(type(self).__name__, window_size=self.window_size, window_slide=self.window_slide)

    @classmethod
    def of(cls, window_size: int, window_slide: int) -> Self:
        """Windows of so many elements that begin at every so many.

        Raises:
            InvalidProgramError: when one of the numbers is not positive.
        """
        return cls(window_size, window_slide)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[CountWindow]:
        position = _next_position(_SLIDING, context)
        newest = position // self.window_slide
        oldest = max(0, (position - self.window_size) // self.window_slide + 1)
        return [CountWindow(number) for number in range(newest, oldest - 1, -1)]

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.window_size}, {self.window_slide})"


def _next_position(descriptor: ValueStateDescriptor[int], context: WindowAssigner.WindowAssignerContext) -> int:
    """The position of the element among those of its key, from 0; the next one's is one more."""
    count = context.get_runtime_context().get_state(descriptor)
    position: int = count.value() or 0
    count.update(position + 1)
    return position
