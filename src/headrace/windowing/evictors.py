"""Evictors: which elements of a window its function does not see."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, Self

from headrace.common.errors import refused
from headrace.common.other_names import names_explained
from headrace.common.time import Duration, Time, to_millis
from headrace.common.type_variables import T, T_co, W_contra
from headrace.windowing.windows import Window, check_function, check_positive, check_whole

_GETTERS = {"get_value": "use value", "get_timestamp": "use timestamp", "has_timestamp": "use timestamp is not None"}


@names_explained("TimestampedValue", _GETTERS)
@dataclass(frozen=True, slots=True)
class TimestampedValue(Generic[T_co]):
    """An element of a window and its event time.

    Examples:
        >>> from headrace.datastream.window import TimestampedValue
        >>> TimestampedValue("tea", 1_000)
        TimestampedValue(value='tea', timestamp=1000)

    Attributes:
        value: the element.
        timestamp: its event time in milliseconds; None when it has none.
    """

    value: T_co
    timestamp: int | None = None


class Evictor(ABC, Generic[T, W_contra]):
    """Removes elements from a window when it fires, before or after its function is called. They are gone for good.

    Examples:
        >>> from headrace.datastream.window import Evictor, TimestampedValue
        >>> class NoBlanks(Evictor):
        ...     def evict_before(self, elements, size, window, ctx):
        ...         return [element for element in elements if element.value]
        ...     def evict_after(self, elements, size, window, ctx):
        ...         return elements
        >>> NoBlanks().evict_before([TimestampedValue(""), TimestampedValue("a")], 2, None, None)
        [TimestampedValue(value='a', timestamp=None)]
    """

    class EvictorContext(ABC):
        """The time; only valid during the call."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The job's clock in milliseconds; it stands still within an epoch."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """The event time that has been reached, in milliseconds."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W_contra, ctx: "Evictor.EvictorContext"
    ) -> Iterable[TimestampedValue[T]]:
        """Called before the window function.

        Args:
            elements: the elements in the window, in the order in which they came.
            size: how many they are.
            window: the window.
            ctx: the time.

        Returns:
            The elements that stay, in their order.
        """

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W_contra, ctx: "Evictor.EvictorContext"
    ) -> Iterable[TimestampedValue[T]]:
        """Called after the window function; as :meth:`evict_before`, with what that one has left."""


class OneSidedEvictor(Evictor[T, Window]):
    """Keeps elements by one rule, either before or after the function."""

    __slots__ = ()

    do_evict_after: bool

    @abstractmethod
    def kept(self, elements: list[TimestampedValue[T]]) -> list[TimestampedValue[T]]:
        """The elements that stay."""

    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: Window, ctx: Evictor.EvictorContext
    ) -> list[TimestampedValue[T]]:
        return elements if self.do_evict_after else self.kept(elements)

    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: Window, ctx: Evictor.EvictorContext
    ) -> list[TimestampedValue[T]]:
        return self.kept(elements) if self.do_evict_after else elements


@dataclass(frozen=True)
class CountEvictor(OneSidedEvictor[Any]):
    """Keeps the elements that came last, up to a number.

    Examples:
        >>> from headrace.datastream.window import CountEvictor, TimestampedValue
        >>> [each.value for each in CountEvictor.of(2).kept([TimestampedValue(value) for value in "abc"])]
        ['b', 'c']

    Attributes:
        max_count: how many stay.
        do_evict_after: whether they go after the window function was called, not before.
    """

    max_count: int
    do_evict_after: bool = False

    def __post_init__(self) -> None:
        check_whole(type(self).__name__, max_count=self.max_count)
        if self.max_count < 0:
            raise refused(f"CountEvictor needs max_count >= 0, not {self.max_count}")

    @classmethod
    def of(cls, max_count: int, do_evict_after: bool = False) -> Self:
        """The evictor that keeps so many.

        Raises:
            InvalidProgramError: when the number is negative.
        """
        return cls(max_count, do_evict_after)

    def kept(self, elements: list[TimestampedValue]) -> list[TimestampedValue]:
        return elements[max(0, len(elements) - self.max_count) :]


@dataclass(frozen=True)
class DeltaEvictor(OneSidedEvictor[T], Generic[T]):
    """Keeps the elements whose distance from the one that came last is below a threshold.

    Examples:
        >>> from headrace.datastream.window import DeltaEvictor, TimestampedValue
        >>> near = DeltaEvictor.of(5, lambda element, last: abs(element - last))
        >>> [each.value for each in near.kept([TimestampedValue(value) for value in (1, 4, 8)])]
        [4, 8]

    Attributes:
        threshold: what the distance has to be below.
        delta_function: gives the distance, of an element and the last one.
        do_evict_after: whether they go after the window function was called, not before.
    """

    threshold: float
    delta_function: Callable[[T, T], float]
    do_evict_after: bool = False

    def __post_init__(self) -> None:
        check_function(type(self).__name__, "delta_function", self.delta_function, "element", "last")

    @classmethod
    def of(cls, threshold: float, delta_function: Callable[[T, T], float], do_evict_after: bool = False) -> Self:
        """The evictor for a distance.

        Raises:
            InvalidTypeError: when ``delta_function`` cannot be called.
        """
        return cls(threshold, delta_function, do_evict_after)

    def kept(self, elements: list[TimestampedValue[T]]) -> list[TimestampedValue[T]]:
        if not elements:
            return elements
        last = elements[-1].value
        # Not "< threshold": a distance that is no number keeps its element, as in Flink.
        return [each for each in elements if not self.delta_function(each.value, last) >= self.threshold]

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.threshold})"


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

    def kept(self, elements: list[TimestampedValue]) -> list[TimestampedValue]:
        if not elements or elements[0].timestamp is None:
            return elements
        times = [element.timestamp for element in elements]
        cutoff = max(time for time in times if time is not None) - self.window_size
        return [element for element, time in zip(elements, times, strict=True) if time is None or time > cutoff]
