"""The windows that records are put into: of time, of a count, or one for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import FrozenInstanceError, dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from headrace.common.constants import MAX_WATERMARK
from headrace.common.other_names import names_explained
from headrace.common.type_variables import W_contra

if TYPE_CHECKING:
    from collections.abc import Iterable


C = TypeVar("C", bound=type)

LONGEST: Final = 1 << 62
"""A window of this length, in milliseconds, still has an end of 64 bits."""


class Window(ABC):
    """What records are put into. Windows are values: equal ones are the same window, and hash alike.

    Examples:
        >>> from dataclasses import dataclass
        >>> from headrace.datastream.window import Window
        >>> @dataclass(frozen=True)
        ... class Chapter(Window):
        ...     number: int
        ...     last: int
        ...     def max_timestamp(self) -> int:
        ...         return self.last
        >>> Chapter(1, 99) == Chapter(1, 99)
        True
    """

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """The largest timestamp that may belong to the window, in milliseconds: its results carry it."""


class MergeCallback(ABC, Generic[W_contra]):
    """Is told which windows are merged."""

    @abstractmethod
    def merge(self, to_be_merged: Iterable[W_contra], merge_result: W_contra) -> None:
        """Windows become one.

        Args:
            to_be_merged: the windows.
            merge_result: what they become.
        """


def _derivable(cls: C) -> C:
    """Lets classes derived from a frozen dataclass with slots have fields of their own: Python's check refuses them."""
    own = vars(cls)["__slots__"]

    def check(window: Any, name: str) -> None:
        if type(window) is cls or name in own:
            raise FrozenInstanceError(f"the field {name!r} of a window cannot be changed: make another window")

    def set_field(window: Any, name: str, value: Any) -> None:
        check(window, name)
        object.__setattr__(window, name, value)

    def delete_field(window: Any, name: str) -> None:
        check(window, name)
        object.__delattr__(window, name)

    cls.__setattr__ = set_field  # type: ignore[method-assign, assignment]
    cls.__delattr__ = delete_field  # type: ignore[method-assign, assignment]
    return cls


@names_explained("TimeWindow", {"get_start": "use start", "get_end": "use end"})
@_derivable
@dataclass(frozen=True, slots=True, order=True)
class TimeWindow(Window):
    """The half-open interval ``[start, end)`` of time, in milliseconds.

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

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergeCallback[TimeWindow]) -> None:
        """Merges windows that overlap or touch, as sessions do.

        Args:
            windows: the windows, in any order.
            callback: is told of each group of two or more different windows, earliest first, and what covers them.
        """
        groups: list[tuple[TimeWindow, list[TimeWindow]]] = []
        for window in sorted(set(windows)):
            if groups and groups[-1][0].intersects(window):
                covering, merged = groups[-1]
                groups[-1] = (covering.cover(window), [*merged, window])
            else:
                groups.append((window, [window]))
        for covering, merged in groups:
            if len(merged) > 1:
                callback.merge(merged, covering)


@_derivable
@dataclass(frozen=True, slots=True, order=True)
class CountWindow(Window):
    """The window with a number among those of a key; it ends when so many records have come, at no time.

    Examples:
        >>> from headrace.datastream.window import CountWindow
        >>> CountWindow(3).id
        3
    """

    id: int

    def max_timestamp(self) -> int:
        """The end of time."""
        return MAX_WATERMARK


@_derivable
@dataclass(frozen=True, slots=True, order=True)
class GlobalWindow(Window):
    """The one window that holds all records of a key.

    Examples:
        >>> from headrace.datastream.window import GlobalWindow
        >>> GlobalWindow.get() == GlobalWindow()
        True
    """

    @staticmethod
    def get() -> GlobalWindow:
        """The window."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        """The end of time."""
        return MAX_WATERMARK
