"""The contract of evictors: which elements of a window its function does not see."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from headrace.common.other_names import names_explained
from headrace.common.type_variables import T, T_co, W_contra
from headrace.windowing.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterable


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
        self, elements: list[TimestampedValue[T]], size: int, window: W_contra, ctx: Evictor.EvictorContext
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
        self, elements: list[TimestampedValue[T]], size: int, window: W_contra, ctx: Evictor.EvictorContext
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
