"""The functions that users write: PyFlink's base classes.

A plain callable does wherever a class here has one method that is called for records (``map``, ``filter``, ``reduce``,
…). The classes add ``open`` and ``close``, which are called once for each parallel instance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic

from headrace.common.public_module import public_module
from headrace.common.type_variables import ACC, K_co, K_contra, OUT_co, T, T_contra, W_co, W_contra
from headrace.operators.functions import RuntimeContext, does_nothing
from headrace.operators.timer_service import TimerService
from headrace.state.interfaces import KeyedStateStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.datastream.streams.process_protocols import ToSideOutput
    from headrace.datastream.time_domain import TimeDomain

__all__ = [
    "AggregateFunction",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "KeySelector",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "MapFunction",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "TimerService",
    "WindowFunction",
]

public_module(__name__)


class Function(ABC):  # noqa: B024 - there is nothing that every function must have
    """The root of all functions.

    What ``__init__`` sets travels with the function, so it has to be picklable; connections, models and state are for
    ``open``. Attributes that change while records are processed are not state: after a failure they are gone.
    """

    @does_nothing
    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once for each parallel instance before any record; the place to get state."""

    def close(self) -> None:
        """Called once for each parallel instance at the end of its life."""


class MapFunction(Function, Generic[T_contra, OUT_co]):
    """Makes one record of each record."""

    @abstractmethod
    def map(self, value: T_contra) -> OUT_co:
        """The record that ``value`` becomes."""


class FlatMapFunction(Function, Generic[T_contra, OUT_co]):
    """Makes any number of records of each record."""

    @abstractmethod
    def flat_map(self, value: T_contra) -> Iterable[OUT_co] | None:
        """Yields the records that ``value`` becomes, or returns something to iterate over."""


class FilterFunction(Function, Generic[T_contra]):
    """Keeps some of the records."""

    @abstractmethod
    def filter(self, value: T_contra) -> bool:
        """Whether ``value`` is kept. The record must not be changed."""


class ReduceFunction(Function, Generic[T]):
    """Combines two records into one of the same type."""

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """What has been combined so far, ``value1``, and the next record made one."""


class AggregateFunction(Function, Generic[T_contra, ACC, OUT_co]):
    """Folds records into an accumulator and makes a result of that; all three may be of different types."""

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """The accumulator of no records."""

    @abstractmethod
    def add(self, value: T_contra, accumulator: ACC) -> ACC:
        """The accumulator with one more record; it may be changed in place and returned."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT_co:
        """The result of everything that was added."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Two accumulators made one; only windows that merge (sessions) ask for it."""


class KeySelector(Function, Generic[T_contra, K_co]):
    """Takes the key from a record; the same record must always give the same key."""

    @abstractmethod
    def get_key(self, value: T_contra) -> K_co:
        """The key of ``value``; it has to be hashable."""


class ProcessFunction(Function, Generic[T_contra, OUT_co]):
    """Works on records one by one, and sees their timestamps and the time.

    On a keyed stream it has state and timers as a :class:`KeyedProcessFunction` has.
    """

    class Context(ABC):
        """What a function learns about the record; only valid during the call."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Tells the time; on a keyed stream it also sets timers."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The record's event time in milliseconds since the epoch; None when it has none."""

    @abstractmethod
    def process_element(self, value: T_contra, ctx: ProcessFunction.Context) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record.

        ``yield value`` emits a record, ``yield tag, value`` emits one to the side output of an ``OutputTag``.
        """

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a timer fires; only keyed streams have timers."""


class KeyedProcessFunction(Function, Generic[K_contra, T_contra, OUT_co]):
    """Works on the records of a keyed stream one by one, with state and timers for each key."""

    class Context(ProcessFunction.Context, Generic[K_co]):
        """What a function learns about the record; only valid during the call."""

        @abstractmethod
        def get_current_key(self) -> K_co:
            """The key of the record or of the timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Tells the time, and sets and deletes timers of the current key."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The event time of the record, or the time of the timer, in milliseconds; None when there is none."""

    class OnTimerContext(Context[K_co]):
        """What ``on_timer`` learns about the timer."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Whether the timer is one of event time or of processing time."""

    @abstractmethod
    def process_element(
        self, value: T_contra, ctx: KeyedProcessFunction.Context[K_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record.

        ``yield value`` emits a record, ``yield tag, value`` emits one to the side output of an ``OutputTag``.
        """

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[K_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a timer fires, once for each key, time and time domain; emits as ``process_element`` does.

        Args:
            timestamp: the time that the timer was set for, in milliseconds.
            ctx: the key, the time, and timers to set.
        """


class WindowFunction(Function, Generic[T_contra, OUT_co, K_contra, W_contra]):
    """Works on the contents of a window."""

    @abstractmethod
    def apply(
        self, key: K_contra, window: W_contra, inputs: Iterable[T_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a window of a key fires; yields results, or returns something to iterate over."""


class ProcessWindowFunction(Function, Generic[T_contra, OUT_co, K_contra, W_contra]):
    """Works on the contents of a window, and sees the window, the time and state."""

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
        def window_state(self) -> KeyedStateStore:
            """State of this key and this window; ``clear`` has to clear it."""

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
