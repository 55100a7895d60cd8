"""The contract of an assigner, and what those that assign by event time and by processing time have in common."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Final, Generic

from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError
from headrace.common.serializer import TypeSerializer
from headrace.common.type_variables import T_contra, W, W_contra
from headrace.windowing.intervals import AlignedWindows, RegularWindows
from headrace.windowing.trigger import Trigger
from headrace.windowing.triggers import EventTimeTrigger, ProcessingTimeTrigger
from headrace.windowing.windows import MergeCallback, TimeWindow, TimeWindowSerializer, keep_true

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
        """Is told which windows are merged."""

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

        False, as here, unless the class itself says otherwise. Then :meth:`merge_windows` is not asked: an element
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
