"""Functions of two connected streams, which share state and time."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic

from headrace.common.type_variables import IN1_contra, IN2_contra, K_co, K_contra, OUT_co
from headrace.datastream.functions.function import Function
from headrace.datastream.functions.process import KeyedProcessFunction, ProcessFunction
from headrace.operators.functions import does_nothing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.common.output_tag import ToSideOutput


class CoMapFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Makes one record, or none, of each record of two streams.

    Examples:
        >>> from headrace.datastream import CoMapFunction, StreamExecutionEnvironment
        >>> class Spelled(CoMapFunction):
        ...     def map1(self, value: int) -> str:
        ...         return f"number {value}"
        ...     def map2(self, value: str) -> str:
        ...         return f"text {value}"
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers, texts = env.from_collection([1, 2]), env.from_collection(["a"])
        >>> sorted(numbers.connect(texts).map(Spelled()).execute_and_collect(limit=10))
        ['number 1', 'number 2', 'text a']
    """

    @abstractmethod
    def map1(self, value: IN1_contra) -> OUT_co | None:
        """The record that one of the first stream becomes; None for no record."""

    @abstractmethod
    def map2(self, value: IN2_contra) -> OUT_co | None:
        """The record that one of the second stream becomes; None for no record."""


class CoFlatMapFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Makes any number of records of each record of two streams.

    Examples:
        >>> from collections.abc import Iterator
        >>> from headrace.datastream import CoFlatMapFunction, StreamExecutionEnvironment
        >>> class Words(CoFlatMapFunction):
        ...     def flat_map1(self, value: str) -> Iterator[str]:
        ...         yield from value.split()
        ...     def flat_map2(self, value: list[str]) -> Iterator[str]:
        ...         yield from value
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> lines, lists = env.from_collection(["to be"]), env.from_collection([["or", "not"]])
        >>> sorted(lines.connect(lists).flat_map(Words()).execute_and_collect(limit=10))
        ['be', 'not', 'or', 'to']
    """

    @abstractmethod
    def flat_map1(self, value: IN1_contra) -> Iterable[OUT_co] | None:
        """Yields the records that one of the first stream becomes, or returns something to iterate over."""

    @abstractmethod
    def flat_map2(self, value: IN2_contra) -> Iterable[OUT_co] | None:
        """Yields the records that one of the second stream becomes, or returns something to iterate over."""


class CoProcessFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Works on the records of two streams one by one, and sees their timestamps and the time.

    Event time is the earlier one of both streams. On streams that are both keyed it has state and timers as a
    :class:`KeyedCoProcessFunction` has.

    Examples:
        >>> from headrace.datastream import CoProcessFunction, StreamExecutionEnvironment
        >>> class Told(CoProcessFunction):
        ...     def process_element1(self, value, ctx):
        ...         yield f"order {value}"
        ...     def process_element2(self, value, ctx):
        ...         yield f"payment {value}"
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> orders, payments = env.from_collection([1]), env.from_collection([1])
        >>> sorted(orders.connect(payments).process(Told(), output_type=str).execute_and_collect(limit=10))
        ['order 1', 'payment 1']
    """

    class Context(ProcessFunction.Context):
        """What a function learns about the record; only valid during the call."""

    @abstractmethod
    def process_element1(
        self, value: IN1_contra, ctx: CoProcessFunction.Context
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the first stream.

        ``yield value`` emits a record, ``yield tag, value`` emits one to the side output of an ``OutputTag``.
        """

    @abstractmethod
    def process_element2(
        self, value: IN2_contra, ctx: CoProcessFunction.Context
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the second stream; emits as ``process_element1`` does."""

    @does_nothing
    def on_timer(
        self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a timer fires; only keyed streams have timers."""


class KeyedCoProcessFunction(Function, Generic[K_contra, IN1_contra, IN2_contra, OUT_co]):
    """Works on the records of two keyed streams one by one; both see the same state and timers of their key.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import KeyedCoProcessFunction
        >>> from headrace.datastream.state import ValueStateDescriptor
        >>> from headrace.testing import JobHarness
        >>> class Unpaid(KeyedCoProcessFunction):
        ...     "Tells of an order that was not paid for within a minute."
        ...     def open(self, runtime_context):
        ...         self.is_paid = runtime_context.get_state(ValueStateDescriptor("paid", Types.BOOLEAN()))
        ...     def process_element1(self, order, ctx):
        ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
        ...     def process_element2(self, payment, ctx):
        ...         self.is_paid.update(True)
        ...     def on_timer(self, timestamp, ctx):
        ...         if not self.is_paid.value():
        ...             yield f"{ctx.get_current_key()} is not paid for"
        >>> def job(harness):
        ...     orders = harness.add_source("orders", str).key_by(lambda order: order)
        ...     payments = harness.add_source("payments", str).key_by(lambda order: order)
        ...     harness.add_sink("unpaid", orders.connect(payments).process(Unpaid(), output_type=str))
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("orders", ["tea", "cake"], [0, 1_000])
        ...     harness.push("payments", "tea", timestamp=30_000)
        ...     harness.finish()
        ...     print(harness.results("unpaid"))
        ['cake is not paid for']
    """

    class Context(KeyedProcessFunction.Context[K_co], CoProcessFunction.Context):
        """What a function learns about the record, as a :class:`KeyedProcessFunction` does."""

    class OnTimerContext(Context[K_co], KeyedProcessFunction.OnTimerContext[K_co]):
        """What ``on_timer`` learns about the timer, as that of a :class:`KeyedProcessFunction` does."""

    @abstractmethod
    def process_element1(
        self, value: IN1_contra, ctx: KeyedCoProcessFunction.Context[K_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the first stream.

        ``yield value`` emits a record, ``yield tag, value`` emits one to the side output of an ``OutputTag``.
        """

    @abstractmethod
    def process_element2(
        self, value: IN2_contra, ctx: KeyedCoProcessFunction.Context[K_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record of the second stream; emits as ``process_element1`` does."""

    @does_nothing
    def on_timer(
        self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext[K_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a timer fires, once for each key, time and time domain; emits as ``process_element1`` does.

        Args:
            timestamp: the time that the timer was set for, in milliseconds.
            ctx: the key, the time, and timers to set.
        """
