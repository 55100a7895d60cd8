"""Functions that see the timestamp of a record and the time; on keyed streams the key, with state and timers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic

from headrace.common.type_variables import K_co, K_contra, OUT_co, T_contra
from headrace.datastream.functions.function import Function
from headrace.operators.functions import does_nothing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.common.output_tag import ToSideOutput
    from headrace.datastream.time_domain import TimeDomain
    from headrace.operators.timer_service import TimerService


class ProcessFunction(Function, Generic[T_contra, OUT_co]):
    """Works on records one by one, and sees their timestamps and the time.

    On a keyed stream it has state and timers as a :class:`KeyedProcessFunction` has.

    Examples:
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import ProcessFunction, StreamExecutionEnvironment
        >>> class Dated(ProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         yield f"{value} at {ctx.timestamp()}"
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value * 1000)
        >>> numbers = env.from_collection([1, 2]).assign_timestamps_and_watermarks(times)
        >>> numbers.process(Dated(), output_type=str).execute_and_collect(limit=10)
        ['1 at 1000', '2 at 2000']
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

    @does_nothing
    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a timer fires; only keyed streams have timers."""


class KeyedProcessFunction(Function, Generic[K_contra, T_contra, OUT_co]):
    """Works on the records of a keyed stream one by one, with state and timers for each key.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import KeyedProcessFunction
        >>> from headrace.datastream.state import ValueStateDescriptor
        >>> from headrace.testing import JobHarness
        >>> class Silence(KeyedProcessFunction):
        ...     "Tells of a sensor that has sent nothing for a minute."
        ...     def open(self, runtime_context):
        ...         self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))
        ...     def process_element(self, value, ctx):
        ...         self.last.update(ctx.timestamp())
        ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
        ...     def on_timer(self, timestamp, ctx):
        ...         if timestamp == self.last.value() + 60_000:
        ...             yield f"{ctx.get_current_key()} is silent since {self.last.value()}"
        >>> def job(harness):
        ...     sensors = harness.add_source("sensors", str).key_by(lambda sensor: sensor)
        ...     harness.add_sink("alerts", sensors.process(Silence(), output_type=str))
        >>> with JobHarness(job) as harness:
        ...     harness.push("sensors", "a", timestamp=0)
        ...     harness.push("sensors", "a", timestamp=30_000)
        ...     harness.advance_watermark("sensors", 100_000)
        ...     harness.run_epoch()
        ...     print(harness.results("alerts"))
        ['a is silent since 30000']
    """

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

    @does_nothing
    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[K_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a timer fires, once for each key, time and time domain; emits as ``process_element`` does.

        Args:
            timestamp: the time that the timer was set for, in milliseconds.
            ctx: the key, the time, and timers to set.
        """
