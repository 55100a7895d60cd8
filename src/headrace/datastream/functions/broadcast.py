"""Functions of a stream that is connected with one that every subtask gets as a whole: rules, rates, settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic

from headrace.common.type_variables import IN1_contra, IN2_contra, K_co, K_contra, OUT_co
from headrace.datastream.functions.function import Function
from headrace.operators.functions import does_nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.common.output_tag import ToSideOutput
    from headrace.common.type_variables import K, V
    from headrace.datastream.time_domain import TimeDomain
    from headrace.operators.timer_service import TimerService
    from headrace.state.descriptors import MapStateDescriptor, StateDescriptor
    from headrace.state.interfaces import BroadcastState, ReadOnlyBroadcastState


class BaseBroadcastProcessFunction(Function):
    """What functions with broadcast state have in common.

    Examples:
        >>> from headrace.datastream import BaseBroadcastProcessFunction, BroadcastProcessFunction
        >>> issubclass(BroadcastProcessFunction, BaseBroadcastProcessFunction)
        True
    """

    class BaseContext(ABC):
        """What a function learns about the record; only valid during the call."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The record's event time in milliseconds since the epoch; None when it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The clock's reading in milliseconds since the epoch; it stands still within an epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The event time that both streams have reached, in milliseconds."""

    class Context(BaseContext):
        """On the side of the stream that is broadcast."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
            """The map of a descriptor that was given to ``broadcast(...)``; what is done to it, all subtasks do."""

    class ReadOnlyContext(BaseContext):
        """On the side of the other stream."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> ReadOnlyBroadcastState[K, V]:
            """The map of a descriptor that was given to ``broadcast(...)``; it cannot be changed from here."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Works on the records of a stream without keys, and on those of a stream that is broadcast.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import BroadcastProcessFunction
        >>> from headrace.datastream.state import MapStateDescriptor
        >>> from headrace.testing import JobHarness
        >>> RATES = MapStateDescriptor("rates", Types.STRING(), Types.DOUBLE())
        >>> class InEuro(BroadcastProcessFunction):
        ...     def process_broadcast_element(self, value, ctx):
        ...         currency, rate = value
        ...         ctx.get_broadcast_state(RATES).put(currency, rate)
        ...     def process_element(self, value, ctx):
        ...         currency, amount = value
        ...         yield amount * ctx.get_broadcast_state(RATES).get(currency)
        >>> def job(harness):
        ...     prices = harness.add_source("prices", Types.TUPLE([str, float]))
        ...     rates = harness.add_source("rates", Types.TUPLE([str, float])).broadcast(RATES)
        ...     harness.add_sink("euro", prices.connect(rates).process(InEuro(), output_type=float))
        >>> with JobHarness(job) as harness:
        ...     harness.push("rates", ("GBP", 1.25))
        ...     harness.run_epoch()
        ...     harness.push("prices", ("GBP", 4.0))
        ...     harness.run_epoch()
        ...     print(harness.results("euro"))
        [5.0]
    """

    @abstractmethod
    def process_element(
        self, value: IN1_contra, ctx: BaseBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the stream that is not broadcast, in one of the subtasks.

        ``yield value`` emits a record, ``yield tag, value`` emits one to the side output of an ``OutputTag``.
        """

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2_contra, ctx: BaseBroadcastProcessFunction.Context
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the stream that is broadcast, in every subtask: what it emits, each of them emits.

        What it does to broadcast state must follow from the record and that state alone, so that all subtasks have the
        same.
        """


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[K_contra, IN1_contra, IN2_contra, OUT_co]):
    """Works on the records of a keyed stream, with state and timers, and on those of a stream that is broadcast.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import KeyedBroadcastProcessFunction
        >>> from headrace.datastream.state import MapStateDescriptor, ValueStateDescriptor
        >>> from headrace.testing import JobHarness
        >>> LIMIT = MapStateDescriptor("limit", Types.STRING(), Types.LONG())
        >>> TOTAL = ValueStateDescriptor("total", Types.LONG())
        >>> class Above(KeyedBroadcastProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.total = runtime_context.get_state(TOTAL)
        ...     def process_element(self, value, ctx):
        ...         self.total.update((self.total.value() or 0) + value[1])
        ...         limit = ctx.get_broadcast_state(LIMIT).get("all")
        ...         if limit is not None and self.total.value() > limit:
        ...             yield ctx.get_current_key(), self.total.value()
        ...     def process_broadcast_element(self, limit, ctx):
        ...         ctx.get_broadcast_state(LIMIT).put("all", limit)
        ...         ctx.apply_to_keyed_state(TOTAL, lambda card, total: total.clear())  # all begin anew
        >>> def job(harness):
        ...     payments = harness.add_source("payments", Types.TUPLE([str, int])).key_by(lambda payment: payment[0])
        ...     limits = harness.add_source("limits", int).broadcast(LIMIT)
        ...     above = payments.connect(limits).process(Above(), output_type=Types.TUPLE([str, int]))
        ...     harness.add_sink("above", above)
        >>> with JobHarness(job) as harness:
        ...     harness.push("limits", 5)
        ...     harness.run_epoch()
        ...     harness.push_all("payments", [("a", 4), ("a", 2)])
        ...     harness.run_epoch()
        ...     print(harness.results("above"))
        [('a', 6)]
    """

    class Context(BaseBroadcastProcessFunction.Context, Generic[K_co]):
        """On the side of the stream that is broadcast; there is no key, so neither keyed state nor timers."""

        @abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: Callable[[K_co, Any], object]
        ) -> None:
            """Calls ``function(key, state)`` for each key of this subtask that has something in a keyed state.

            PyFlink has no such method. Every subtask does this for the keys that it has, so together for all. The keys
            come in the order of their hashes.

            Args:
                state_descriptor: that of the state, as in ``open``.
                function: may read and change the state of the key.
            """

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, Generic[K_co]):
        """On the side of the keyed stream."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Tells the time, and sets and deletes timers of the current key."""

        @abstractmethod
        def get_current_key(self) -> K_co:
            """The key of the record or of the timer."""

    class OnTimerContext(ReadOnlyContext[K_co]):
        """What ``on_timer`` learns about the timer."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Whether the timer is one of event time or of processing time."""

    @abstractmethod
    def process_element(
        self, value: IN1_contra, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[K_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the keyed stream.

        ``yield value`` emits a record, ``yield tag, value`` emits one to the side output of an ``OutputTag``.
        """

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2_contra, ctx: KeyedBroadcastProcessFunction.Context[K_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the stream that is broadcast, in every subtask: what it emits, each of them emits.

        What it does to broadcast state must follow from the record and that state alone, so that all subtasks have the
        same.
        """

    @does_nothing
    def on_timer(
        self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext[K_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a timer fires, once for each key, time and time domain; emits as ``process_element`` does.

        Args:
            timestamp: the time that the timer was set for, in milliseconds.
            ctx: the key, the time, and timers to set.
        """
