"""Assigners of sessions: windows that end when no element has come for a while."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, Self

from headrace.common.errors import InvalidProgramError
from headrace.common.time import Duration, Time, to_millis
from headrace.common.type_variables import T, T_contra
from headrace.windowing.assigners import (
    EventTimeAssigner,
    MergingWindowAssigner,
    ProcessingTimeAssigner,
    WindowAssigner,
)
from headrace.windowing.windows import LONGEST, WHOLE, MergeCallback, TimeWindow, check_extractor, check_positive


class SessionWindowTimeGapExtractor(ABC, Generic[T_contra]):
    """Says for an element how long its session stays open after it.

    Examples:
        >>> from headrace.datastream.window import SessionWindowTimeGapExtractor
        >>> class ByDevice(SessionWindowTimeGapExtractor):
        ...     def extract(self, element):
        ...         return 60_000 if element == "phone" else 600_000
        >>> ByDevice().extract("phone")
        60000
    """

    @abstractmethod
    def extract(self, element: T_contra) -> int:
        """The gap in milliseconds; more than 0."""


class _Sessions(MergingWindowAssigner[T, TimeWindow]):
    """Windows of time that are merged when they overlap or touch."""

    __slots__ = ()

    def windows_at(self, time: int, element: T, context: WindowAssigner.WindowAssignerContext) -> list[TimeWindow]:
        """The window of an element alone, before it is merged with others."""
        return [TimeWindow(time, time + self._gap(element))]

    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergeCallback[TimeWindow]) -> None:
        TimeWindow.merge_windows(windows, callback)

    @property
    def merges_touching(self) -> bool:
        return True

    @abstractmethod
    def _gap(self, element: T) -> int:
        """The pause that ends the session of an element."""


@dataclass(frozen=True)
class _FixedGapSessions(_Sessions[Any]):
    """Sessions with the same gap for all elements.

    Attributes:
        session_gap: milliseconds.
    """

    session_gap: int

    def __post_init__(self) -> None:
        check_positive(type(self).__name__, gap=self.session_gap)

    @classmethod
    def with_gap(cls, size: Time | Duration | timedelta | int) -> Self:
        """Sessions with the same gap for all elements; a number is milliseconds.

        Raises:
            InvalidProgramError: when the gap is not positive.
        """
        return cls(to_millis(size))

    def _gap(self, element: object) -> int:
        return self.session_gap

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.session_gap} ms)"


@dataclass(frozen=True)
class _DynamicGapSessions(_Sessions[T], Generic[T]):
    """Sessions whose gap each element says for itself.

    Attributes:
        extractor: gives the gap of an element in milliseconds.
    """

    extractor: SessionWindowTimeGapExtractor[T] | Callable[[T], int]

    def __post_init__(self) -> None:
        check_extractor(type(self).__name__, self.extractor)

    @classmethod
    def with_dynamic_gap(cls, extractor: SessionWindowTimeGapExtractor[T] | Callable[[T], int]) -> Self:
        """Sessions whose gap each element says for itself: an extractor, or a function."""
        return cls(extractor)

    def _gap(self, element: T) -> int:
        """The gap that the extractor returns.

        Raises:
            InvalidProgramError: when it is no whole number above 0, or leads beyond the end of time.
        """
        extractor = self.extractor
        gap = extractor.extract(element) if hasattr(extractor, "extract") else extractor(element)
        if not isinstance(gap, WHOLE) or not 0 < gap <= LONGEST:
            raise InvalidProgramError(
                f"{self}: the gap of an element is a number of milliseconds above 0 and up to 2**62, but the extractor "
                f"gave {gap!r}"
            )
        return int(gap)

    def __str__(self) -> str:
        return type(self).__name__


@dataclass(frozen=True)
class DynamicEventTimeSessionWindows(_DynamicGapSessions[T], EventTimeAssigner[T]):
    """Sessions of event time whose gap each element says for itself.

    Examples:
        >>> from headrace.datastream.window import DynamicEventTimeSessionWindows
        >>> visits = DynamicEventTimeSessionWindows.with_dynamic_gap(lambda visit: visit["gap"])
        >>> visits.windows_at(1_000, {"gap": 500}, None)
        [TimeWindow(start=1000, end=1500)]

    Attributes:
        extractor: gives the gap of an element in milliseconds.
    """


@dataclass(frozen=True)
class DynamicProcessingTimeSessionWindows(_DynamicGapSessions[T], ProcessingTimeAssigner[T]):
    """Sessions of processing time whose gap each element says for itself.

    Examples:
        >>> from headrace.datastream.window import DynamicProcessingTimeSessionWindows
        >>> visits = DynamicProcessingTimeSessionWindows.with_dynamic_gap(lambda visit: visit["gap"])

    Attributes:
        extractor: gives the gap of an element in milliseconds.
    """


@dataclass(frozen=True)
class EventTimeSessionWindows(_FixedGapSessions, EventTimeAssigner[Any]):
    """Sessions of event time, each of which ends ``session_gap`` after its last element.

    Elements that are exactly that far apart are of one session.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.window import EventTimeSessionWindows
        >>> visits = EventTimeSessionWindows.with_gap(Time.minutes(30))

    Attributes:
        session_gap: milliseconds.
    """

    @property
    def reach(self) -> int:
        return self.session_gap

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor[T] | Callable[[T], int],
    ) -> DynamicEventTimeSessionWindows[T]:
        """Sessions whose gap each element says for itself.

        Args:
            extractor: gives the gap of an element in milliseconds: an extractor, or a function.
        """
        return DynamicEventTimeSessionWindows(extractor)


@dataclass(frozen=True)
class ProcessingTimeSessionWindows(_FixedGapSessions, ProcessingTimeAssigner[Any]):
    """Sessions of processing time, each of which ends when nothing has come for ``session_gap``.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.window import ProcessingTimeSessionWindows
        >>> visits = ProcessingTimeSessionWindows.with_gap(Time.minutes(30))

    Attributes:
        session_gap: milliseconds.
    """

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor[T] | Callable[[T], int],
    ) -> DynamicProcessingTimeSessionWindows[T]:
        """Sessions whose gap each element says for itself.

        Args:
            extractor: gives the gap of an element in milliseconds: an extractor, or a function.
        """
        return DynamicProcessingTimeSessionWindows(extractor)
