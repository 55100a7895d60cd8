"""``BroadcastStream``: a stream that every subtask gets as a whole; and another stream connected with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, overload

from headrace.common.arguments import expect, refused, shown
from headrace.common.errors import InvalidTypeError
from headrace.common.function_types import Role
from headrace.common.signatures import warn_without_results
from headrace.common.type_variables import OUT, T2_co, T_co
from headrace.datastream.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from headrace.datastream.streams.checks import check_methods, check_same_environment
from headrace.datastream.streams.connected.broadcast_misuse import check_broadcast_use
from headrace.datastream.streams.keyed_stream import KeyedStream
from headrace.datastream.streams.timer_misuse import check_has_no_timers, check_sets_no_timers
from headrace.datastream.streams.timestamps import check_has_event_time
from headrace.datastream.streams.types import origin_of, result_type
from headrace.graph.process_specs import BroadcastProcessSpec, KeyedBroadcastProcessSpec
from headrace.operators.broadcast.broadcast_operator import NO_TIMERS
from headrace.operators.functions import BROADCAST_INPUT
from headrace.state.descriptors import MapStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.typeinfo import DeclaredType
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.datastream.streams.process_protocols import SupportsBroadcastProcess


class BroadcastStream(Generic[T_co]):
    """A stream that every subtask gets as a whole, and what may be kept of it; ``connect`` takes it.

    Args:
        stream: the stream.
        descriptors: those of the broadcast state, at least one.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.state import MapStateDescriptor
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> rules = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
        >>> env.from_collection([("tea", 3)]).broadcast(rules)
        BroadcastStream(rules)
    """

    def __init__(self, stream: DataStream[T_co], descriptors: Sequence[MapStateDescriptor]) -> None:
        names: set[str] = set()
        for descriptor in descriptors:
            expect(descriptor, MapStateDescriptor, "broadcast")
            if descriptor.name in names:
                raise refused(f"broadcast was given two descriptors of the name {descriptor.name!r}")
            if descriptor.ttl is not None:
                raise refused(
                    f"broadcast state has no time to live, since subtasks would not forget alike: {descriptor.name!r} "
                    "must not enable one"
                )
            names.add(descriptor.name)
        self._stream = stream
        self._descriptors = tuple(descriptors)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(descriptor.name for descriptor in self._descriptors)})"


class BroadcastConnectedStream(Generic[T_co, T2_co]):
    """A stream connected with one that is broadcast.

    Args:
        stream: the stream whose ``connect`` was called.
        broadcast: the other one.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
        >>> from headrace.datastream.state import MapStateDescriptor
        >>> PRICES = MapStateDescriptor("prices", Types.STRING(), Types.DOUBLE())
        >>> class Priced(BroadcastProcessFunction):
        ...     def process_broadcast_element(self, value, ctx):
        ...         ctx.get_broadcast_state(PRICES).put(*value)
        ...     def process_element(self, value, ctx):
        ...         yield value, ctx.get_broadcast_state(PRICES).get(value)
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> prices = env.from_collection([("tea", 2.5)]).broadcast(PRICES)
        >>> orders = env.from_collection(["tea"])
        >>> len(orders.connect(prices).process(Priced()).execute_and_collect(limit=10))
        1
    """

    def __init__(self, stream: DataStream[T_co], broadcast: BroadcastStream[T2_co]) -> None:
        environments = stream.get_execution_environment(), broadcast._stream.get_execution_environment()
        check_same_environment(*environments, "connect")
        self._stream = stream
        self._broadcast = broadcast
        self._in_order = False

    def in_event_time_order(self) -> BroadcastConnectedStream[T_co, T2_co]:
        """Has records of both streams wait until event time has come to them, and come sorted by their timestamps.

        So what is broadcast takes effect in event time, whichever records are read together, and timers fire between
        the records where their times are. Of records with one timestamp those that are broadcast come first. A late
        record comes at once. Flink has no such method.

        Raises:
            InvalidProgramError: when one of both streams has no event time.

        Examples:
            >>> from headrace.common import Types
            >>> from headrace.datastream import KeyedBroadcastProcessFunction
            >>> from headrace.datastream.state import MapStateDescriptor
            >>> from headrace.testing import JobHarness
            >>> RATES = MapStateDescriptor("rates", Types.STRING(), Types.LONG())
            >>> class InEuros(KeyedBroadcastProcessFunction):
            ...     def process_broadcast_element(self, rate, ctx):
            ...         ctx.get_broadcast_state(RATES).put(*rate)
            ...     def process_element(self, payment, ctx):
            ...         yield payment[0], payment[1] * ctx.get_broadcast_state(RATES).get(payment[0])
            >>> def job(harness):
            ...     pair = Types.TUPLE([Types.STRING(), Types.LONG()])
            ...     payments, rates = harness.add_source("payments", pair).key_by(0), harness.add_source("rates", pair)
            ...     connected = payments.connect(rates.broadcast(RATES)).in_event_time_order()
            ...     harness.add_sink("euros", connected.process(InEuros(), output_type=pair))
            >>> with JobHarness(job) as harness:
            ...     harness.push("payments", ("GBP", 10), timestamp=5)  # read before its rate
            ...     harness.run_epoch()
            ...     harness.push_all("rates", [("GBP", 2), ("GBP", 3)], [4, 6])
            ...     harness.finish()
            ...     print(harness.results("euros"))
            [('GBP', 20)]
        """
        for stream, which in ((self._stream, "first"), (self._broadcast._stream, "broadcast")):
            check_has_event_time(stream._transformations.graph, stream._operator_ids(), which, "in_event_time_order()")
        ordered = BroadcastConnectedStream(self._stream, self._broadcast)
        ordered._in_order = True
        return ordered

    @overload
    def process(
        self, func: SupportsBroadcastProcess[T_co, T2_co, OUT], output_type: None = None
    ) -> DataStream[OUT]: ...
    @overload
    def process(
        self, func: SupportsBroadcastProcess[T_co, T2_co, Any], output_type: DeclaredType[OUT]
    ) -> DataStream[OUT]: ...
    def process(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Applies a function to the records of both streams.

        Args:
            func: a ``KeyedBroadcastProcessFunction`` where the stream is keyed, else a ``BroadcastProcessFunction``.
            output_type: the type of what it yields; taken from its annotations when left out.

        Raises:
            InvalidTypeError: when it is no such function.
            InvalidProgramError: when its source shows that it misuses broadcast state, state of keys or timers.
        """
        is_keyed = isinstance(self._stream, KeyedStream)
        base, other = BroadcastProcessFunction, KeyedBroadcastProcessFunction
        if is_keyed:
            base, other = other, base  # type: ignore[assignment]
        if isinstance(func, other):
            hint = "the stream is keyed" if is_keyed else "the stream has no keys: call key_by(...) before connect(...)"
            raise refused(f"expected a {base.__name__}, got {shown(func)}: {hint}", InvalidTypeError)
        check_methods(func, base, *BROADCAST_INPUT)
        check_broadcast_use(func, self._broadcast._descriptors)
        if is_keyed:
            check_sets_no_timers(func, ("process_broadcast_element",), NO_TIMERS)
        else:
            check_has_no_timers(func, BROADCAST_INPUT, "call key_by(...) before connect(...)")
        warn_without_results(func, *BROADCAST_INPUT, "on_timer")
        make = KeyedBroadcastProcessSpec if is_keyed else BroadcastProcessSpec
        found = result_type(output_type, func, Role.MANY)
        spec = make(func, found, self._broadcast._descriptors, in_event_time_order=self._in_order)
        name = "Co-Keyed-Broadcast-Process" if is_keyed else "Co-Broadcast-Process"
        return self._stream._apply(spec, name, self._broadcast._stream, origin=origin_of(output_type))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._stream!r}, {self._broadcast!r})"
