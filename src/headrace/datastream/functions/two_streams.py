"""Functions of the user for the records of two streams: connected, one of them broadcast, or joined."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic

from headrace.common.output_tag import ToSideOutput
from headrace.common.type_variables import IN1_contra, IN2_contra, K, K_co, K_contra, OUT_co, T_contra, V, V_contra
from headrace.datastream.functions.one_stream import Function, KeyedProcessFunction, ProcessFunction
from headrace.datastream.time_domain import TimeDomain
from headrace.operators.functions import does_nothing
from headrace.operators.timer_service import TimerService
from headrace.state.descriptors import MapStateDescriptor, StateDescriptor
from headrace.state.interfaces import BroadcastState, ReadOnlyBroadcastState


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
        >>> class Described(CoProcessFunction):
        ...     def process_element1(self, value, ctx):
        ...         yield f"order {value}"
        ...     def process_element2(self, value, ctx):
        ...         yield f"payment {value}"
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> orders, payments = env.from_collection([1]), env.from_collection([1])
        >>> sorted(orders.connect(payments).process(Described(), output_type=str).execute_and_collect(limit=10))
        ['order 1', 'payment 1']
    """

    class Context(ProcessFunction.Context):
        """Tells a function about the record; only valid during the call."""

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
        """Tells a function about the record, as that of a :class:`KeyedProcessFunction` does."""

    class OnTimerContext(Context[K_co], KeyedProcessFunction.OnTimerContext[K_co]):
        """Tells ``on_timer`` about the timer, as that of a :class:`KeyedProcessFunction` does."""

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


class BaseBroadcastProcessFunction(Function):
    """The root of functions with broadcast state.

    Examples:
        >>> from headrace.datastream import BaseBroadcastProcessFunction, BroadcastProcessFunction
        >>> issubclass(BroadcastProcessFunction, BaseBroadcastProcessFunction)
        True
    """

    class BaseContext(ABC):
        """Tells a function about the record; only valid during the call."""

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
        """Tells ``on_timer`` about the timer."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return whether the timer is one of event time or of processing time."""

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


class ProcessJoinFunction(Function, Generic[T_contra, V_contra, OUT_co]):
    """Works on the pairs of an interval join; Flink's Java API has it, PyFlink does not.

    Examples:
        >>> from headrace.datastream import ProcessJoinFunction
        >>> from headrace.testing import JobHarness
        >>> class Delay(ProcessJoinFunction):
        ...     def process_element(self, left, right, ctx):
        ...         yield f"{left} paid after {ctx.get_right_timestamp() - ctx.get_left_timestamp()} ms"
        >>> def job(harness):
        ...     orders = harness.add_source("orders", str).key_by(lambda order: order)
        ...     payments = harness.add_source("payments", str).key_by(lambda order: order)
        ...     joined = orders.interval_join(payments).between(0, 60_000)
        ...     harness.add_sink("delays", joined.process(Delay(), output_type=str))
        >>> with JobHarness(job) as harness:
        ...     harness.push("orders", "a1", timestamp=1_000)
        ...     harness.push("payments", "a1", timestamp=3_500)
        ...     harness.finish()
        ...     print(harness.results("delays"))
        ['a1 paid after 2500 ms']
    """

    class Context(ABC):
        """Tells a function about the pair; only valid during the call."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """The event time of the left record, in milliseconds; an error where there is none, in an outer join."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """The event time of the right record, in milliseconds; an error where there is none, in an outer join."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """The event time of what is emitted: the later one of both.

            Of a record without a partner it is the time at which that was sure.
            """

    @abstractmethod
    def process_element(
        self, left: T_contra, right: V_contra, ctx: ProcessJoinFunction.Context
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each pair of records that match, once; in an outer join also with None in place of a partner.

        ``yield value`` emits a record, ``yield tag, value`` emits one to the side output of an ``OutputTag``.
        """


class JoinFunction(Function, Generic[T_contra, V_contra, OUT_co]):
    """Makes one record of each pair of a window join; Flink's Java API has it, PyFlink does not.

    Examples:
        >>> from headrace.datastream import JoinFunction
        >>> class Paid(JoinFunction):
        ...     def join(self, first, second):
        ...         return first["id"], first["amount"] - second["amount"]
        >>> Paid().join({"id": "a1", "amount": 20}, {"amount": 15})
        ('a1', 5)

        ``orders.join(payments).where("id").equal_to("id").window(...).apply(Paid())`` gives that of all pairs.
    """

    @abstractmethod
    def join(self, first: T_contra, second: V_contra) -> OUT_co:
        """The record that a pair becomes; in an outer join one of both may be None."""


class FlatJoinFunction(Function, Generic[T_contra, V_contra, OUT_co]):
    """Makes any number of records of each pair of a window join; Flink's Java API has it, PyFlink does not.

    Examples:
        >>> from headrace.datastream import FlatJoinFunction
        >>> class Open(FlatJoinFunction):
        ...     def join(self, first, second):
        ...         if first > second:
        ...             yield first - second
        >>> list(Open().join(20, 15)), list(Open().join(20, 20))
        ([5], [])
    """

    @abstractmethod
    def join(self, first: T_contra, second: V_contra) -> Iterable[OUT_co | ToSideOutput] | None:
        """Yields the records that a pair becomes; in an outer join one of both may be None."""


class CoGroupFunction(Function, Generic[T_contra, V_contra, OUT_co]):
    """Works on all records of a key and a window, of two streams; Flink's Java API has it, PyFlink does not.

    Examples:
        >>> from headrace.datastream import CoGroupFunction
        >>> class Unpaid(CoGroupFunction):
        ...     def co_group(self, first, second):
        ...         if not list(second):
        ...             yield from first
        >>> list(Unpaid().co_group(["a1"], [])), list(Unpaid().co_group(["b2"], [20.0]))
        (['a1'], [])
    """

    @abstractmethod
    def co_group(self, first: Iterable[T_contra], second: Iterable[V_contra]) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each key and window that holds a record of one of the streams; yields results.

        Args:
            first: the records of the first stream, in the order in which they came; there may be none.
            second: those of the second one.
        """
