"""Functions that are called for all records of a window, or of a partition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic

from headrace.common.type_variables import K_contra, OUT_co, T_contra, W_co, W_contra
from headrace.datastream.functions.one_stream import Function
from headrace.operators.functions import does_nothing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.common.output_tag import ToSideOutput
    from headrace.state.interfaces import KeyedStateStore
    from headrace.windowing.trigger import Firing


class WindowFunction(Function, Generic[T_contra, OUT_co, K_contra, W_contra]):
    """Works on the contents of a window.

    Examples:
        >>> from headrace.datastream import WindowFunction
        >>> from headrace.datastream.window import TimeWindow
        >>> class Report(WindowFunction):
        ...     def apply(self, key, window, inputs):
        ...         yield f"{key} from {window.start} to {window.end}: {sorted(inputs)}"
        >>> list(Report().apply("a", TimeWindow(0, 60_000), [2, 1]))
        ['a from 0 to 60000: [1, 2]']

        ``windows.apply(Report(), output_type=str)`` gives a report for each window.
    """

    @abstractmethod
    def apply(
        self, key: K_contra, window: W_contra, inputs: Iterable[T_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a window of a key fires; yields results, or returns something to iterate over."""


class ProcessWindowFunction(Function, Generic[T_contra, OUT_co, K_contra, W_contra]):
    """Works on the contents of a window, and sees the window, the time and state.

    Examples:
        >>> from headrace.datastream import ProcessWindowFunction
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> from headrace.testing import JobHarness
        >>> class Busy(ProcessWindowFunction):
        ...     def process(self, key, context, elements):
        ...         yield f"{key}: {len(list(elements))} until {context.window().end}"
        >>> def job(harness):
        ...     users = harness.add_source("clicks", str).key_by(lambda user: user)
        ...     busy = users.window(TumblingEventTimeWindows.of(60_000)).process(Busy(), output_type=str)
        ...     harness.add_sink("busy", busy)
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("clicks", ["ann", "ann", "bob"], [1_000, 2_000, 3_000])
        ...     harness.finish()
        ...     print(sorted(harness.results("busy")))
        ['ann: 2 until 60000', 'bob: 1 until 60000']
    """

    class Context(ABC, Generic[W_co]):
        """What a function learns about the window; only valid during the call."""

        @abstractmethod
        def window(self) -> W_co:
            """The window that fires."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The clock's reading in milliseconds since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The event time that has been reached, in milliseconds."""

        @abstractmethod
        def firing(self) -> Firing:
            """Whether the window fires before its end, at its end, or after it for a late record; not in PyFlink."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """State of this key and this window; ``clear`` has to clear it.

            Windows that merge have none: declaring a state in it raises an ``InvalidProgramError``.
            """

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """State of this key, shared by all its windows; nothing clears it by itself."""

    @abstractmethod
    def process(
        self, key: K_contra, context: ProcessWindowFunction.Context[W_contra], elements: Iterable[T_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a window of a key fires; yields results, or returns something to iterate over."""

    @does_nothing
    def clear(self, context: ProcessWindowFunction.Context[W_contra]) -> None:
        """Called when the window's contents are dropped for good; clears what ``window_state()`` holds."""


class MapPartitionFunction(Function, Generic[T_contra, OUT_co]):
    """Makes any number of records of all records of a partition, when the input has ended; not in PyFlink.

    Examples:
        >>> from headrace.datastream import MapPartitionFunction
        >>> class Median(MapPartitionFunction):
        ...     def map_partition(self, values):
        ...         in_order = sorted(values)
        ...         yield in_order[len(in_order) // 2]
        >>> list(Median().map_partition([3, 1, 2]))
        [2]

        ``stream.full_window_partition().map_partition(Median(), output_type=int)`` gives that of each subtask.
    """

    @abstractmethod
    def map_partition(self, values: Iterable[T_contra]) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called once for each partition; yields results, or returns something to iterate over."""


class AllWindowFunction(Function, Generic[T_contra, OUT_co, W_contra]):
    """Works on the contents of a window of all records.

    Examples:
        >>> from headrace.datastream import AllWindowFunction
        >>> from headrace.datastream.window import TimeWindow
        >>> class Report(AllWindowFunction):
        ...     def apply(self, window, inputs):
        ...         yield f"until {window.end}: {sorted(inputs)}"
        >>> list(Report().apply(TimeWindow(0, 60_000), [2, 1]))
        ['until 60000: [1, 2]']

        ``stream.window_all(...).apply(Report(), output_type=str)`` gives a report for each window.
    """

    @abstractmethod
    def apply(self, window: W_contra, inputs: Iterable[T_contra]) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a window fires; yields results, or returns something to iterate over."""


class ProcessAllWindowFunction(Function, Generic[T_contra, OUT_co, W_contra]):
    """Works on the contents of a window of all records, and sees the window and state.

    Examples:
        >>> from headrace.datastream import ProcessAllWindowFunction
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> from headrace.testing import JobHarness
        >>> class Busy(ProcessAllWindowFunction):
        ...     def process(self, context, elements):
        ...         yield f"{len(list(elements))} until {context.window().end}"
        >>> def job(harness):
        ...     windows = harness.add_source("clicks", str).window_all(TumblingEventTimeWindows.of(60_000))
        ...     harness.add_sink("busy", windows.process(Busy(), output_type=str))
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("clicks", ["ann", "ann", "bob"], [1_000, 2_000, 3_000])
        ...     harness.finish()
        ...     print(harness.results("busy"))
        ['3 until 60000']
    """

    Context = ProcessWindowFunction.Context
    """As that of a ``ProcessWindowFunction``; its state is that of all records."""

    @abstractmethod
    def process(
        self, context: ProcessWindowFunction.Context[W_contra], elements: Iterable[T_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a window fires; yields results, or returns something to iterate over."""

    @does_nothing
    def clear(self, context: ProcessWindowFunction.Context[W_contra]) -> None:
        """Called when the window's contents are dropped for good; clears what ``window_state()`` holds."""
